//! What the cluster has to do while it is harmed, and what must have become of it.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use fastrand::Rng;
use xce_tests::Cluster;

use super::wanted::{RETRY, Wanted};

/// Services that change. Source: chosen; some on each host.
const SERVICES: usize = 3;
/// Most replicas of one. Source: chosen; the machine has more to do than that.
const REPLICAS_MAX: u32 = 6;
/// Longest time that a service keeps its version, in seconds. Source: derived; thrice the time
/// after which a version that does not become ready is rolled back, so that some are and some are
/// overtaken.
const QUIET_MAX: u64 = 15;

/// Services and batch jobs.
pub struct Load<'c> {
    cluster: &'c Cluster,
    services: Vec<Wanted>,
    quiet_until: Vec<Instant>,
    changes: u32,
    colour: u32,
    jobs: Vec<String>,
}

impl<'c> Load<'c> {
    /// Creates the profile and the services.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub fn start(cluster: &'c Cluster) -> Self {
        profile(cluster, "create", 0);
        let services: Vec<Wanted> = (0..SERVICES)
            .map(|number| Wanted::create(cluster, number, "0"))
            .collect();
        for service in &services {
            cluster.steady(&service.name, u64::from(service.desired));
        }
        Self {
            cluster,
            services,
            quiet_until: vec![Instant::now(); SERVICES],
            changes: 0,
            colour: 0,
            jobs: Vec::new(),
        }
    }

    /// Changes one service, and submits some jobs; says what it did.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub fn step(&mut self, random: &mut Rng) -> &'static str {
        let number = random.usize(..SERVICES);
        let may_change = Instant::now() >= self.quiet_until[number];
        let deed = if self.services[number].is_deleted {
            self.create(number);
            "create"
        } else if may_change {
            let quiet = Duration::from_secs(random.u64(1..=QUIET_MAX));
            self.quiet_until[number] = Instant::now() + quiet;
            self.version(number, random)
        } else {
            self.gentle(number, random)
        };
        for _ in 0..random.u8(..3) {
            let script = format!("sleep 0.{}", random.u8(1..9));
            let words = ["-c", "0.05", "-m", "16MiB", "--", "sh", "-c", &script];
            self.jobs.push(self.cluster.cli().submit(&words));
        }
        deed
    }

    /// Creates a service again, and lets it come to stand once: a bad version has then something to
    /// go back to.
    fn create(&mut self, number: usize) {
        self.changes += 1;
        let (second, colour) = (100_000 + self.changes, self.colour.to_string());
        self.services[number].again(self.cluster, second, &colour);
        let service = &self.services[number];
        self.cluster
            .steady(&service.name, u64::from(service.desired));
    }

    /// Something that makes another version, or ends all of them.
    fn version(&mut self, number: usize, random: &mut Rng) -> &'static str {
        self.changes += 1;
        let (cluster, colour) = (self.cluster, self.colour.to_string());
        let service = &mut self.services[number];
        match random.u8(..10) {
            0..=2 => {
                service.change(cluster, "update", 100_000 + self.changes, &colour);
                "update"
            }
            3..=5 => {
                service.change(cluster, "update", 200_000 + self.changes, &colour);
                "update that never becomes ready"
            }
            6 | 7 => match said(cluster, "rollback", &service.name) {
                0 => "rollback",
                _ => "rollback without a target",
            },
            8 => {
                assert_eq!(said(cluster, "restart", &service.name), 0);
                "restart"
            }
            _ => {
                assert_eq!(said(cluster, "delete", &service.name), 0);
                service.is_deleted = true;
                "delete"
            }
        }
    }

    /// Something that leaves the versions as they are.
    fn gentle(&mut self, number: usize, random: &mut Rng) -> &'static str {
        let cluster = self.cluster;
        match random.u8(..10) {
            0 => {
                assert_eq!(said(cluster, "pause", &self.services[number].name), 0);
                "pause"
            }
            1..=3 => {
                assert_eq!(said(cluster, "resume", &self.services[number].name), 0);
                "resume"
            }
            4 => {
                self.colour += 1;
                profile(cluster, "update", self.colour);
                "profile edit"
            }
            _ => {
                let service = &mut self.services[number];
                service.desired = random.u32(1..=REPLICAS_MAX);
                let desired = service.desired.to_string();
                let words = ["services", "scale", &service.name, &desired];
                cluster.cli().good(&[&RETRY[..], &words].concat());
                "scale"
            }
        }
    }

    /// Waits until all of it is as it should be; gives the number of jobs, and how the versions
    /// ended.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn settle(self) -> (usize, BTreeMap<String, u32>) {
        let mut outcomes = BTreeMap::new();
        for service in &self.services {
            for (outcome, count) in service.settle(self.cluster) {
                *outcomes.entry(outcome).or_default() += count;
            }
        }
        for id in &self.jobs {
            let job = self.cluster.ended(id);
            // A job whose shim or process was killed has ended by that.
            let is_killed = matches!(job["exit"]["cause"].as_str(), Some("SHIM_LOST"))
                || job["exit"]["signal"] == 9
                // A shell says so of its child.
                || job["exit"]["code"] == 137;
            assert!(job["state"] == "DONE" || is_killed, "{job}");
        }
        let all = self.cluster.cli().json(&["jobs", "list", "--all"]);
        // Replicas of a service that is deleted name none any more, and are still replicas.
        let batch = all
            .as_array()
            .map(|jobs| jobs.iter().filter(|job| job["replica"].is_null()).count());
        assert_eq!(
            batch,
            Some(self.jobs.len()),
            "each submission once, and no other"
        );
        (self.jobs.len(), outcomes)
    }
}

/// The exit code of a verb for a service.
///
/// # Panics
/// When it is neither done nor refused.
fn said(cluster: &Cluster, verb: &str, name: &str) -> i32 {
    let words = [&RETRY[..], &["services", verb, name]].concat();
    let answer = cluster.cli().run(&words);
    if answer.code != 1 {
        answer.code_is(0);
    }
    answer.code
}

/// Writes the profile that all services name, its colour being the only thing that changes.
fn profile(cluster: &Cluster, verb: &str, colour: u32) {
    let path = cluster.folder().join("profile.toml");
    let text = format!(
        "name = \"chaos\"\nkind = \"service\"\n[service]\nenv = {{ COLOUR = \"{colour}\" }}\n\
         resources = {{ cpus = 0.01, memory = \"16MiB\" }}\n"
    );
    fs::write(&path, text).expect("the folder can be written");
    let path = path.to_str().expect("test folders have plain names");
    cluster
        .cli()
        .good(&[&RETRY[..], &["profiles", verb, path]].concat());
}
