//! What the cluster has to do while it is harmed, and what must have become of it.

use std::fs;

use fastrand::Rng;
use xce_tests::Cluster;

/// Services that scale up and down. Source: chosen; some on each host.
const SERVICES: u32 = 3;
/// Most replicas of one. Source: chosen; the machine has more to do than that.
const REPLICAS_MAX: u32 = 6;

/// Services and batch jobs.
pub struct Load<'c> {
    cluster: &'c Cluster,
    desired: Vec<u32>,
    jobs: Vec<String>,
}

impl<'c> Load<'c> {
    /// Creates the services.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub fn start(cluster: &'c Cluster) -> Self {
        for number in 0..SERVICES {
            let path = cluster.folder().join(format!("s{number}.toml"));
            let text = format!(
                "name = \"s{number}\"\nreplicas = 2\ncommand = [\"sleep\", \"100000\"]\n\
                 resources = {{ cpus = 0.01, memory = \"16MiB\" }}\n"
            );
            fs::write(&path, text).expect("the folder can be written");
            let path = path.to_str().expect("test folders have plain names");
            cluster.cli().good(&["services", "create", path]);
        }
        Self {
            cluster,
            desired: vec![2; SERVICES as usize],
            jobs: Vec::new(),
        }
    }

    /// Scales one service, and submits some jobs.
    pub fn step(&mut self, random: &mut Rng) {
        let cli = self.cluster.cli();
        let number = random.usize(..self.desired.len());
        let desired = random.u32(1..=REPLICAS_MAX);
        cli.good(&[
            "--retry-for",
            "60s",
            "services",
            "scale",
            &format!("s{number}"),
            &desired.to_string(),
        ]);
        self.desired[number] = desired;
        for _ in 0..random.u8(..4) {
            let script = format!("sleep 0.{}", random.u8(1..9));
            let words = ["-c", "0.05", "-m", "16MiB", "--", "sh", "-c", &script];
            self.jobs.push(cli.submit(&words));
        }
    }

    /// Waits until all of it is as it should be; gives the number of jobs.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn settle(self) -> usize {
        for (number, desired) in self.desired.iter().enumerate() {
            let service = self
                .cluster
                .steady(&format!("s{number}"), u64::from(*desired));
            let replicas = service["replicas"].as_array().map_or(0, Vec::len);
            assert_eq!(replicas, *desired as usize, "{service}");
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
        let batch = all
            .as_array()
            .map(|jobs| jobs.iter().filter(|job| job["service"].is_null()).count());
        assert_eq!(
            batch,
            Some(self.jobs.len()),
            "each submission once, and no other"
        );
        self.jobs.len()
    }
}
