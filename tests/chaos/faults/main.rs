//! What can go wrong around the daemons, brought about on hosts of their own, row by row.
//!
//! ```text
//!   cargo x faults            all rows: a table, which is written into tests/chaos/RESULTS.md too
//!   cargo x faults F01 R11    some of them; the other rows of the file stay as they were
//!   cargo test                the few that are quick, and nothing is written
//! ```
//! Each scenario is judged by facts: processes that are the same or not, jobs that each add a line
//! to a file, what was acknowledged and is there, an audit, the state as each controller has it.

mod clocks;
mod elsewhere;
mod facts;
mod load;
mod partitions;
mod processes;
mod reports;
mod results;
mod site;
mod table;
mod updates;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use results::{Outcome, Results};
use table::{How, Row};
use xce_tests::harness::network;

/// Says that results are to be written; what follows are rows, or nothing for all.
const WRITE: &str = "--write";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let writes = words.iter().any(|word| word == WRITE);
    let named: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let rows = table::rows();
    if writes
        && let Some(unknown) = named
            .iter()
            .find(|id| rows.iter().all(|row| row.id != id.as_str()))
    {
        let known: Vec<&str> = rows.iter().map(|row| row.id).collect();
        eprintln!(
            "there is no row `{unknown}`; there are: {}",
            known.join(" ")
        );
        return ExitCode::from(2);
    }
    let is_meant = |row: &&Row| {
        if writes {
            named.is_empty() || named.iter().any(|id| *id == row.id)
        } else {
            // As the usual runner does: words are parts of names.
            let name = format!("faults::{}", row.id);
            row.is_quick && (named.is_empty() || named.iter().any(|part| name.contains(*part)))
        }
    };
    let meant: Vec<&Row> = rows.iter().filter(is_meant).collect();
    println!("\nrunning {} tests", meant.len());
    let mut results = Results::read(&rows);
    let (mut passed, mut failed) = (0, 0);
    for row in meant {
        let begun = Instant::now();
        let outcome = run(row);
        let word = match &outcome {
            Outcome::Passed(_) | Outcome::NotRun(_) => "ok",
            Outcome::Failed(_) => "FAILED",
        };
        println!("test faults::{} ... {word}", row.id);
        println!("    {outcome} ({} s)", begun.elapsed().as_secs());
        match outcome {
            Outcome::Failed(_) => failed += 1,
            Outcome::Passed(_) | Outcome::NotRun(_) => passed += 1,
        }
        results.set(row.id, &outcome);
        if writes && let Err(error) = results.write() {
            eprintln!("the results are not written: {error}");
            failed += 1;
        }
    }
    if writes {
        print!("\n{}", results.text());
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    ExitCode::from(u8::from(failed > 0))
}

fn run(row: &Row) -> Outcome {
    match row.how {
        How::NotRun(why) => Outcome::NotRun(why.to_owned()),
        How::Elsewhere(tests) => elsewhere::run(tests),
        How::Here(scenario) => {
            if let Some(obstacle) = network::obstacle() {
                return Outcome::NotRun(obstacle);
            }
            match catch_unwind(AssertUnwindSafe(scenario)) {
                Ok(note) => Outcome::Passed(note),
                Err(panic) => Outcome::Failed(text_of(panic.as_ref())),
            }
        }
    }
}

/// What a panic said.
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let line: String = text.unwrap_or("it panicked").chars().take(300).collect();
    line.replace('\n', " ")
}
