//! The daemons of a host, and the controller, killed between any two steps of what they persist, while
//! jobs start, run and end: each job ends once, as it did, and no run is doubled.
//!
//! All points are walked with `XCE_WALK=all`; otherwise some that stand for their kinds. What each
//! point means is said in the list of failpoints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xce_tests::harness::three::Three;
use xce_tests::harness::{patience, processes};

use super::word;

/// Before the armed daemon starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// Nothing.
    Nothing,
    /// A file of the worker's state is gone, so that it is written anew.
    Without(&'static str),
}

/// A step of the walk: a point, at which hit it kills, and what comes first.
type Step = (&'static str, u32, First);

/// Points of the worker and of its shims.
const ON_HOST: &[Step] = &[
    ("run.exit.heard", 1, First::Nothing),
    ("spool.append.written", 1, First::Nothing),
    ("spool.mark.before", 1, First::Nothing),
    ("state.aside.before", 1, First::Nothing),
    ("shim.exit.before", 1, First::Nothing),
    // From here on only in a whole walk.
    ("spool.append.before", 1, First::Nothing),
    ("spool.append.before", 3, First::Nothing),
    ("spool.append.written", 3, First::Nothing),
    ("spool.sync.before", 1, First::Nothing),
    ("spool.sync.after", 1, First::Nothing),
    ("spool.send.after", 1, First::Nothing),
    ("spool.mark.before", 2, First::Nothing),
    ("spool.mark.after", 1, First::Nothing),
    ("spool.rewrite.written", 1, First::Without("spool")),
    ("spool.rewrite.renamed", 1, First::Without("spool")),
    ("state.small.written", 1, First::Without("boot")),
    ("state.small.renamed", 1, First::Without("boot")),
    ("state.aside.after", 1, First::Nothing),
    ("state.remove.before", 1, First::Nothing),
    ("state.remove.after", 1, First::Nothing),
    ("run.directory.made", 1, First::Nothing),
    ("run.order.written", 1, First::Nothing),
    ("run.spec.written", 1, First::Nothing),
    ("run.shim.spawned", 1, First::Nothing),
    ("run.start.heard", 1, First::Nothing),
    ("run.exit.heard", 2, First::Nothing),
    ("run.memory.written", 1, First::Nothing),
    ("run.memory.renamed", 1, First::Nothing),
    ("run.adopt.before", 1, First::Nothing),
    ("run.adopt.after", 1, First::Nothing),
    ("worker.joined", 1, First::Nothing),
    ("worker.ordered", 1, First::Nothing),
    ("worker.ordered", 2, First::Nothing),
    ("shim.claimed", 1, First::Nothing),
    ("shim.launched", 1, First::Nothing),
    ("shim.record.written", 1, First::Nothing),
    ("shim.record.written", 2, First::Nothing),
    ("shim.record.renamed", 1, First::Nothing),
    ("shim.record.renamed", 2, First::Nothing),
    ("shim.job.ended", 1, First::Nothing),
    ("shim.exit.after", 1, First::Nothing),
];

/// Points of the controller that a worker's reports pass.
const ON_CONTROLLER: &[Step] = &[
    ("controller.reports.committed", 1, First::Nothing),
    ("wal.append.written", 3, First::Nothing),
    // From here on only in a whole walk.
    ("controller.join.asked", 1, First::Nothing),
    ("controller.join.committed", 1, First::Nothing),
    ("controller.reports.taken", 1, First::Nothing),
    ("controller.reports.taken", 2, First::Nothing),
    ("controller.reports.committed", 2, First::Nothing),
    ("controller.reports.marked", 1, First::Nothing),
    ("controller.orders.before", 1, First::Nothing),
    ("wal.append.before", 1, First::Nothing),
    ("wal.append.before", 4, First::Nothing),
    ("wal.append.written", 6, First::Nothing),
    ("wal.append.synced", 2, First::Nothing),
    ("wal.append.synced", 5, First::Nothing),
    ("wal.vote.before", 1, First::Nothing),
    ("wal.vote.after", 1, First::Nothing),
    ("wal.apply.before", 4, First::Nothing),
    ("wal.apply.after", 4, First::Nothing),
    ("wal.apply.after", 7, First::Nothing),
    ("snapshot.written", 1, First::Nothing),
    ("snapshot.renamed", 1, First::Nothing),
    ("snapshot.directory", 1, First::Nothing),
    ("snapshot.forgotten", 1, First::Nothing),
];

/// How many of a list are walked without being asked for more.
const ALWAYS_ON_HOST: usize = 5;
const ALWAYS_ON_CONTROLLER: usize = 2;

fn steps(all: &'static [Step], always: usize) -> &'static [Step] {
    let whole = std::env::var("XCE_WALK").is_ok_and(|walk| walk == "all");
    if whole { all } else { &all[..always] }
}

/// A cluster of one host whose jobs note each start of theirs.
struct Walk {
    cluster: Three,
    starts: PathBuf,
    pulse: String,
}

/// A job of one step, and how it is to end.
struct Expected {
    id: String,
    code: i64,
}

impl Walk {
    fn begin(name: &str, settings: &[&str]) -> Self {
        let mut cluster = Three::one_with(name, settings);
        for setting in ["sync=true", "keep_ended=1s"] {
            cluster.set("h1", setting);
        }
        let starts = cluster.folder().join("starts");
        // Ends and starts again in place all the time.
        let file = cluster.folder().join("pulse.toml");
        let text = "name = \"pulse\"\ncommand = [\"sh\", \"-c\", \"sleep 0.2\"]\n\
            resources = { cpus = 0.01, memory = \"16MiB\" }\n\
            restart = { delay = \"100ms\", delay_max = \"100ms\", max_restarts = 1000 }\n";
        fs::write(&file, text).expect("the folder can be written");
        cluster.cli().good(&["services", "create", word(&file)]);
        let pulse = cluster.cli().service("pulse")["id"].to_string();
        Self {
            cluster,
            starts,
            pulse,
        }
    }

    /// A job that notes its start, leaves a process behind, waits for a file where one is given, and
    /// ends with this code.
    fn submit(&self, gate: Option<&Path>, code: i64) -> Expected {
        let wait = gate.map_or_else(String::new, |gate| {
            format!("while [ ! -e {} ]; do sleep 0.02; done;", gate.display())
        });
        let script = format!(
            "echo $XCE_JOB $XCE_RUN >> {}; sleep 100000 & {wait} exit {code}",
            self.starts.display()
        );
        let id = self
            .cluster
            .cli()
            .submit(&["-c", "0.05", "--", "sh", "-c", &script]);
        Expected { id, code }
    }

    /// Walks one step on a daemon; what it prints on failure names the step.
    fn step(&mut self, daemon: &str, (point, hit, first): Step) {
        eprintln!("{daemon}: {point}@{hit}");
        let gate = self.cluster.folder().join(format!("gate-{point}-{hit}"));
        let once = self.cluster.folder().join(format!("once-{point}-{hit}"));
        fs::create_dir(&once).expect("the folder can be written");
        let waits = self.submit(Some(&gate), 7);
        patience::until("the job that waits runs", || {
            self.cluster.cli().job(&waits.id)["state"] == "RUN"
        });
        self.cluster.kill(daemon);
        if let First::Without(file) = first {
            let path = self.cluster.home("workers").join("h1").join(file);
            fs::remove_file(path).expect("it was there");
        }
        let armed = format!("{point}=kill@{hit}");
        self.cluster.environment(daemon, "XCE_FAILPOINTS", &armed);
        self.cluster
            .environment(daemon, "XCE_FAILPOINTS_ONCE", word(&once));
        self.cluster.up(daemon);
        fs::write(&gate, "").expect("the folder can be written");
        let of_shim = point.starts_with("shim.");
        let mut jobs = vec![waits];
        if daemon == "h1" {
            jobs.extend([0, 3].map(|code| self.submit(None, code)));
        }
        let acted = once.join(point);
        patience::until(&format!("{point} was passed"), || acted.exists());
        if of_shim {
            self.cluster.kill(daemon);
        } else {
            self.cluster.wait_for_end(daemon);
        }
        self.cluster.clear_environment(daemon);
        self.cluster.up(daemon);
        if daemon != "h1" {
            jobs.push(self.submit(None, 3));
        }
        for job in &jobs {
            self.ended(job, of_shim);
        }
        self.cluster.cli().good(&["audit"]);
    }

    /// Requires that a job ends as it did, and each of its runs began once at most.
    fn ended(&self, expected: &Expected, of_shim: bool) {
        let mut job = Value::Null;
        patience::until(&format!("job {} ends", expected.id), || {
            job = self.cluster.cli().job(&expected.id);
            job["terminal"] == true
        });
        let starts = self.starts_of(&expected.id);
        assert!(starts.values().all(|count| *count == 1), "{starts:?} {job}");
        let (code, cause) = (job["exit"]["code"].as_i64(), job["exit"]["cause"].as_str());
        let lost = of_shim && cause == Some("SHIM_LOST");
        assert!(lost || code == Some(expected.code), "{job}");
        // Where a shim died before it could say that the job runs, the next run begins.
        assert!(of_shim || starts.len() == 1, "{starts:?} {job}");
    }

    /// How often each run of a job began.
    fn starts_of(&self, id: &str) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(&self.starts).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            if let Some((job, run)) = line.split_once(' ')
                && job == id
            {
                *counts.entry(run.to_owned()).or_default() += 1;
            }
        }
        counts
    }

    /// Requires that the service kept its replica through all of it, and that no end was told twice.
    fn finish(self) {
        let service = self.cluster.cli().service("pulse");
        assert_eq!(service["id"].to_string(), self.pulse);
        assert_eq!(service["live"], 1, "{service}");
        self.cluster.cli().good(&["audit"]);
    }
}

#[test]
fn a_host_loses_and_doubles_nothing_wherever_it_dies() {
    let mut walk = Walk::begin("walk-host", &[]);
    for step in steps(ON_HOST, ALWAYS_ON_HOST) {
        walk.step("h1", *step);
    }
    walk.finish();
}

#[test]
fn a_controller_loses_and_doubles_no_report_wherever_it_dies() {
    let mut walk = Walk::begin("walk-controller", &["snapshot.every_entries=100"]);
    for step in steps(ON_CONTROLLER, ALWAYS_ON_CONTROLLER) {
        walk.step("c1", *step);
    }
    walk.finish();
}

#[test]
fn every_point_of_a_host_is_walked() {
    let walked: Vec<&str> = ON_HOST.iter().map(|(point, ..)| *point).collect();
    for point in xce_failpoint::ALL {
        let of_host = match point.part() {
            xce_failpoint::Part::Worker | xce_failpoint::Part::Shim => true,
            xce_failpoint::Part::Wal | xce_failpoint::Part::Controller => false,
        };
        assert!(!of_host || walked.contains(&point.name()), "{point}");
    }
}

/// How a file of a worker's state is damaged.
const DAMAGES: [(&str, bool); 9] = [
    // File, and whether it belongs to the run.
    ("spool", false),
    ("cluster", false),
    ("boot", false),
    ("term", false),
    ("incarnation", false),
    ("order", true),
    ("spec", true),
    ("run", true),
    ("lock", true),
];

#[test]
fn a_worker_starts_whatever_is_left_of_its_state_and_accounts_for_every_process() {
    let mut cluster = Three::one_with("state-files", &[]);
    let cli = cluster.cli();
    for (file, of_run) in DAMAGES {
        eprintln!("{file}");
        let id = cli.submit(&["-c", "0.05", "--", "sleep", "100000"]);
        let mut job = Value::Null;
        patience::until("it runs", || {
            job = cli.job(&id);
            job["state"] == "RUN" && !job["pid"].is_null()
        });
        let pid = xce_tests::harness::cluster::pid(&job);
        cluster.kill("h1");
        let state = cluster.home("workers").join("h1");
        if of_run {
            fs::remove_file(state.join(format!("runs/{id}-1/{file}"))).expect("it was there");
        } else {
            fs::write(state.join(file), "").expect("it can be written");
        }
        cluster.up("h1");
        // A worker that serves again.
        let next = cli.submit(&["--rerunnable", "-c", "0.05", "--", "true"]);
        patience::until("the next job ends", || cli.job(&next)["state"] == "DONE");
        let holds = || {
            let job = cli.job(&id);
            let lives = processes::is_alive(pid);
            let goes_on = job["state"] == "RUN" && job["run"] == 1 && lives;
            goes_on || job["terminal"] == true && !lives
        };
        patience::until(&format!("{file}: the process is accounted for"), holds);
        if cli.job(&id)["terminal"] == false {
            cli.good(&["jobs", "kill", "--wait", &id]);
        }
        patience::until("nothing is left of it", || !processes::is_alive(pid));
        cli.good(&["audit"]);
    }
}
