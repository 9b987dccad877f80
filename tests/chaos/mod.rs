//! Kills parts of a busy cluster at random: `cargo x chaos [--minutes N] [--seed S]`.
//!
//! While services scale and batch jobs run, daemons, shims, replicas and actors are killed. At the
//! end everything must come to rest: each acknowledged job has ended once and well, each service
//! has its replicas, the audit is clean. The seed fixes what is killed and in which order, not
//! what else the machine does meanwhile.

mod harm;
mod load;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use xce_tests::Setup;

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
    let mut random = Rng::with_seed(seed);
    let mut load = Load::start(&cluster);
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let mut deeds = 0_u32;
    while Instant::now() < end {
        load.step(&mut random);
        let deed = harm::one(&cluster, &mut random);
        deeds += 1;
        eprintln!("{deeds:4} {deed}");
    }
    let ended = load.settle();
    cluster.audit();
    println!(
        "{{\"chaos\":{{\"seed\":{seed},\"minutes\":{minutes},\"deeds\":{deeds},\"jobs\":{ended}}}}}"
    );
    Ok(0)
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
