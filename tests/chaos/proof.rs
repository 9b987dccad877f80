//! What really runs, read from the processes themselves and not from what the cluster says.

use std::collections::BTreeMap;
use std::fs;

use xce_tests::Cluster;
use xce_tests::harness::processes;

/// A process of a replica, with what its environment says of it.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Its process id.
    pub pid: u32,
    /// Its service.
    pub service: String,
    /// The version that it was made for.
    pub version: String,
    /// Its index.
    pub index: String,
    /// What it runs.
    pub command: String,
    /// What the profile said when its version was made.
    pub colour: String,
}

/// All processes of replicas; shims and probes carry the same variables, and are none.
pub fn replicas(cluster: &Cluster) -> Vec<Replica> {
    let all = cluster.processes();
    let sleeping = all
        .iter()
        .filter(|process| process.line.starts_with("sleep "));
    sleeping
        .filter_map(|process| {
            let environment = fs::read(format!("/proc/{}/environ", process.pid)).ok()?;
            let environment = String::from_utf8_lossy(&environment).into_owned();
            let value = |name: &str| {
                let mut variables = environment.split('\0');
                variables.find_map(|variable| {
                    let (key, value) = variable.split_once('=')?;
                    (key == name).then(|| value.to_owned())
                })
            };
            Some(Replica {
                pid: process.pid,
                service: value("XCE_SERVICE")?,
                version: value("XCE_VERSION")?,
                index: value("XCE_REPLICA")?,
                command: process.line.clone(),
                colour: value("COLOUR").unwrap_or_default(),
            })
        })
        .collect()
}

/// Requires that no index of a version runs twice at the same time.
///
/// # Panics
/// When one does.
pub fn no_doubles(cluster: &Cluster) {
    let mut by_index: BTreeMap<(String, String, String), Vec<Replica>> = BTreeMap::new();
    for replica in replicas(cluster) {
        let key = (
            replica.service.clone(),
            replica.version.clone(),
            replica.index.clone(),
        );
        by_index.entry(key).or_default().push(replica);
    }
    for mut same in by_index.into_values() {
        // The look took some time: who has ended since may have ended before the other began.
        if same.len() > 1 {
            same.retain(|replica| processes::is_alive(replica.pid));
        }
        assert!(same.len() < 2, "one index runs twice: {same:?}");
    }
}
