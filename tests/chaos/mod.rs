//! Kills parts of a busy cluster at random: `cargo x chaos [--minutes N] [--seed S]`.
//!
//! While services are updated, scaled, paused, rolled back, restarted, deleted and created, and
//! batch jobs run, daemons, shims, replicas and actors are killed. No index of a version may ever
//! run twice. At the end everything must come to rest: each acknowledged job has ended once and
//! well, each service has just its replicas, all of the version that was accepted last or was gone
//! back to, the audit is clean, and all decisions come out again. The seed fixes what is killed and
//! in which order, not what else the machine does meanwhile.

mod harm;
mod load;
mod proof;
mod wanted;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use xce_tests::harness::{binaries, cli};
use xce_tests::{Cluster, Setup};

use load::Load;

/// Minutes when none are given. Source: chosen; some hundred kills.
const MINUTES: u64 = 5;

/// Runs for some minutes.
///
/// # Errors
/// When the words are wrong.
///
/// # Panics
/// When the cluster loses or invents anything.
pub fn run(words: &[String]) -> Result<u8, String> {
    let (minutes, seed) = options(words)?;
    eprintln!(
        "chaos for {minutes} min; the same again: cargo x chaos --minutes {minutes} --seed {seed}"
    );
    let cluster = Setup::new("chaos").chaos().broken().start();
    // Two of them: what is killed does not depend on which changes were possible.
    let (mut random, mut changes) = (Rng::with_seed(seed), Rng::with_seed(!seed));
    let mut load = Load::start(&cluster);
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let mut deeds: BTreeMap<&str, u32> = BTreeMap::new();
    while Instant::now() < end {
        let change = load.step(&mut changes);
        let (kind, said) = harm::one(&cluster, &mut random);
        proof::no_doubles(&cluster);
        *deeds.entry(change).or_default() += 1;
        *deeds.entry(kind).or_default() += 1;
        eprintln!("{change}; {said}");
    }
    eprintln!("{deeds:?}");
    let (jobs, versions) = load.settle();
    proof::no_doubles(&cluster);
    cluster.audit();
    let decisions = replayed(&cluster);
    let summary = serde_json::json!({"chaos": {
        "seed": seed,
        "minutes": minutes,
        "deeds": deeds,
        "jobs": jobs,
        "versions": versions,
        "decisions": decisions,
    }});
    println!("{summary}");
    Ok(0)
}

/// Makes all decisions of the kept log again; gives their number.
///
/// # Panics
/// When one comes out otherwise.
fn replayed(cluster: &Cluster) -> u64 {
    let file = cluster.folder().join("journal");
    let path = file.to_str().expect("test folders have plain names");
    cluster.cli().good(&["journal", "export", "--out", path]);
    let mut command = Command::new(binaries::path("xced"));
    command.arg("replay").arg(&file);
    let report = cli::run(command, None).good();
    let count = |what: &str| -> Option<u64> {
        let line = report.lines().find_map(|line| line.strip_prefix(what))?;
        line.trim_start_matches(':').trim().parse().ok()
    };
    assert_eq!(count("differing"), Some(0), "{report}");
    count("decisions re-run").unwrap_or_else(|| panic!("no decisions in {report}"))
}

fn options(words: &[String]) -> Result<(u64, u64), String> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (mut minutes, mut seed) = (MINUTES, since.as_secs());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let number = words.next().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| format!("{word} takes a number"))?;
        match word.as_str() {
            "--minutes" => minutes = number,
            "--seed" => seed = number,
            _ => {
                return Err(format!(
                    "there is no option {word}; there are --minutes and --seed"
                ));
            }
        }
    }
    Ok((minutes, seed))
}
