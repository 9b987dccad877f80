//! The project's own tool: `cargo x`.
//!
//! ```text
//!   cargo x test [FILTER]     build everything, then run all tests
//!   cargo x verify            formatting, lints, all tests; writes nothing
//!   cargo x fix               format, and apply what the lints propose
//!   cargo x bench [NAME]      measure an optimised build; one line of JSON each
//!   cargo x faults [ID...]    faults on hosts of their own; writes tests/chaos/RESULTS.md
//!   cargo x conformance       what the log promises, on devices and networks that fail
//!   cargo x chaos             kill parts of a busy cluster at random
//!   cargo x sim               histories of simulated controllers, workers and clients
//! ```

#[path = "x/cargo.rs"]
mod cargo;
#[path = "chaos/mod.rs"]
mod chaos;
#[path = "x/conformance.rs"]
mod conformance;
#[path = "x/sim.rs"]
mod sim;
#[path = "x/summary.rs"]
mod summary;
#[path = "x/tools.rs"]
mod tools;

use std::process::ExitCode;

/// One command: its name, what it takes, what it does, and how.
struct Verb {
    name: &'static str,
    takes: &'static str,
    does: &'static str,
    run: fn(&[String]) -> Result<u8, String>,
}

const VERBS: [Verb; 8] = [
    Verb {
        name: "test",
        takes: "[FILTER] [-- OPTIONS]",
        does: "build everything, then run all tests",
        run: cargo::test,
    },
    Verb {
        name: "verify",
        takes: "",
        does: "formatting, lints, all tests; writes nothing",
        run: cargo::verify,
    },
    Verb {
        name: "fix",
        takes: "",
        does: "format, and apply what the lints propose",
        run: cargo::fix,
    },
    Verb {
        name: "bench",
        takes: "[NAME...]",
        does: "measure an optimised build; one line of JSON each",
        run: cargo::bench,
    },
    Verb {
        name: "faults",
        takes: "[ID...]",
        does: "faults on hosts of their own; writes tests/chaos/RESULTS.md",
        run: cargo::faults,
    },
    Verb {
        name: "chaos",
        takes: "[--minutes N] [--seed S]",
        does: "kill parts of a busy cluster at random",
        run: chaos::run,
    },
    Verb {
        name: "conformance",
        takes: "[--seeds A..B]",
        does: "everything that the log promises, on devices and networks that fail",
        run: conformance::run,
    },
    Verb {
        name: "sim",
        takes: "[--seeds A..B] [--tell]",
        does: "run histories of simulated controllers, workers and clients",
        run: sim::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = words.split_first() else {
        help();
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        help();
        return ExitCode::SUCCESS;
    }
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        eprintln!("cargo x: there is no `{name}`");
        help();
        return ExitCode::from(2);
    };
    match (verb.run)(rest) {
        Ok(code) => ExitCode::from(code),
        Err(text) => {
            eprintln!("cargo x {name}: {text}");
            ExitCode::FAILURE
        }
    }
}

fn help() {
    for verb in &VERBS {
        eprintln!(
            "  cargo x {:<11} {:<25} {}",
            verb.name, verb.takes, verb.does
        );
    }
}
