//! Specifications of services, made from a service file as users write it.

use std::cell::OnceCell;

use xce_config::document::Document;
use xce_config::service_file::{Context, resolve};
use xce_model::spec::{Amount, OnStuck, PortSpec, Probe, RestartMode, ServiceSpec, Template, User};
use xce_model::{MilliCpu, Millis};
use xce_profile::defaults::Account;

thread_local! {
    static BASE: OnceCell<ServiceSpec> = const { OnceCell::new() };
}

const FILE: &str = "
name = \"web\"
command = [\"v1\"]
resources = { cpus = 0.1, memory = \"2MiB\" }
probes.readiness = { exec = { command = [\"true\"] }, period = \"10s\", failure_threshold = 1 }
probes.startup = { exec = { command = [\"true\"] }, period = \"1s\", failure_threshold = 1000 }
probes.liveness = { exec = { command = [\"true\"] }, period = \"10s\", failure_threshold = 3 }
";

fn base() -> ServiceSpec {
    BASE.with(|base| {
        base.get_or_init(|| {
            let account = Account {
                user: User {
                    name: "ada".to_owned(),
                    uid: 1000,
                    gid: 1000,
                },
                home: "/home/ada".to_owned(),
                shell: "/bin/sh".to_owned(),
            };
            let context = Context {
                project: None,
                account,
                find_account: &|_| None,
            };
            resolve(&Document::toml("web.toml", FILE), &context).expect("the file is good")
        })
        .clone()
    })
}

/// A probe with the defaults of service files.
pub fn probe(period: Millis, failures: u32) -> Box<Probe> {
    let mut probe = base()
        .template
        .probes
        .liveness
        .expect("the file has a liveness probe");
    probe.period = period;
    probe.failure_threshold = failures;
    probe
}

/// `replicas` of "v1" with a readiness probe; surge and unavailability in numbers.
pub fn web(replicas: u32, surge: u32, unavailable: u32) -> ServiceSpec {
    let mut spec = base();
    spec.replicas = Some(replicas);
    spec.template.probes.startup = None;
    spec.template.probes.liveness = None;
    spec.template.restart.mode = RestartMode::Never;
    spec.settings.rollout.max_surge = Amount::Count(surge);
    spec.settings.rollout.max_unavailable = Amount::Count(unavailable);
    spec
}

/// Small changes of a specification, one after the other.
pub trait Change: Sized {
    fn named(self, name: &str) -> Self;
    fn command(self, text: &str) -> Self;
    fn deadline(self, seconds: u64) -> Self;
    fn rolls_back(self) -> Self;
    fn min_ready(self, seconds: u64) -> Self;
    fn cpus(self, milli: u64) -> Self;
    fn port(self, port: Option<u16>) -> Self;
    fn with(self, change: impl FnOnce(&mut Template)) -> Self;
    fn count(self, replicas: Option<u32>) -> Self;
}

impl Change for ServiceSpec {
    fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    fn command(mut self, text: &str) -> Self {
        self.template.command = vec![text.to_owned()];
        self
    }

    fn deadline(mut self, seconds: u64) -> Self {
        self.settings.rollout.progress_deadline = Millis::seconds(seconds);
        self
    }

    fn rolls_back(mut self) -> Self {
        self.settings.rollout.on_stuck = OnStuck::Rollback;
        self
    }

    fn min_ready(mut self, seconds: u64) -> Self {
        self.settings.rollout.min_ready = Millis::seconds(seconds);
        self
    }

    fn cpus(mut self, milli: u64) -> Self {
        self.template.resources.cpus = MilliCpu(milli);
        self
    }

    fn port(mut self, port: Option<u16>) -> Self {
        let name = "http".to_owned();
        self.template.ports = vec![PortSpec { name, port }];
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Template)) -> Self {
        change(&mut self.template);
        self
    }

    fn count(mut self, replicas: Option<u32>) -> Self {
        self.replicas = replicas;
        self
    }
}
