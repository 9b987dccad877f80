//! Strict single copies: two never run at once, whoever is frozen, killed or out of reach.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use xce_tests::harness::three::Three;
use xce_tests::harness::{patience, processes};

/// Killed a second before the grace of 5 s is over: leases of 4 s.
const SETTINGS: [&str; 1] = ["hosts.kill_budget=1s"];

/// A job that notes the time since boot, by which alone copies are compared, again and again.
struct Copies {
    id: String,
    folder: PathBuf,
}

impl Copies {
    fn submit(cluster: &Three) -> Self {
        let folder = cluster.folder().join("copies");
        fs::create_dir(&folder).expect("the folder can be written");
        let place = folder.display();
        // It would not mind to be asked to end; and a child of it would not either.
        let script = format!(
            "trap '' TERM; cat /proc/uptime > {place}/first.$XCE_RUN; \
             (while :; do cat /proc/uptime > {place}/next; mv {place}/next {place}/last.$XCE_RUN; \
             sleep 0.05; done) & wait"
        );
        let words = ["--single-copy", "strict", "--rerunnable", "-c", "0.1"];
        let words: Vec<&str> = words
            .into_iter()
            .chain(["--", "sh", "-c", &script])
            .collect();
        let id = cluster.cli().submit(&words);
        let copies = Self { id, folder };
        patience::until("the first copy notes the time", || copies.last(1).is_some());
        copies
    }

    fn noted(path: &Path) -> Option<f64> {
        let text = fs::read_to_string(path).ok()?;
        text.split(' ').next()?.parse().ok()
    }

    /// When a copy began, seconds since boot.
    fn first(&self, run: u64) -> Option<f64> {
        Self::noted(&self.folder.join(format!("first.{run}")))
    }

    /// When a copy was last alive.
    fn last(&self, run: u64) -> Option<f64> {
        Self::noted(&self.folder.join(format!("last.{run}")))
    }

    fn shown(&self, cluster: &Three) -> Value {
        cluster.cli().job(&self.id)
    }

    /// Waits until a copy was alive so long after this moment.
    fn outlives(&self, run: u64, seconds: f64) {
        let from = self.last(run).expect("it runs");
        patience::until("it lives on", || {
            self.last(run).is_some_and(|last| last > from + seconds)
        });
    }
}

/// Makes workers beat often, so that a busy machine ends no lease.
fn beat_often(cluster: &mut Three, hosts: &[&str]) {
    for host in hosts {
        cluster.set(host, "beat=200ms");
        cluster.kill(host);
        cluster.up(host);
        cluster.wait_for_host(host);
    }
}

fn host_of(job: &Value) -> String {
    job["host"].as_str().expect("it has a host").to_owned()
}

#[test]
fn a_frozen_worker_keeps_no_copy_alive_beside_the_next_one() {
    let mut cluster = Three::one_with("single-frozen", &SETTINGS);
    cluster.add_worker("h2");
    cluster.wait_for_host("h2");
    beat_often(&mut cluster, &["h1", "h2"]);
    let copies = Copies::submit(&cluster);
    let host = host_of(&copies.shown(&cluster));
    let worker = cluster.pid(&host).expect("it runs");
    processes::signal(worker, Signal::SIGSTOP);
    patience::until("the second copy runs", || copies.last(2).is_some());
    let (last, first) = (copies.last(1), copies.first(2));
    let (last, first) = (last.expect("it ran"), first.expect("it runs"));
    assert!(
        last < first,
        "the first lived until {last}, the second since {first}"
    );
    // A second before the grace was over, and it was not asked first.
    assert!(first - last > 1.0, "{first} {last}");
    assert_ne!(host_of(&copies.shown(&cluster)), host);
    processes::signal(worker, Signal::SIGCONT);
    cluster.wait_for_host(&host);
    copies.outlives(2, 1.0);
    assert_eq!(copies.shown(&cluster)["run"], 2);
    assert_eq!(copies.last(1), Some(last), "the first is not back");
    cluster.cli().good(&["audit"]);
}

#[test]
fn a_worker_or_a_primary_that_is_gone_for_less_than_the_lease_ends_nothing() {
    let mut cluster = Three::start_with("single-killed", &SETTINGS);
    beat_often(&mut cluster, &["h1", "h2"]);
    let copies = Copies::submit(&cluster);
    let before = copies.shown(&cluster);
    let host = host_of(&before);
    cluster.kill(&host);
    cluster.up(&host);
    cluster.wait_for_host(&host);
    let primary = cluster.primary();
    cluster.kill(&primary);
    // Longer than any lease that was given before.
    copies.outlives(1, 5.0);
    let after = copies.shown(&cluster);
    for field in ["state", "run", "host", "pid"] {
        assert_eq!(after[field], before[field], "{field}: {after}");
    }
    assert!(copies.first(2).is_none());
    cluster.cli().good(&["audit"]);
}

#[test]
fn a_copy_ends_while_its_host_is_away_and_runs_elsewhere() {
    let mut cluster = Three::one_with("single-away", &SETTINGS);
    cluster.add_worker("h2");
    cluster.wait_for_host("h2");
    beat_often(&mut cluster, &["h1", "h2"]);
    let copies = Copies::submit(&cluster);
    let host = host_of(&copies.shown(&cluster));
    cluster.stop(&host);
    patience::until("the second copy runs", || copies.last(2).is_some());
    let (last, first) = (copies.last(1), copies.first(2));
    assert!(last < first, "{last:?} {first:?}");
    let hosts = cluster.cli().json(&["hosts", "show", &host]);
    assert_eq!(hosts["state"], "away", "{hosts}");
    cluster.cli().good(&["audit"]);
}

#[test]
fn a_promise_that_cannot_be_kept_is_refused() {
    let cluster = Three::one_with("single-refused", &["hosts.kill_budget=4s"]);
    let words = ["jobs", "submit", "--single-copy", "strict", "--", "true"];
    let text = cluster.cli().run(&words).refused(1);
    for part in ["single_copy = strict", "`host_grace`", "(5s)"] {
        assert!(text.contains(part), "{text}");
    }
    let file = cluster.folder().join("one.toml");
    let service = "name = \"one\"\ncommand = [\"sleep\", \"9\"]\nsingle_copy = \"strict\"\n";
    fs::write(&file, service).expect("the folder can be written");
    let path = file.to_str().expect("a plain name");
    let text = cluster.cli().run(&["services", "create", path]).refused(1);
    assert!(text.contains("kill_budget"), "{text}");
    let text = cluster
        .cli()
        .run(&["jobs", "submit", "--single-copy", "often", "--", "true"])
        .refused(2);
    assert!(text.contains("strict"), "{text}");
}
