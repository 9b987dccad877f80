//! The primary is killed at every step of a rolling update: nothing is moved or restarted by that,
//! and what is timed goes on as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use xce_tests::harness::{patience, processes};

use super::facts::clean;
use super::site::Site;

/// Replicas that are updated one by one, and take a while to be ready.
pub const SLOW: &str = "rollout = { max_surge = 1, max_unavailable = 0 }\n\
    [probes.readiness]\nexec = { command = [\"sh\", \"-c\", \"sleep 0.3\"] }\nperiod = \"500ms\"";
/// Replicas of the updated service.
const REPLICAS: u32 = 4;
/// How far a deadline may be off beside the time without a primary. Source: derived; a heartbeat of
/// the primary and the time of two commands.
const OFF_MOST: Duration = Duration::from_secs(2);

/// Asks for another version of a service that [`Site::service`] made.
///
/// # Panics
/// When that is refused.
pub fn change(site: &Site, name: &str, replicas: u32) {
    let path = site.file(&format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let text = text.replace("\"100000\"", "\"100001\"");
    assert!(text.contains(&format!("replicas = {replicas}")));
    std::fs::write(&path, text).expect("the folder can be written");
    let path = path.to_str().expect("test folders have plain names");
    let words = ["--retry-for", "60s", "services", "update", path];
    site.cli().good(&words);
}

/// Runs and processes of jobs, as they were first seen.
#[derive(Default)]
struct Known(BTreeMap<String, (u64, u64, String)>);

impl Known {
    /// Requires that every job that was seen before runs as it did.
    fn check(&mut self, service: &Value) {
        for replica in service["replicas"].as_array().into_iter().flatten() {
            let job = replica["job"].as_str().unwrap_or_default().to_owned();
            let run = replica["run"].as_u64().unwrap_or_default();
            let pid = replica["pid"].as_u64().unwrap_or_default();
            assert!(run <= 1 && replica["restarts"] == 0, "{replica}");
            if pid == 0 {
                continue;
            }
            let host = replica["host"].as_str().unwrap_or_default().to_owned();
            let now = (run, pid, host);
            let before = self.0.entry(job).or_insert_with(|| now.clone());
            assert_eq!(before, &now, "moved or restarted: {replica}");
        }
    }
}

pub fn leader_killed_at_every_step() -> String {
    let mut site = Site::start("steps");
    let mut known = Known::default();
    known.check(&site.service("web", REPLICAS, SLOW));
    change(&site, "web", REPLICAS);
    let mut steps = BTreeSet::new();
    loop {
        let service = site.cli().service("web");
        known.check(&service);
        let running = site.running("web").len();
        assert!(running >= REPLICAS as usize, "{running} run: {service}");
        if service["rollout"]["phase"] == "complete" && service["stopping"] == 0 {
            break;
        }
        let fields = ["updated", "available", "live", "stopping"];
        let step: Vec<u64> = fields
            .iter()
            .map(|field| service[*field].as_u64().unwrap_or_default())
            .collect();
        if !steps.insert(step) {
            continue;
        }
        let primary = site.three.primary();
        site.three.kill(&primary);
        let (next, _) = site.next_primary(&primary);
        known.check(&site.cli().service("web"));
        site.three.up(&primary);
        site.until_caught_up(&next, &primary);
    }
    let service = site.until_processes("web", REPLICAS as usize);
    known.check(&service);
    assert_eq!(service["version"], 2, "{service}");
    let jobs = known.0.len();
    assert_eq!(
        jobs,
        2 * REPLICAS as usize,
        "each replica was made once: {:?}",
        known.0
    );
    clean(&site);
    let waits = deadline_and_backoff(&mut site);
    format!(
        "the primary was killed at {} steps of an update of {REPLICAS} replicas: the {jobs} \
         replicas of both versions ran once, where they were; {waits}",
        steps.len()
    )
}

fn deadline_and_backoff(site: &mut Site) -> String {
    let deadline = deadline_goes_on(site);
    let gaps = backoff_goes_on(site);
    format!("{deadline}; {gaps}")
}

/// A version that never gets ready has its deadline, whoever leads.
fn deadline_goes_on(site: &mut Site) -> String {
    let more = "rollout = { max_surge = 1, max_unavailable = 0, progress_deadline = \"120s\" }\n\
                [probes.readiness]\nexec = { command = [\"sh\", \"-c\", \"test $$ -gt 0\"] }";
    site.service("slow", 2, more);
    let path = site.file("slow.toml");
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let text = text.replace("test $$ -gt 0", "false");
    std::fs::write(&path, text).expect("the folder can be written");
    let path = path.to_str().expect("test folders have plain names");
    site.cli().good(&["services", "update", path]);
    let left = |site: &Site| -> Option<Duration> {
        let service = site.cli().service("slow");
        let left = service["rollout"]["deadline_in_ms"].as_u64();
        left.map(Duration::from_millis)
    };
    patience::until("the clock of the update runs", || left(site).is_some());
    let mut off_most = Duration::ZERO;
    for _ in 0..3 {
        let (begun, before) = (Instant::now(), left(site).expect("its clock runs"));
        let primary = site.three.primary();
        site.three.kill(&primary);
        let (next, without) = site.next_primary(&primary);
        let after = left(site).expect("its clock runs");
        let expected = before.saturating_sub(begun.elapsed());
        let off = after.abs_diff(expected);
        assert!(
            off < OFF_MOST + without,
            "{before:?} became {after:?}, not {expected:?}"
        );
        off_most = off_most.max(off);
        site.three.up(&primary);
        site.until_caught_up(&next, &primary);
    }
    site.cli().good(&["services", "delete", "slow", "--wait"]);
    format!(
        "its deadline went on over three kills (off by {} ms at most)",
        off_most.as_millis()
    )
}

/// Starts of a replica that fails again and again become rarer, whoever leads.
fn backoff_goes_on(site: &mut Site) -> String {
    let file = site.file("starts");
    let script = format!("date +%s%N >> {}; exit 3", file.display());
    let text = format!(
        "name = \"bad\"\nreplicas = 1\ncommand = [\"sh\", \"-c\", \"{script}\"]\n\
         resources = {{ cpus = 0.01, memory = \"16MiB\" }}\n\
         restart = {{ mode = \"never\" }}\nreplacement = {{ delay = \"1s\" }}\n\
         [probes.readiness]\nexec = {{ command = [\"false\"] }}\n"
    );
    let path = site.file("bad.toml");
    std::fs::write(&path, text).expect("the folder can be written");
    let path = path.to_str().expect("test folders have plain names");
    site.cli().good(&["services", "create", path]);
    let starts = || -> Vec<u64> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    for count in 2..5 {
        patience::until("it was started again", || starts().len() >= count);
        let primary = site.three.primary();
        site.three.kill(&primary);
        let (next, _) = site.next_primary(&primary);
        site.three.up(&primary);
        site.until_caught_up(&next, &primary);
    }
    patience::until("it was started five times", || starts().len() >= 5);
    let starts = starts();
    let gaps = starts
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / 1_000_000);
    let gaps: Vec<u64> = gaps.collect();
    for (gap, least) in gaps.iter().zip([900, 1_800, 3_600, 7_200]) {
        assert!(*gap >= least, "a delay began anew: {gaps:?} ms");
    }
    site.cli().good(&["services", "delete", "bad", "--wait"]);
    let left = processes::of_folder(site.three.folder());
    let left = left
        .iter()
        .filter(|process| process.line.contains("date +%s%N"));
    assert_eq!(left.count(), 0);
    format!("pauses of a failing replica kept growing over three kills ({gaps:?} ms)")
}
