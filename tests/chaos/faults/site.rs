//! A cluster on hosts of its own, and what a scenario does to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use xce_tests::harness::cli::Cli;
use xce_tests::harness::network::Network;
use xce_tests::harness::three::Three;
use xce_tests::harness::{patience, processes};

/// What is lost is decided by this. Source: chosen.
const SEED: u64 = 4;
/// The controllers.
pub const CONTROLLERS: [&str; 3] = ["c1", "c2", "c3"];
/// The workers.
pub const WORKERS: [&str; 4] = ["h1", "h2", "h3", "h4"];

/// A running cluster of three controllers and four workers.
pub struct Site {
    /// The daemons.
    pub three: Three,
    stopped: Vec<u32>,
}

impl Site {
    /// Starts it.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(name: &str) -> Self {
        Self::with(name, &[])
    }

    /// With more settings of the controllers.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn with(name: &str, settings: &[&str]) -> Self {
        let network = Network::start(&Three::HOSTS, SEED);
        let network = network.unwrap_or_else(|error| panic!("no network: {error}"));
        Self {
            three: Three::on(network, name, settings),
            stopped: Vec::new(),
        }
    }

    /// The user's command line.
    pub fn cli(&self) -> Cli {
        self.three.cli()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        self.three.network()
    }

    /// The other two controllers.
    pub fn others(&self, name: &str) -> [&'static str; 2] {
        let mut left = CONTROLLERS.into_iter().filter(|one| *one != name);
        let mut next = || left.next().expect("two are left");
        [next(), next()]
    }

    /// A file of a scenario.
    pub fn file(&self, name: &str) -> PathBuf {
        self.three.folder().join(name)
    }

    /// Writes a service and creates it; it is steady then.
    ///
    /// # Panics
    /// When it does not become so.
    pub fn service(&self, name: &str, replicas: u32, more: &str) -> Value {
        let path = self.file(&format!("{name}.toml"));
        let text = format!(
            "name = \"{name}\"\nreplicas = {replicas}\ncommand = [\"sleep\", \"100000\"]\n\
             resources = {{ cpus = 0.01, memory = \"16MiB\" }}\n{more}\n"
        );
        std::fs::write(&path, text).expect("the folder can be written");
        let path = path.to_str().expect("test folders have plain names");
        self.cli()
            .good(&["--retry-for", "60s", "services", "create", path]);
        self.three.steady(name, replicas.into())
    }

    /// Stops a daemon, so that it neither runs nor ends.
    pub fn pause(&mut self, name: &str) {
        let pid = self.three.pid(name).expect("it runs");
        processes::signal(pid, Signal::SIGSTOP);
        self.stopped.push(pid);
    }

    /// Lets a stopped daemon go on.
    pub fn resume(&mut self, name: &str) {
        let pid = self.three.pid(name).expect("it runs");
        processes::signal(pid, Signal::SIGCONT);
        self.stopped.retain(|one| *one != pid);
    }

    /// Waits until a controller other than this one leads; gives it and how long that took.
    ///
    /// # Panics
    /// When none comes to lead.
    pub fn next_primary(&self, before: &str) -> (String, Duration) {
        let begun = Instant::now();
        let mut found = String::new();
        patience::until(&format!("another one than {before} leads"), || {
            found = self.three.primary();
            found != before
        });
        (found, begun.elapsed())
    }

    /// State of a host, as the cluster sees it.
    pub fn host(&self, name: &str) -> String {
        let words = ["-o", "json", "--retry-for", "60s", "hosts", "list"];
        let text = self.cli().good(&words);
        let hosts: Value = serde_json::from_str(&text).unwrap_or_default();
        let all = hosts.as_array().cloned().unwrap_or_default();
        let host = all.iter().find(|host| host["name"] == name);
        host.and_then(|host| host["state"].as_str())
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until a host is in a state.
    ///
    /// # Panics
    /// When that does not come.
    pub fn until_host(&self, name: &str, state: &str) {
        patience::until(&format!("{name} is {state}"), || self.host(name) == state);
    }

    /// Waits until all hosts are up.
    ///
    /// # Panics
    /// When that does not come.
    pub fn until_all_up(&self) {
        WORKERS.iter().for_each(|host| self.until_host(host, "up"));
    }

    /// Waits until a controller has caught up, as another one says.
    ///
    /// # Panics
    /// When it does not.
    pub fn until_caught_up(&self, primary: &str, name: &str) {
        patience::until(&format!("{name} has caught up with {primary}"), || {
            let members = self.members();
            let member = members.iter().find(|member| member["name"] == name);
            member.is_some_and(|member| {
                let heard = member["heard_ms"].as_u64();
                member["behind"].as_u64() < Some(8) && heard.is_some_and(|ms| ms < 1_000)
            })
        });
    }

    /// As [`Site::until_caught_up`], unless it leads itself.
    pub fn until_caught_up_or_leads(&self, primary: &str, name: &str) {
        if primary != name {
            self.until_caught_up(primary, name);
        }
    }

    /// A host that has a replica of a service.
    ///
    /// # Panics
    /// When none has.
    pub fn host_of(&self, service: &str) -> String {
        let service = self.cli().service(service);
        let host = service["replicas"][0]["host"].as_str();
        host.expect("a replica is on a host").to_owned()
    }

    /// The controllers, as the primary sees them.
    pub fn members(&self) -> Vec<Value> {
        let words = ["-o", "json", "--retry-for", "60s", "cluster", "members"];
        let text = self.cli().good(&words);
        let members: Value = serde_json::from_str(&text).unwrap_or_default();
        members.as_array().cloned().unwrap_or_default()
    }

    /// The term of the primary.
    ///
    /// # Panics
    /// When there is none.
    pub fn term(&self) -> u64 {
        let words = ["-o", "json", "--retry-for", "60s", "cluster", "status"];
        let text = self.cli().good(&words);
        let status: Value = serde_json::from_str(&text).unwrap_or_default();
        status["term"].as_u64().expect("a primary has a term")
    }

    /// Waits until a service is steady and just its processes run; gives it.
    ///
    /// # Panics
    /// When that does not come.
    pub fn until_processes(&self, name: &str, replicas: usize) -> Value {
        let mut service = Value::Null;
        patience::until(&format!("{name} has just its processes"), || {
            service = self.three.steady(name, replicas as u64);
            let listed = super::facts::identities(&service);
            let mut listed: Vec<u64> = listed.iter().map(|(_, _, pid)| *pid).collect();
            let mut running = self.running(name);
            listed.sort_unstable();
            running.sort_unstable();
            listed == running
        });
        service
    }

    /// Processes of a service's replicas, by what their environment says.
    pub fn running(&self, service: &str) -> Vec<u64> {
        let mark = format!("XCE_SERVICE={service}");
        let folder = self.three.folder();
        let all = processes::of_folder(folder).into_iter();
        let of_service = all.filter(|process| {
            let environment = std::fs::read(format!("/proc/{}/environ", process.pid));
            let environment = environment.unwrap_or_default();
            process.line.starts_with("sleep 1000")
                && environment
                    .split(|byte| *byte == 0)
                    .any(|variable| variable == mark.as_bytes())
        });
        of_service.map(|process| process.pid.into()).collect()
    }

    /// Lets the cluster be for a while, for faults whose length is what is tested.
    pub fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A stopped process would outlive its SIGTERM.
        for pid in &self.stopped {
            processes::signal(*pid, Signal::SIGCONT);
        }
    }
}
