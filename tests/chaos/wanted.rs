//! One service as its owner last wanted it, and the proof that it became so.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use xce_tests::Cluster;

use super::proof;

/// How long a change is tried while no controller answers. Source: chosen; far above the longest
/// time that one is away.
pub const RETRY: [&str; 2] = ["--retry-for", "60s"];
/// Replicas of a new service. Source: chosen; one on each host.
const REPLICAS: u32 = 2;
/// Commands of versions that never become ready begin so, all others with another digit.
const BAD: &str = "sleep 2";

/// A service and what was asked of it.
#[derive(Debug)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Wanted replicas.
    pub desired: u32,
    /// Whether it was deleted.
    pub is_deleted: bool,
    /// Command and colour of each template that was accepted since it was created, in order.
    accepted: Vec<(String, String)>,
}

impl Wanted {
    /// Creates it.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub fn create(cluster: &Cluster, number: usize, colour: &str) -> Self {
        let mut wanted = Self {
            name: format!("s{number}"),
            desired: REPLICAS,
            is_deleted: true,
            accepted: Vec::new(),
        };
        wanted.again(cluster, 100_000, colour);
        wanted
    }

    /// Creates it again, as soon as it is gone.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub fn again(&mut self, cluster: &Cluster, second: u32, colour: &str) {
        self.gone(cluster);
        self.desired = REPLICAS;
        self.is_deleted = false;
        self.accepted.clear();
        self.change(cluster, "create", second, colour);
    }

    /// Gives it another template; one that begins as [`BAD`] never becomes ready.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub fn change(&mut self, cluster: &Cluster, verb: &str, second: u32, colour: &str) {
        let command = format!("sleep {second}");
        let file = self.file(cluster, &command);
        let file = file.to_str().expect("test folders have plain names");
        let words = [&RETRY[..], &["services", verb, file]].concat();
        cluster.cli().good(&words);
        self.accepted.push((command, colour.to_owned()));
    }

    fn file(&self, cluster: &Cluster, command: &str) -> PathBuf {
        let is_bad = command.starts_with(BAD);
        let (ready, deadline, then) = if is_bad {
            ("false", "5s", "rollback")
        } else {
            ("true", "600s", "stop")
        };
        let words: Vec<&str> = command.split(' ').collect();
        let text = format!(
            "name = \"{}\"\nprofile = \"chaos\"\nreplicas = {}\ncommand = {words:?}\n\
             rollout = {{ progress_deadline = \"{deadline}\", on_stuck = \"{then}\", \
             history_limit = 50 }}\nstop = {{ grace = \"5s\" }}\n\
             [probes.readiness]\nexec = {{ command = [\"{ready}\"] }}\nperiod = \"1s\"\n",
            self.name, self.desired
        );
        let path = cluster.folder().join(format!("{}.toml", self.name));
        fs::write(&path, text).expect("the folder can be written");
        path
    }

    /// Waits until it is deleted, where it was.
    ///
    /// # Panics
    /// When that does not come.
    fn gone(&self, cluster: &Cluster) {
        if !self.is_deleted {
            return;
        }
        let words = [
            &RETRY[..],
            &["services", "delete", &self.name, "--wait"],
            &["--timeout", "60s"],
        ];
        let answer = cluster.cli().run(&words.concat());
        // Nothing of that name is what is wanted.
        if answer.code != 3 {
            answer.code_is(0);
        }
    }

    /// Waits until it is exactly as wanted; gives how its kept versions ended.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn settle(&self, cluster: &Cluster) -> BTreeMap<String, u32> {
        let mut outcomes = BTreeMap::new();
        if self.is_deleted {
            self.gone(cluster);
            cluster
                .cli()
                .run(&["services", "show", &self.name])
                .refused(3);
            self.runs(cluster, 0, None);
            return outcomes;
        }
        // A pause and a long wait after many failures end so, and not by themselves.
        cluster
            .cli()
            .good(&[&RETRY[..], &["services", "resume", &self.name]].concat());
        self.never_bad(cluster);
        let desired = u64::from(self.desired);
        let service = cluster.service(
            &self.name,
            "has its replicas, all of the last version",
            |service| {
                let is = |field: &str, count: u64| service[field] == count;
                let counts = ["desired", "available", "live", "updated"];
                counts.iter().all(|field| is(field, desired))
                    && is("stopping", 0)
                    && service["condition"] == "steady"
                    && service["rollout"]["phase"] == "complete"
            },
        );
        let replicas = service["replicas"].as_array().map_or(0, Vec::len);
        assert_eq!(replicas, self.desired as usize, "{service}");
        let history = cluster.cli().json(&["services", "history", &self.name]);
        let command = self.told(&history);
        self.runs(cluster, replicas, Some(&command));
        for version in history.as_array().into_iter().flatten() {
            let outcome = version["outcome"].as_str().unwrap_or("open").to_owned();
            *outcomes.entry(outcome).or_default() += 1;
        }
        outcomes
    }

    /// Waits until the current version is none that cannot become ready; where there is nothing to
    /// go back to, it is replaced.
    fn never_bad(&self, cluster: &Cluster) {
        let history = || cluster.cli().json(&["services", "history", &self.name]);
        let is_bad = |version: &Value| command(version).starts_with(BAD);
        let stays = |history: &Value| {
            let versions = history.as_array().expect("a list");
            versions.last().is_some_and(is_bad)
        };
        let first = history();
        let can_go_back = first
            .as_array()
            .is_some_and(|all| all.iter().any(|version| version["outcome"] == "completed"));
        assert!(
            can_go_back,
            "{}: nothing was ever completed: {first}",
            self.name
        );
        cluster.until(&format!("{} is rolled back: {first}", self.name), |_cli| {
            !stays(&history())
        });
    }

    /// Requires that its history tells what was asked for, in order, once each, and that each copy
    /// is one; gives the command of the last version.
    fn told(&self, history: &Value) -> String {
        let versions = history.as_array().expect("a list");
        let mut known: BTreeMap<u64, String> = BTreeMap::new();
        let (mut asked, mut before) = (Vec::new(), None);
        for version in versions {
            let number = version["number"].as_u64().expect("a number");
            let (command, reason) = (command(version), &version["reason"]);
            let copied = ["rollback_of", "automatic_rollback_of"]
                .iter()
                .find_map(|kind| reason[kind].as_u64());
            let wanted = match (copied, reason.as_str()) {
                (Some(copied), _) => known.get(&copied).cloned(),
                (None, Some("restart")) => before,
                (None, _) => {
                    asked.push(command.clone());
                    None
                }
            };
            if let Some(wanted) = wanted {
                assert_eq!(command, wanted, "{}: {version} is no copy", self.name);
            }
            known.insert(number, command.clone());
            before = Some(command);
        }
        let accepted: Vec<&String> = self.accepted.iter().map(|(command, _)| command).collect();
        let kept = accepted.len().saturating_sub(asked.len());
        assert_eq!(
            asked.iter().collect::<Vec<_>>(),
            accepted[kept..],
            "{}: each accepted change once, and no other: {history}",
            self.name
        );
        before.expect("a service has versions")
    }

    /// Requires that just so many processes run for it, all of one template.
    fn runs(&self, cluster: &Cluster, count: usize, command: Option<&str>) {
        let all = proof::replicas(cluster);
        let own: Vec<_> = all
            .iter()
            .filter(|replica| replica.service == self.name)
            .collect();
        assert_eq!(own.len(), count, "{}: {own:?}", self.name);
        let template = command.and_then(|command| {
            let mut accepted = self.accepted.iter();
            accepted.find(|(accepted, _)| accepted == command)
        });
        for replica in own {
            let runs = (replica.command.as_str(), replica.colour.as_str());
            let wanted = template.map(|(command, colour)| (command.as_str(), colour.as_str()));
            assert_eq!(Some(runs), wanted, "{replica:?} of {self:?}");
        }
    }
}

/// The command of a version.
fn command(version: &Value) -> String {
    let summary = version["summary"].as_str().unwrap_or_default();
    summary.split(',').next().unwrap_or_default().to_owned()
}
