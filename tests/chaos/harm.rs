//! One deed of harm.

use fastrand::Rng;
use serde_json::Value;
use xce_tests::Cluster;
use xce_tests::harness::processes;

/// Kills something; gives its kind, and says what.
pub fn one(cluster: &Cluster, random: &mut Rng) -> (&'static str, String) {
    match random.u8(..12) {
        0 => {
            let said = daemon(cluster, "the controller", |line| {
                line.contains(" controller ")
            });
            ("kill controller", said)
        }
        1 => {
            let name = if random.bool() {
                "name=w1 "
            } else {
                "name=w2 "
            };
            let said = daemon(cluster, name, |line| line.contains(name));
            ("kill worker", said)
        }
        2 => ("kill all daemons", daemon(cluster, "all daemons", |_| true)),
        3 | 4 => {
            let said = job_process(cluster, random, "a shim", |line| line.contains("xce-shim"));
            ("kill shim", said)
        }
        5 | 6 => {
            let said = job_process(cluster, random, "a process of a job", |line| {
                line.starts_with("sleep ")
            });
            ("kill replica", said)
        }
        7..=9 => ("kill actor", actor(cluster, random)),
        _ => ("none", "left alone".to_owned()),
    }
}

fn daemon(cluster: &Cluster, what: &str, is_meant: impl Fn(&str) -> bool) -> String {
    let daemons = cluster.daemons();
    let meant: Vec<u32> = daemons
        .iter()
        .filter(|process| is_meant(&process.line))
        .map(|process| process.pid)
        .collect();
    meant.iter().for_each(|pid| processes::kill_hard(*pid));
    format!("killed {what}: {meant:?}")
}

fn job_process(
    cluster: &Cluster,
    random: &mut Rng,
    what: &str,
    is_meant: impl Fn(&str) -> bool,
) -> String {
    let all = cluster.processes();
    let meant: Vec<u32> = all
        .iter()
        .filter(|process| is_meant(&process.line))
        .map(|process| process.pid)
        .collect();
    match random.choice(&meant) {
        None => format!("no {what} to kill"),
        Some(pid) => {
            processes::kill_hard(*pid);
            format!("killed {what}: {pid}")
        }
    }
}

fn actor(cluster: &Cluster, random: &mut Rng) -> String {
    let cli = cluster.cli();
    let tree = cli.json(&["--retry-for", "60s", "actors", "tree", "--no-fold"]);
    let none = Vec::new();
    let actors = tree.as_array().unwrap_or(&none);
    let keys: Vec<&str> = actors
        .iter()
        .filter(|actor| actor["parent"] != "")
        .filter_map(|actor: &Value| actor["key"].as_str())
        .collect();
    match random.choice(&keys) {
        None => "no actor to kill".to_owned(),
        Some(key) => {
            let answer = cli.run(&["actors", "kill", key]);
            format!("killed actor {key}: {}", answer.code)
        }
    }
}
