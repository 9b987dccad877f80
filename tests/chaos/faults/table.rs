//! All rows, and what proves them. The case numbers are those of the project's lists of faults (F)
//! and of reports about comparable systems (R); D stands for sentences of the design.

use super::elsewhere::{self, Tests};
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

/// A scenario of this program: its id, what is run, how, and whether in every run of the tests.
type Scenario = (&'static str, &'static str, fn() -> String, bool);

/// What this program proves itself.
const HERE: &[Scenario] = &[
    (
        "F01",
        "the primary is killed under load, 20 times",
        processes::leader_killed,
        false,
    ),
    (
        "F01a",
        "the primary is killed under load, twice",
        processes::leader_killed_quickly,
        true,
    ),
    (
        "F02",
        "each standby is killed under load",
        processes::follower_killed,
        false,
    ),
    (
        "F03",
        "all controllers are killed under load and start in another order",
        processes::all_controllers_killed,
        false,
    ),
    (
        "F05",
        "the primary is stopped for 5 s and goes on",
        processes::leader_paused,
        false,
    ),
    (
        "F06",
        "a worker is stopped for less, then for more than the grace",
        processes::worker_paused,
        false,
    ),
    (
        "F13",
        "every daemon is restarted in turn during an update",
        processes::all_restarted_in_order,
        false,
    ),
    (
        "F13b",
        "the primary is killed at every step of an update",
        updates::leader_killed_at_every_step,
        false,
    ),
    (
        "F18",
        "the wall clock jumps by an hour on the primary",
        clocks::jump,
        false,
    ),
    (
        "F19",
        "the wall clock jumps to and fro",
        clocks::strobe,
        false,
    ),
    ("F20", "clocks differ by minutes", clocks::apart, false),
    (
        "F43",
        "the primary and two hosts are cut from the rest",
        partitions::minority,
        true,
    ),
    (
        "F44",
        "the primary is cut from the other controllers only, both ways, out, in",
        partitions::leader_from_quorum,
        false,
    ),
    (
        "F46",
        "two controllers meet only over the third",
        partitions::bridge,
        false,
    ),
    (
        "F47",
        "one direction is cut: standby to primary, primary to standby, worker to controllers",
        partitions::one_way,
        false,
    ),
    (
        "F48",
        "two hosts and a standby are cut every other second",
        partitions::flapping,
        false,
    ),
    (
        "F49",
        "1, 10, 30 % loss with delay, jitter, doubles and wrong bytes on every link",
        partitions::lossy,
        false,
    ),
    (
        "F50",
        "10 kB/s to one standby",
        partitions::slow_follower,
        false,
    ),
    (
        "F51",
        "a host, then the primary, is cut off without a last word",
        partitions::half_open,
        false,
    ),
    (
        "F58",
        "a worker is cut from the controllers only, for less and for more than the grace",
        partitions::worker_cut,
        false,
    ),
    (
        "R8",
        "three groups of hosts are cut in turn for longer than the grace",
        partitions::long_partitions,
        false,
    ),
    (
        "R9",
        "a host is cut, replaced and healed; then the service grows",
        reports::indices_stay_unique,
        false,
    ),
    (
        "R11",
        "the primary is cut from everybody",
        reports::leader_isolated,
        false,
    ),
    (
        "R12",
        "five primaries are killed in a row, with a short grace",
        reports::fresh_grace,
        false,
    ),
    (
        "R16",
        "each controller is killed under an array",
        reports::counts_add_up,
        false,
    ),
    (
        "R23",
        "the former primary comes back",
        reports::old_leader_returns,
        false,
    ),
    (
        "R26",
        "20 % loss for 30 s",
        reports::heals_after_loss,
        false,
    ),
    (
        "R55",
        "nine take-overs, by hand and by kill",
        reports::takeovers,
        false,
    ),
];

/// What is not proved, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "F21",
        "daylight saving and leap second at a planned start",
        "there are no planned starts yet",
    ),
    (
        "F56",
        "names that do not resolve",
        "controllers are known by address only",
    ),
    (
        "F60",
        "expired certificates",
        "needs certificates with a short life",
    ),
    (
        "F79",
        "no processor for the worker",
        "needs priorities of a machine of its own",
    ),
    (
        "F85",
        "five controllers of one mind",
        "needs a cluster of five",
    ),
];

/// All of them, by their numbers.
pub fn rows() -> Vec<Row> {
    let row = |id, what, how, is_quick| Row {
        id,
        what,
        how,
        is_quick,
    };
    let here = HERE
        .iter()
        .map(|(id, what, scenario, is_quick)| row(*id, *what, How::Here(*scenario), *is_quick));
    let elsewhere = elsewhere::ALL
        .iter()
        .map(|(id, what, tests)| row(*id, *what, How::Elsewhere(*tests), false));
    let not_run = NOT_RUN
        .iter()
        .map(|(id, what, why)| row(*id, *what, How::NotRun(why), false));
    let mut rows: Vec<Row> = here.chain(elsewhere).chain(not_run).collect();
    rows.sort_by_key(|row| order(row.id));
    rows
}

/// Letter, number, and what follows.
fn order(id: &'static str) -> (&'static str, u32, &'static str) {
    let (letter, rest) = id.split_at(1);
    let digits = rest.find(|letter: char| !letter.is_ascii_digit());
    let (number, suffix) = rest.split_at(digits.unwrap_or(rest.len()));
    (letter, number.parse().unwrap_or_default(), suffix)
}
