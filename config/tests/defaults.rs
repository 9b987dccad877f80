//! What a file means that says little, and one that says everything.

use xce_model::spec::{
    Amount, OnStuck, PortSpec, Probe, ProbeAction, Probes, ReplacementSettings, Resources,
    RestartMode, RestartPolicy, RolloutSettings, ServiceSettings, ServiceSpec, Spread, StopPolicy,
    Template, User,
};
use xce_model::{Bytes, MilliCpu, Millis};

use crate::document::Document;
use crate::service_file::{Context, resolve};
use xce_profile::defaults::Account;

/// The account of the tests.
pub fn account() -> Account {
    Account {
        user: User {
            name: "ada".to_owned(),
            uid: 1000,
            gid: 1001,
        },
        home: "/home/ada".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

/// Resolves a text as `file.toml` of ada.
pub fn resolved(text: &str) -> Result<ServiceSpec, String> {
    let find_account = |name: &str| (name == "ada").then(account);
    let context = Context {
        project: None,
        account: account(),
        find_account: &find_account,
    };
    let resolved = resolve(&Document::toml("file.toml", text), &context);
    let mut spec = resolved.map_err(|faults| faults.to_string())?;
    // Where each value came from is tested where it is merged.
    spec.origins.clear();
    Ok(spec)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn smallest() -> ServiceSpec {
    ServiceSpec {
        name: "web".to_owned(),
        project: "default".to_owned(),
        queue: "default".to_owned(),
        profile: "service".to_owned(),
        replicas: None,
        origins: Vec::new(),
        template: Template {
            command: texts(&["sleep", "1"]),
            env: pairs(&[
                ("HOME", "/home/ada"),
                ("LOGNAME", "ada"),
                (
                    "PATH",
                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                ),
                ("USER", "ada"),
            ]),
            cwd: None,
            user: account().user,
            resources: Resources {
                cpus: MilliCpu(100),
                memory: Bytes(128 << 20),
            },
            ports: Vec::new(),
            probes: Probes::default(),
            restart: RestartPolicy {
                mode: RestartMode::Always,
                delay: Millis(100),
                delay_max: Millis(60_000),
                max_restarts: 5,
                window: Millis(600_000),
                stable_after: Millis(60_000),
            },
            stop: StopPolicy {
                drain: Millis(0),
                signal: 15,
                grace: Millis(30_000),
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: xce_model::spec::SingleCopy::None,
        },
        settings: ServiceSettings {
            spread: Spread {
                max_per_host: None,
                best_effort: false,
                label: None,
            },
            rollout: RolloutSettings {
                max_surge: Amount::Percent(25),
                max_unavailable: Amount::Percent(25),
                min_ready: Millis(0),
                progress_deadline: Millis(600_000),
                on_stuck: OnStuck::Stop,
                history_limit: 10,
            },
            replacement: ReplacementSettings {
                stable_after: Millis(60_000),
                delay: Millis(1000),
                delay_max: Millis(300_000),
                crash_limit: 5,
                crash_window: Millis(600_000),
            },
            labels: Vec::new(),
        },
    }
}

#[test]
fn a_file_without_settings_gets_every_default() {
    assert_eq!(
        resolved("name = \"web\"\ncommand = [\"sleep\", \"1\"]\n"),
        Ok(smallest())
    );
}

#[test]
fn the_example_of_a_web_service_means_what_it_says() {
    let spec = resolved(include_str!("../../examples/web.toml")).unwrap();
    let mut wanted = smallest();
    wanted.replicas = Some(3);
    wanted.template.command = texts(&[
        "python3",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "${XCE_PORT_http}",
    ]);
    wanted.template.ports = vec![PortSpec {
        name: "http".to_owned(),
        port: None,
    }];
    wanted.template.probes.readiness = Some(Box::new(Probe {
        action: ProbeAction::Http {
            port: "http".to_owned(),
            host: "127.0.0.1".to_owned(),
            path: "/".to_owned(),
            status_min: 200,
            status_max: 399,
            headers: Vec::new(),
        },
        initial_delay: Millis(0),
        period: Millis(500),
        timeout: Millis(1000),
        success_threshold: 1,
        failure_threshold: 3,
    }));
    assert_eq!(spec, wanted);
}

#[test]
fn every_example_resolves() {
    for text in [
        include_str!("../../examples/nginx.toml"),
        include_str!("../../examples/redis.toml"),
    ] {
        resolved(text).unwrap();
    }
}

const FULL: &str = r#"
name = "full"
replicas = 0
profile = "web"
project = "shop"
queue = "fast"
command = ["server", "${XCE_PORT_http}"]
cwd = "/srv"
user = "ada"
run_limit = "1h"
constraints = { zone = "a" }
labels = { team = "shop" }
env = { LANG = "C", PATH = "/bin" }
resources = { cpus = 1.5, memory = "1GiB" }

[[ports]]
name = "http"
port = 8080

[probes.startup]
tcp = { port = 9000, host = "localhost" }
failure_threshold = 30

[probes.readiness]
http = { port = "http", path = "/ready", status_min = 200, status_max = 204, headers = { Host = "x" } }
initial_delay = "1s"
period = "2s"
timeout = "3s"
success_threshold = 2
failure_threshold = 4

[probes.liveness]
exec = { command = ["check"] }

[restart]
mode = "on_failure"
delay = "1s"
delay_max = "2s"
max_restarts = 7
window = "1m"
stable_after = "5s"

[stop]
drain = "1s"
signal = "QUIT"
grace = "5s"

[spread]
max_per_host = 1
mode = "best_effort"
label = "zone"

[rollout]
max_surge = 2
max_unavailable = "0%"
min_ready = "3s"
progress_deadline = "60s"
on_stuck = "rollback"
history_limit = 3

[replacement]
stable_after = "1s"
delay = "2s"
delay_max = "3s"
crash_limit = 4
crash_window = "5s"
"#;

#[test]
fn every_field_of_a_file_arrives() {
    let spec = resolved(FULL).unwrap();
    let wanted = ServiceSpec {
        name: "full".to_owned(),
        project: "shop".to_owned(),
        queue: "fast".to_owned(),
        profile: "web".to_owned(),
        replicas: Some(0),
        origins: Vec::new(),
        template: full_template(),
        settings: full_settings(),
    };
    assert_eq!(spec, wanted);
}

fn full_template() -> Template {
    Template {
        command: texts(&["server", "${XCE_PORT_http}"]),
        env: pairs(&[
            ("HOME", "/home/ada"),
            ("LANG", "C"),
            ("LOGNAME", "ada"),
            ("PATH", "/bin"),
            ("USER", "ada"),
        ]),
        cwd: Some("/srv".to_owned()),
        user: account().user,
        resources: Resources {
            cpus: MilliCpu(1500),
            memory: Bytes(1 << 30),
        },
        ports: vec![PortSpec {
            name: "http".to_owned(),
            port: Some(8080),
        }],
        probes: full_probes(),
        restart: RestartPolicy {
            mode: RestartMode::OnFailure,
            delay: Millis(1000),
            delay_max: Millis(2000),
            max_restarts: 7,
            window: Millis(60_000),
            stable_after: Millis(5000),
        },
        stop: StopPolicy {
            drain: Millis(1000),
            signal: 3,
            grace: Millis(5000),
        },
        run_limit: Some(Millis(3_600_000)),
        constraints: pairs(&[("zone", "a")]),
        single_copy: xce_model::spec::SingleCopy::None,
    }
}

fn full_probes() -> Probes {
    let probe = |action, period, failures| Probe {
        action,
        initial_delay: Millis(0),
        period,
        timeout: Millis(1000),
        success_threshold: 1,
        failure_threshold: failures,
    };
    let tcp = ProbeAction::Tcp {
        port: "9000".to_owned(),
        host: "localhost".to_owned(),
    };
    let exec = ProbeAction::Exec {
        command: texts(&["check"]),
    };
    let http = ProbeAction::Http {
        port: "http".to_owned(),
        host: "127.0.0.1".to_owned(),
        path: "/ready".to_owned(),
        status_min: 200,
        status_max: 204,
        headers: pairs(&[("Host", "x")]),
    };
    Probes {
        startup: Some(Box::new(probe(tcp, Millis(10_000), 30))),
        readiness: Some(Box::new(Probe {
            action: http,
            initial_delay: Millis(1000),
            period: Millis(2000),
            timeout: Millis(3000),
            success_threshold: 2,
            failure_threshold: 4,
        })),
        liveness: Some(Box::new(probe(exec, Millis(10_000), 3))),
    }
}

fn full_settings() -> ServiceSettings {
    ServiceSettings {
        spread: Spread {
            max_per_host: Some(1),
            best_effort: true,
            label: Some("zone".to_owned()),
        },
        rollout: RolloutSettings {
            max_surge: Amount::Count(2),
            max_unavailable: Amount::Percent(0),
            min_ready: Millis(3000),
            progress_deadline: Millis(60_000),
            on_stuck: OnStuck::Rollback,
            history_limit: 3,
        },
        replacement: ReplacementSettings {
            stable_after: Millis(1000),
            delay: Millis(2000),
            delay_max: Millis(3000),
            crash_limit: 4,
            crash_window: Millis(5000),
        },
        labels: pairs(&[("team", "shop")]),
    }
}

#[test]
fn the_project_of_the_request_wins_over_the_file() {
    let context = Context {
        project: Some("night"),
        account: account(),
        find_account: &|_| None,
    };
    let text = "name = \"web\"\nproject = \"day\"\ncommand = [\"x\"]\n";
    assert_eq!(
        resolve(&Document::toml("f", text), &context).map(|spec| spec.project),
        Ok("night".to_owned())
    );
}
