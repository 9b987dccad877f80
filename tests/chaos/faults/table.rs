//! All rows, and what proves them. The case numbers are those of the project's lists of faults (F)
//! and of reports about comparable systems (R); D stands for sentences of the design.

use super::elsewhere::Tests;
use super::{clocks, partitions, processes, reports, updates};

/// How a row is proved.
pub enum How {
    /// By a scenario of this program; it gives figures.
    Here(fn() -> String),
    /// By tests elsewhere.
    Elsewhere(Tests),
    /// Not at all yet, and why.
    NotRun(&'static str),
}

/// One fault.
pub struct Row {
    /// Its name.
    pub id: &'static str,
    /// What is run.
    pub what: &'static str,
    /// What proves it.
    pub how: How,
    /// Whether it is in every run of the tests.
    pub is_quick: bool,
}

type Scenario = fn() -> String;

fn here(id: &'static str, what: &'static str, scenario: Scenario) -> Row {
    Row {
        id,
        what,
        how: How::Here(scenario),
        is_quick: false,
    }
}

fn quick(id: &'static str, what: &'static str, scenario: Scenario) -> Row {
    Row {
        is_quick: true,
        ..here(id, what, scenario)
    }
}

fn by(
    id: &'static str,
    what: &'static str,
    package: &'static str,
    names: &'static [&'static str],
) -> Row {
    Row {
        id,
        what,
        how: How::Elsewhere(Tests { package, names }),
        is_quick: false,
    }
}

fn not_run(id: &'static str, what: &'static str, why: &'static str) -> Row {
    Row {
        id,
        what,
        how: How::NotRun(why),
        is_quick: false,
    }
}

/// All of them.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(of_processes());
    rows.extend(of_members_and_clocks());
    rows.extend(of_disks());
    rows.extend(of_networks());
    rows.extend(of_identities_and_workers());
    rows.extend(of_consensus_and_load());
    rows.extend(of_reports());
    rows
}

fn of_processes() -> Vec<Row> {
    vec![
        by(
            "F14",
            "controllers and workers of neighbouring protocols; a feature waits for all",
            "xce-tests",
            &[
                "the_feature_level_rises_when_all_support_it_and_features_wait_for_it",
                "a_worker_and_a_controller_of_neighbouring_protocols_work_together",
                "a_record_of_a_newer_program_stops_a_controller_with_its_name",
            ],
        ),
        quick(
            "F01a",
            "the primary is killed under load, twice",
            processes::leader_killed_quickly,
        ),
        here(
            "F01",
            "the primary is killed under load, 20 times",
            processes::leader_killed,
        ),
        here(
            "F02",
            "each standby is killed under load",
            processes::follower_killed,
        ),
        here(
            "F03",
            "all controllers are killed under load and start in another order",
            processes::all_controllers_killed,
        ),
        by(
            "F04",
            "a process dies at each operation of the log; the power goes; an operation fails",
            "xce-wal",
            &[
                "a_process_may_die_at_any_operation",
                "the_power_may_go_at_any_operation",
                "any_operation_may_fail_with_eio",
                "any_operation_may_find_no_space",
            ],
        ),
        here(
            "F05",
            "the primary is stopped for 5 s and goes on",
            processes::leader_paused,
        ),
        here(
            "F06",
            "a worker is stopped for less, then for more than the grace",
            processes::worker_paused,
        ),
        not_run(
            "F07",
            "the scheduler is stopped for minutes",
            "needs the scheduler as a daemon",
        ),
        not_run(
            "F08",
            "the scheduler is killed amid its decisions",
            "needs the scheduler as a daemon",
        ),
        by(
            "F09",
            "a worker is killed while its jobs run",
            "xce-tests",
            &["jobs_survive_the_kill_of_their_worker_with_the_same_processes"],
        ),
        by(
            "F11",
            "a worker is killed between the end of a job and its report",
            "xce-tests",
            &["ends_that_no_worker_saw_are_told_exactly_once"],
        ),
        by(
            "F12",
            "the shim of a job is killed",
            "xce-shim",
            &["a_killed_shim_takes_the_tree_along_and_the_run_is_lost"],
        ),
        here(
            "F13",
            "every daemon is restarted in turn during an update",
            processes::all_restarted_in_order,
        ),
        here(
            "F13b",
            "the primary is killed at every step of an update",
            updates::leader_killed_at_every_step,
        ),
    ]
}

fn of_members_and_clocks() -> Vec<Row> {
    vec![
        by(
            "F15",
            "a member whose directory was emptied or is older comes in again",
            "xce-wal",
            &[
                "an_emptied_log_comes_in_again_and_founds_nothing",
                "an_older_directory_does_not_vote_and_comes_in_again",
            ],
        ),
        by(
            "F17",
            "a copy of a member's directory is started",
            "xce-wal",
            &["a_copy_of_a_directory_is_refused_while_the_first_runs"],
        ),
        by(
            "D2",
            "one controller of three begins anew",
            "xce-tests",
            &["one_controller_of_three_begins_anew_and_the_others_never_come_back"],
        ),
        by(
            "F16",
            "members come and go, one at a time",
            "xce-wal",
            &["members_come_and_go_one_at_a_time"],
        ),
        here(
            "F18",
            "the wall clock jumps by an hour on the primary",
            clocks::jump,
        ),
        here("F19", "the wall clock jumps to and fro", clocks::strobe),
        here("F20", "clocks differ by minutes", clocks::apart),
        not_run(
            "F21",
            "daylight saving and leap second at a planned start",
            "there are no planned starts yet",
        ),
        by(
            "F23",
            "the limit of a run over a clock jump",
            "xce-shim",
            &["the_run_limit_stops_and_then_kills"],
        ),
    ]
}

fn of_disks() -> Vec<Row> {
    vec![
        by(
            "F29",
            "the disk hangs for seconds",
            "xce-wal",
            &["a_disk_that_hangs_for_seconds_holds_up_no_beats_and_no_elections"],
        ),
        by(
            "F37",
            "damage at the same place on two of three",
            "xce-wal",
            &["damage_on_a_majority_is_refused_and_nothing_is_touched"],
        ),
        by(
            "F24",
            "the controller's disk is full",
            "xce-tests",
            &["a_full_disk_stops_writes_and_nothing_else"],
        ),
        by(
            "F25",
            "no space while a snapshot is written",
            "xce-wal",
            &["one_that_cannot_be_written_raises_an_alarm_and_changes_nothing"],
        ),
        by(
            "F26",
            "no space on a worker",
            "xce-worker",
            &["a_full_disk_is_told_and_ends_are_too"],
        ),
        by(
            "F28",
            "EIO from each operation of the log",
            "xce-wal",
            &["any_operation_may_fail_with_eio"],
        ),
        by(
            "F30",
            "what was not synced is lost",
            "xce-wal",
            &["after_a_power_cut_at_any_write_all_that_was_acknowledged_is_there_in_order"],
        ),
        by(
            "F31",
            "torn writes",
            "xce-wal",
            &[
                "a_torn_tail_is_dropped_at_every_cut",
                "blocks_of_the_last_batch_may_arrive_in_any_order",
            ],
        ),
        by(
            "F32",
            "writes that arrive in another order",
            "xce-wal",
            &[
                "blocks_of_the_last_batch_may_arrive_in_any_order",
                "the_power_may_go_at_any_operation",
            ],
        ),
        by(
            "F33",
            "flipped bits in the log",
            "xce-wal",
            &[
                "a_flipped_bit_in_the_acknowledged_part_never_loses_anything_silently",
                "a_flipped_bit_in_an_older_segment_is_refused_by_name",
            ],
        ),
        by(
            "F35",
            "flipped bits in a snapshot",
            "xce-wal",
            &[
                "no_flipped_bit_and_no_cut_gives_another_state",
                "a_broken_newest_one_falls_back_to_the_older_and_the_log",
            ],
        ),
        by(
            "F39",
            "the directory of another cluster",
            "xce-tests",
            &["a_directory_of_another_cluster_is_refused_by_name"],
        ),
        by(
            "F40",
            "the directory is empty at a start",
            "xce-tests",
            &["the_leadership_is_handed_over_and_controllers_come_and_go"],
        ),
        by(
            "F42",
            "two processes on one directory",
            "xce-tests",
            &["a_second_cluster_in_the_same_home_is_refused"],
        ),
    ]
}

fn of_networks() -> Vec<Row> {
    vec![
        quick(
            "F43",
            "the primary and two hosts are cut from the rest",
            partitions::minority,
        ),
        here(
            "F44",
            "the primary is cut from the other controllers only, both ways, out, in",
            partitions::leader_from_quorum,
        ),
        here(
            "F46",
            "two controllers meet only over the third",
            partitions::bridge,
        ),
        here(
            "F47",
            "one direction is cut: standby to primary, primary to standby, worker to controllers",
            partitions::one_way,
        ),
        here(
            "F48",
            "two hosts and a standby are cut every other second",
            partitions::flapping,
        ),
        here(
            "F49",
            "1, 10, 30 % loss with delay, jitter, doubles and wrong bytes on every link",
            partitions::lossy,
        ),
        here("F50", "10 kB/s to one standby", partitions::slow_follower),
        here(
            "F51",
            "a host, then the primary, is cut off without a last word",
            partitions::half_open,
        ),
        by(
            "F52",
            "a submission and a kill at any moment",
            "xce-tests",
            &["a_submission_survives_a_kill_at_any_moment"],
        ),
        by(
            "F54",
            "frames that are too long, cut, or slow",
            "xce-link",
            &[
                "an_oversized_frame_closes_only_its_peer",
                "a_frame_that_is_cut_or_late_ends_the_connection",
                "what_waits_for_a_peer_that_does_not_read_is_bounded",
            ],
        ),
        by(
            "F55",
            "garbage on the port",
            "xce-tests",
            &["garbage_on_the_port_harms_nobody"],
        ),
        not_run(
            "F56",
            "names that do not resolve",
            "controllers are known by address only",
        ),
        by(
            "F57",
            "more peers than handshakes at once",
            "xce-link",
            &["a_herd_larger_than_the_handshakes_at_once_gets_in"],
        ),
        here(
            "F58",
            "a worker is cut from the controllers only, for less and for more than the grace",
            partitions::worker_cut,
        ),
        by(
            "F59",
            "a client of another cluster",
            "xce-tests",
            &["a_client_of_another_cluster_is_turned_away"],
        ),
    ]
}

fn of_identities_and_workers() -> Vec<Row> {
    vec![
        not_run(
            "F60",
            "expired certificates",
            "needs certificates with a short life",
        ),
        by(
            "F61",
            "a token of somebody else",
            "xce-link",
            &["a_stolen_token_is_useless"],
        ),
        by(
            "F66",
            "a machine was started anew",
            "xce-worker",
            &["after_a_boot_every_run_is_told_and_nothing_starts"],
        ),
        by(
            "F68",
            "a task that reaps no children",
            "xce-shim",
            &["children_that_nobody_waits_for_do_not_pile_up"],
        ),
        by(
            "F69",
            "a daemon that leaves its session",
            "xce-shim",
            &["grandchildren_and_daemons_are_gone_at_the_end"],
        ),
        by(
            "F70",
            "a fork bomb",
            "xce-shim",
            &[
                "a_tree_that_keeps_forking_is_ended",
                "the_process_limit_holds",
            ],
        ),
        by(
            "F73",
            "a task that takes too much memory",
            "xce-shim",
            &["the_memory_limit_kills_with_its_cause"],
        ),
        by(
            "F76",
            "probes that hang",
            "xce-worker",
            &["a_hanging_probe_is_killed_with_its_group"],
        ),
        not_run(
            "F79",
            "no processor for the worker",
            "needs priorities of a machine of its own",
        ),
    ]
}

fn of_consensus_and_load() -> Vec<Row> {
    vec![
        by(
            "F83",
            "a log that cannot be used is set aside",
            "xce-wal",
            &["a_damaged_log_is_set_aside_and_its_controller_comes_in_again"],
        ),
        by(
            "F84",
            "the primary cannot write",
            "xce-wal",
            &["a_primary_whose_disk_fails_ends_and_another_one_leads"],
        ),
        by(
            "F86",
            "the state differs between controllers",
            "xce-wal",
            &["a_state_that_differs_from_the_others_stops_its_node_which_begins_again"],
        ),
        by(
            "F91",
            "all hosts are drained at once",
            "xce-tests",
            &["f91_all_hosts_at_once_leave_what_must_be_available"],
        ),
        by(
            "D1",
            "a watch over changes of the primary, and a fenced token",
            "xce-tests",
            &[
                "a_watch_goes_on_under_each_new_primary_without_a_gap_or_a_double",
                "a_fenced_token_stays_so_under_the_next_primary",
            ],
        ),
        by(
            "F80",
            "a tail that nobody agreed to",
            "xce-wal",
            &["an_isolated_primary_is_replaced_and_its_tail_is_overwritten"],
        ),
        by(
            "F81",
            "a late controller takes a snapshot while new ones are made",
            "xce-wal",
            &["a_late_node_gets_a_snapshot_in_parts_and_goes_on_where_the_way_broke"],
        ),
        by(
            "F87",
            "10 000 jobs wait",
            "xce-placement",
            &["ten_thousand_waiting_jobs_fill_the_hosts_and_then_nothing"],
        ),
        by(
            "F88",
            "readers that never read",
            "xce-link",
            &["a_peer_that_does_not_read_is_cut_off"],
        ),
        by(
            "F89",
            "jobs that never fit",
            "xce-tests",
            &["a_job_that_fits_nowhere_says_what_it_lacks"],
        ),
        not_run(
            "F85",
            "five controllers of one mind",
            "needs a cluster of five",
        ),
    ]
}

fn of_reports() -> Vec<Row> {
    vec![
        here(
            "R8",
            "three groups of hosts are cut in turn for longer than the grace",
            partitions::long_partitions,
        ),
        here(
            "R9",
            "a host is cut, replaced and healed; then the service grows",
            reports::indices_stay_unique,
        ),
        here(
            "R11",
            "the primary is cut from everybody",
            reports::leader_isolated,
        ),
        here(
            "R12",
            "five primaries are killed in a row, with a short grace",
            reports::fresh_grace,
        ),
        here(
            "R16",
            "each controller is killed under an array",
            reports::counts_add_up,
        ),
        here(
            "R23",
            "the former primary comes back",
            reports::old_leader_returns,
        ),
        here("R26", "20 % loss for 30 s", reports::heals_after_loss),
        here(
            "R55",
            "nine take-overs, by hand and by kill",
            reports::takeovers,
        ),
        by(
            "R3",
            "a worker restarts, its job is stopped",
            "xce-tests",
            &["a_stop_that_keeps_jobs_takes_them_up_again"],
        ),
        by(
            "R13",
            "everything is killed and started",
            "xce-tests",
            &["services_and_jobs_survive_the_kill_of_all_daemons"],
        ),
        by(
            "R17",
            "a damaged state directory of a worker",
            "xce-worker",
            &["a_damaged_state_directory_never_keeps_a_worker_from_starting"],
        ),
        by(
            "R50",
            "a host goes between plan and commit",
            "xce-ledger",
            &["placements_fit_or_are_refused"],
        ),
        by(
            "R59",
            "two hundred short jobs at once",
            "xce-shim",
            &["two_hundred_short_jobs_at_once_all_leave_a_record"],
        ),
    ]
}
