//! Real clusters: real daemons, real jobs, the real command line. Each test says by its name what it
//! proves.

mod actors;
mod alone;
mod anew;
mod arrays;
mod batch;
mod blame;
mod both;
mod config;
mod controllers;
mod corpus;
mod disk;
mod documents;
mod doors;
mod draining;
mod endings;
mod endpoints;
mod failpoints;
mod files;
mod first_run;
mod lost;
mod members;
mod probes;
mod profiles;
mod programs;
mod refusals;
mod replay;
mod requeue;
mod restarts;
mod rollouts;
mod scheduler;
mod sessions;
mod single_copy;
mod three;
mod versions;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xce_tests::harness::cluster::pid;

/// Writes a service whose replicas do nothing, and listen nowhere.
fn idle_service(folder: &Path, name: &str, replicas: u32) -> PathBuf {
    service(folder, name, replicas, r#"["sleep", "100000"]"#, "")
}

/// Writes a service file; `more` is added at its end.
fn service(folder: &Path, name: &str, replicas: u32, command: &str, more: &str) -> PathBuf {
    let path = folder.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nreplicas = {replicas}\ncommand = {command}\n\
         resources = {{ cpus = 0.01, memory = \"16MiB\" }}\n{more}\n"
    );
    fs::write(&path, text).expect("the folder can be written");
    path
}

/// A path as a word of a command line.
fn word(path: &Path) -> &str {
    path.to_str().expect("test folders have plain names")
}

/// Rows of a list.
#[track_caller]
fn rows<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    object[field]
        .as_array()
        .unwrap_or_else(|| panic!("no list `{field}` in {object}"))
}

/// Job, run and process of each replica, in the order of their indices.
fn identities(service: &Value) -> Vec<(String, u64, u32)> {
    let replicas = rows(service, "replicas").iter();
    let identity = |replica: &Value| {
        let job = replica["job"]
            .as_str()
            .expect("a replica has a job")
            .to_owned();
        (
            job,
            replica["run"].as_u64().expect("a replica has a run"),
            pid(replica),
        )
    };
    replicas.map(identity).collect()
}
