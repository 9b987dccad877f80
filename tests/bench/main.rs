//! Measurements, each printing one line of JSON: `cargo x bench`, or with names some of them.

mod actors;
mod client;
mod cpu;
mod decide;
mod endpoints;
mod etcd;
mod failover;
mod feed;
mod herd;
mod jobs;
mod probes;
mod quorum;
mod restarts;
mod rollout;
mod shim;
mod snapshot;
mod wal;

use std::error::Error;
use std::process::ExitCode;

/// Name of a measurement, and how it runs.
type Measurement = (&'static str, fn() -> Result<(), Box<dyn Error>>);

const ALL: [Measurement; 14] = [
    ("actors", || {
        actors::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("decide", || {
        decide::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("endpoints", || {
        endpoints::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("failover", || {
        failover::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("herd", || {
        herd::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("feed", || {
        feed::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("jobs", || {
        jobs::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("probes", || {
        probes::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("restarts", || {
        restarts::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("rollout", || {
        rollout::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("shim", || {
        shim::run();
        Ok(())
    }),
    ("quorum", quorum::run),
    ("snapshot", || {
        snapshot::run().map_err(|fault| fault as Box<dyn Error>)
    }),
    ("wal", wal::run),
];

fn main() -> ExitCode {
    // Cargo adds options such as `--bench`.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let unknown = wanted
        .iter()
        .find(|name| ALL.iter().all(|(known, _)| known != name));
    if let Some(name) = unknown {
        let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "there is no measurement `{name}`; there are: {}",
            known.join(", ")
        );
        return ExitCode::from(2);
    }
    let mut failed = false;
    for (name, run) in ALL {
        if !wanted.is_empty() && !wanted.iter().any(|other| other == name) {
            continue;
        }
        if let Err(error) = run() {
            eprintln!("{name}: {error}");
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}
