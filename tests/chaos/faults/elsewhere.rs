//! Rows that tests of other binaries prove: they are run, and not written twice.

use std::process::Command;

use super::results::Outcome;

/// Tests of one package.
#[derive(Debug, Clone, Copy)]
pub struct Tests {
    /// The package.
    pub package: &'static str,
    /// Their names, without the modules before.
    pub names: &'static [&'static str],
}

/// Names tests.
const fn of(package: &'static str, names: &'static [&'static str]) -> Tests {
    Tests { package, names }
}

/// All rows that are proved so: id, what is run, and the tests.
pub const ALL: &[(&str, &str, Tests)] = &[
    (
        "D1",
        "a watch over changes of the primary, and a fenced token",
        of(
            "xce-tests",
            &[
                "a_watch_goes_on_under_each_new_primary_without_a_gap_or_a_double",
                "a_fenced_token_stays_so_under_the_next_primary",
            ],
        ),
    ),
    (
        "D2",
        "one controller of three begins anew",
        of(
            "xce-tests",
            &["one_controller_of_three_begins_anew_and_the_others_never_come_back"],
        ),
    ),
    (
        "F04",
        "a process dies at each operation of the log; the power goes; an operation fails",
        of(
            "xce-wal",
            &[
                "a_process_may_die_at_any_operation",
                "the_power_may_go_at_any_operation",
                "any_operation_may_fail_with_eio",
                "any_operation_may_find_no_space",
            ],
        ),
    ),
    (
        "F09",
        "a worker is killed while its jobs run",
        of(
            "xce-tests",
            &["jobs_survive_the_kill_of_their_worker_with_the_same_processes"],
        ),
    ),
    (
        "F07",
        "the scheduler is stopped and goes on",
        of(
            "xce-tests",
            &["a_scheduler_that_is_stopped_is_told_of_and_nothing_old_counts_when_it_returns"],
        ),
    ),
    (
        "F08",
        "the scheduler is killed amid its decisions",
        of(
            "xce-tests",
            &["a_scheduler_that_is_killed_amid_its_decisions_places_every_job_once"],
        ),
    ),
    (
        "F11",
        "a worker is killed between the end of a job and its report",
        of(
            "xce-tests",
            &[
                "ends_that_no_worker_saw_are_told_exactly_once",
                "a_host_loses_and_doubles_nothing_wherever_it_dies",
                "a_controller_loses_and_doubles_no_report_wherever_it_dies",
            ],
        ),
    ),
    (
        "F12",
        "the shim of a job is killed",
        of(
            "xce-shim",
            &["a_killed_shim_takes_the_tree_along_and_the_run_is_lost"],
        ),
    ),
    (
        "F14",
        "controllers and workers of neighbouring protocols; a feature waits for all",
        of(
            "xce-tests",
            &[
                "the_feature_level_rises_when_all_support_it_and_features_wait_for_it",
                "a_worker_and_a_controller_of_neighbouring_protocols_work_together",
                "a_record_of_a_newer_program_stops_a_controller_with_its_name",
            ],
        ),
    ),
    (
        "F15",
        "a member whose directory was emptied or is older comes in again",
        of(
            "xce-wal",
            &[
                "an_emptied_log_comes_in_again_and_founds_nothing",
                "an_older_directory_does_not_vote_and_comes_in_again",
            ],
        ),
    ),
    (
        "F16",
        "members come and go, one at a time",
        of("xce-wal", &["members_come_and_go_one_at_a_time"]),
    ),
    (
        "F17",
        "a copy of a member's directory is started",
        of(
            "xce-wal",
            &["a_copy_of_a_directory_is_refused_while_the_first_runs"],
        ),
    ),
    (
        "F23",
        "the limit of a run over a clock jump",
        of("xce-shim", &["the_run_limit_stops_and_then_kills"]),
    ),
    (
        "F24",
        "the controller's disk is full",
        of("xce-tests", &["a_full_disk_stops_writes_and_nothing_else"]),
    ),
    (
        "F25",
        "no space while a snapshot is written",
        of(
            "xce-wal",
            &["one_that_cannot_be_written_raises_an_alarm_and_changes_nothing"],
        ),
    ),
    (
        "F26",
        "no space on a worker",
        of("xce-worker", &["a_full_disk_is_told_and_ends_are_too"]),
    ),
    (
        "F28",
        "EIO from each operation of the log",
        of("xce-wal", &["any_operation_may_fail_with_eio"]),
    ),
    (
        "F29",
        "the disk hangs for seconds",
        of(
            "xce-wal",
            &["a_disk_that_hangs_for_seconds_holds_up_no_beats_and_no_elections"],
        ),
    ),
    (
        "F30",
        "what was not synced is lost",
        of(
            "xce-wal",
            &["after_a_power_cut_at_any_write_all_that_was_acknowledged_is_there_in_order"],
        ),
    ),
    (
        "F31",
        "torn writes",
        of(
            "xce-wal",
            &[
                "a_torn_tail_is_dropped_at_every_cut",
                "blocks_of_the_last_batch_may_arrive_in_any_order",
            ],
        ),
    ),
    (
        "F32",
        "writes that arrive in another order",
        of(
            "xce-wal",
            &[
                "blocks_of_the_last_batch_may_arrive_in_any_order",
                "the_power_may_go_at_any_operation",
            ],
        ),
    ),
    (
        "F33",
        "flipped bits in the log",
        of(
            "xce-wal",
            &[
                "a_flipped_bit_in_the_acknowledged_part_never_loses_anything_silently",
                "a_flipped_bit_in_an_older_segment_is_refused_by_name",
            ],
        ),
    ),
    (
        "F35",
        "flipped bits in a snapshot",
        of(
            "xce-wal",
            &[
                "no_flipped_bit_and_no_cut_gives_another_state",
                "a_broken_newest_one_falls_back_to_the_older_and_the_log",
            ],
        ),
    ),
    (
        "F37",
        "damage at the same place on two of three",
        of(
            "xce-wal",
            &["damage_on_a_majority_is_refused_and_nothing_is_touched"],
        ),
    ),
    (
        "F39",
        "the directory of another cluster",
        of(
            "xce-tests",
            &["a_directory_of_another_cluster_is_refused_by_name"],
        ),
    ),
    (
        "F40",
        "the directory is empty at a start",
        of(
            "xce-tests",
            &["the_leadership_is_handed_over_and_controllers_come_and_go"],
        ),
    ),
    (
        "F42",
        "two processes on one directory",
        of(
            "xce-tests",
            &[
                "a_second_cluster_in_the_same_home_is_refused",
                "a_directory_serves_one_process_and_its_own_controller_only",
            ],
        ),
    ),
    (
        "F52",
        "a submission and a kill at any moment",
        of("xce-tests", &["a_submission_survives_a_kill_at_any_moment"]),
    ),
    (
        "F54",
        "frames that are too long, cut, or slow",
        of(
            "xce-link",
            &[
                "an_oversized_frame_closes_only_its_peer",
                "a_frame_that_is_cut_or_late_ends_the_connection",
                "what_waits_for_a_peer_that_does_not_read_is_bounded",
            ],
        ),
    ),
    (
        "F55",
        "garbage on the port",
        of("xce-tests", &["garbage_on_the_port_harms_nobody"]),
    ),
    (
        "F57",
        "more peers than handshakes at once",
        of(
            "xce-link",
            &["a_herd_larger_than_the_handshakes_at_once_gets_in"],
        ),
    ),
    (
        "F59",
        "a client of another cluster",
        of("xce-tests", &["a_client_of_another_cluster_is_turned_away"]),
    ),
    (
        "F61",
        "a token of somebody else",
        of("xce-link", &["a_stolen_token_is_useless"]),
    ),
    (
        "F62",
        "two workers claim one name",
        of("xce-host", &["a_name_belongs_to_the_worker_that_answers"]),
    ),
    (
        "F66",
        "a machine was started anew",
        of(
            "xce-worker",
            &["after_a_boot_every_run_is_told_and_nothing_starts"],
        ),
    ),
    (
        "F68",
        "a task that reaps no children",
        of(
            "xce-shim",
            &["children_that_nobody_waits_for_do_not_pile_up"],
        ),
    ),
    (
        "F69",
        "a daemon that leaves its session",
        of(
            "xce-shim",
            &["grandchildren_and_daemons_are_gone_at_the_end"],
        ),
    ),
    (
        "F70",
        "a fork bomb",
        of(
            "xce-shim",
            &[
                "a_tree_that_keeps_forking_is_ended",
                "the_process_limit_holds",
            ],
        ),
    ),
    (
        "F73",
        "a task that takes too much memory",
        of("xce-shim", &["the_memory_limit_kills_with_its_cause"]),
    ),
    (
        "F76",
        "probes that hang",
        of("xce-worker", &["a_hanging_probe_is_killed_with_its_group"]),
    ),
    (
        "F80",
        "a tail that nobody agreed to",
        of(
            "xce-wal",
            &["an_isolated_primary_is_replaced_and_its_tail_is_overwritten"],
        ),
    ),
    (
        "F81",
        "a late controller takes a snapshot while new ones are made",
        of(
            "xce-wal",
            &["a_late_node_gets_a_snapshot_in_parts_and_goes_on_where_the_way_broke"],
        ),
    ),
    (
        "F83",
        "a log that cannot be used is set aside",
        of(
            "xce-wal",
            &["a_damaged_log_is_set_aside_and_its_controller_comes_in_again"],
        ),
    ),
    (
        "F84",
        "the primary cannot write",
        of(
            "xce-wal",
            &["a_primary_whose_disk_fails_ends_and_another_one_leads"],
        ),
    ),
    (
        "F86",
        "the state differs between controllers",
        of(
            "xce-wal",
            &["a_state_that_differs_from_the_others_stops_its_node_which_begins_again"],
        ),
    ),
    (
        "F87",
        "10 000 jobs wait",
        of(
            "xce-placement",
            &["ten_thousand_waiting_jobs_fill_the_hosts_and_then_nothing"],
        ),
    ),
    (
        "F88",
        "readers that never read",
        of("xce-link", &["a_peer_that_does_not_read_is_cut_off"]),
    ),
    (
        "F89",
        "jobs that never fit",
        of("xce-tests", &["a_job_that_fits_nowhere_says_what_it_lacks"]),
    ),
    (
        "F91",
        "all hosts are drained at once",
        of(
            "xce-tests",
            &["f91_all_hosts_at_once_leave_what_must_be_available"],
        ),
    ),
    (
        "R1",
        "a lost replica was replaced before its worker starts again",
        of(
            "xce-deciding",
            &[
                "a_replica_ends_when_its_replacement_is_dispatched_and_holds_its_ports_until_it_is_gone",
                "a_service_ends_no_replica_of_a_host_that_is_back",
            ],
        ),
    ),
    (
        "R2",
        "a machine starts anew",
        of(
            "xce-worker",
            &["after_a_boot_every_run_is_told_and_nothing_starts"],
        ),
    ),
    (
        "R3",
        "a worker restarts, its job is stopped",
        of("xce-tests", &["a_stop_that_keeps_jobs_takes_them_up_again"]),
    ),
    (
        "R13",
        "everything is killed and started",
        of(
            "xce-tests",
            &["services_and_jobs_survive_the_kill_of_all_daemons"],
        ),
    ),
    (
        "R17",
        "a damaged state directory of a worker",
        of(
            "xce-worker",
            &["a_damaged_state_directory_never_keeps_a_worker_from_starting"],
        ),
    ),
    (
        "R18",
        "a worker is installed anew under its name",
        of(
            "xce-deciding",
            &["a_worker_that_was_installed_anew_takes_the_name_over"],
        ),
    ),
    (
        "R20",
        "a lost host is removed",
        of("xce-deciding", &["removing_a_lost_host_ends_what_it_held"]),
    ),
    (
        "R28",
        "most hosts fall silent at once",
        of(
            "xce-host",
            &[
                "a_mass_loss_needs_three_and_more_than_half",
                "losses_are_put_off_and_then_come_slowly",
            ],
        ),
    ),
    (
        "R32",
        "an operator knows that a host or a run is dead",
        of(
            "xce-deciding",
            &["an_operator_knows_that_a_host_or_a_run_is_dead"],
        ),
    ),
    (
        "R50",
        "a host goes between plan and commit",
        of("xce-ledger", &["placements_fit_or_are_refused"]),
    ),
    (
        "R56",
        "a host comes back with a run that was requeued",
        of(
            "xce-deciding",
            &["batch_jobs_run_again_in_their_place_or_end"],
        ),
    ),
    (
        "R58",
        "a job is requeued in every state, also over a kill of the controller",
        of(
            "xce-tests",
            &["a_job_runs_again_in_every_state_and_over_a_kill_of_the_controller"],
        ),
    ),
    (
        "R59",
        "two hundred short jobs at once",
        of(
            "xce-shim",
            &["two_hundred_short_jobs_at_once_all_leave_a_record"],
        ),
    ),
];

/// Runs them, built as everything else is.
pub fn run(tests: Tests) -> Outcome {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["test", "--quiet", "--package", tests.package]);
    if tests.package == "xce-tests" {
        command.args(["--test", "xce"]);
    }
    command.arg("--").args(tests.names);
    let output = match command.current_dir(xce_tests::root()).output() {
        Ok(output) => output,
        Err(error) => return Outcome::NotRun(format!("cargo does not start: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next())
        .filter_map(|count| count.parse::<usize>().ok())
        .sum::<usize>();
    let names = format!("{} of {}", tests.names.join(", "), tests.package);
    match (output.status.success(), passed >= tests.names.len()) {
        (true, true) => Outcome::Passed(names),
        (true, false) => Outcome::Failed(format!("only {passed} are there of {names}")),
        (false, _) => Outcome::Failed(format!("{names}: {}", last_line(&said))),
    }
}

fn last_line(said: &str) -> &str {
    said.lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it did not build or run")
}
