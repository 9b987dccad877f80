//! Everything that the log promises, on devices and networks that break their own promises.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seeds unless others are asked for. Source: measured; some ten minutes on two cores.
const SEEDS: &str = "0..8";

/// Parts of the names of the tests that say what they tried.
const TESTS: [&str; 9] = [
    "raft::tests::the_library_accepts",
    "raft::tests::reopen",
    "tests::steps",
    "tests::log::a_flipped_bit",
    "tests::snapshots::no_flipped_bit",
    "tests::persisting",
    "tests::rejoin",
    "tests::slow",
    "tests::cluster",
];

/// One line of the table.
struct Row {
    suite: String,
    cases: String,
    seeds: String,
    passed: bool,
    took: Duration,
}

/// Runs every suite and prints what came out.
pub fn run(words: &[String]) -> Result<u8, String> {
    let seeds = match words {
        [] => SEEDS,
        [key, seeds] if key == "--seeds" => seeds,
        _ => return Err("takes nothing but `--seeds A..B`".to_owned()),
    };
    let numbers = seeds
        .split_once("..")
        .map(|(first, last)| (first.parse::<u64>(), last.parse::<u64>()));
    if !matches!(numbers, Some((Ok(first), Ok(last))) if first < last) {
        return Err(format!(
            "`{seeds}` are no seeds; write 0..8 for eight of them"
        ));
    }
    let (rows, good) = suites(seeds)?;
    print!("{}", table(&rows));
    let failed = rows.iter().filter(|row| !row.passed).count();
    println!("{} suites, {failed} failed", rows.len());
    Ok(u8::from(!good || failed > 0))
}

fn suites(seeds: &str) -> Result<(Vec<Row>, bool), String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    // An optimised build spends its time on the cases, and keeps the assertions of consensus.
    command
        .args(["test", "--package", "xce-wal", "--lib", "--"])
        .args(["--nocapture", "--test-threads=1", "--format=pretty"])
        .args(TESTS)
        .current_dir(xce_tests::root())
        .env("XCE_CONFORMANCE", seeds)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let mut rows = Vec::new();
    let mut last = Instant::now();
    let stdout = child.stdout.take().ok_or("cargo has no output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| format!("cannot read what cargo says: {error}"))?;
        if let Some(mut row) = row_of(&line) {
            row.took = last.elapsed();
            last = Instant::now();
            let state = if row.passed { "passed" } else { "FAILED" };
            eprintln!("{state}: {} ({} s)", row.suite, row.took.as_secs());
            rows.push(row);
        } else if line.starts_with("running ") {
            last = Instant::now();
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for cargo: {error}"))?;
    Ok((rows, status.success()))
}

/// What a line of the runner says of a suite, if it does.
fn row_of(line: &str) -> Option<Row> {
    // With one thread the runner writes the name of a test, and its output follows on that line.
    if let Some((_, said)) = line.split_once("conformance | ") {
        let mut parts = said.split(" | ").map(str::to_owned);
        return Some(Row {
            suite: parts.next()?,
            cases: parts.next()?,
            seeds: parts.next()?,
            passed: true,
            took: Duration::ZERO,
        });
    }
    let name = line.strip_prefix("    ")?;
    let failed = name.contains("::") && !name.contains(' ');
    failed.then(|| Row {
        suite: name.to_owned(),
        cases: "-".to_owned(),
        seeds: "-".to_owned(),
        passed: false,
        took: Duration::ZERO,
    })
}

fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.suite.len())
        .max()
        .unwrap_or(0)
        .max(5);
    let mut text = format!(
        "{:width$}  {:>7}  {:>7}  {:>9}  {:>8}\n",
        "SUITE", "CASES", "PASSED", "SEEDS", "TIME"
    );
    for row in rows {
        let passed = if row.passed { &row.cases } else { "FAILED" };
        let took = format!("{:.1} s", row.took.as_secs_f64());
        text.push_str(&format!(
            "{:width$}  {:>7}  {passed:>7}  {:>9}  {took:>8}\n",
            row.suite, row.cases, row.seeds
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_and_failures_are_read_from_the_runner() {
        let said = row_of("test tests::steps::x ... conformance | device: EIO | 348 | 0..2");
        let row = said.expect("a row");
        assert_eq!(
            (row.suite.as_str(), row.cases.as_str()),
            ("device: EIO", "348")
        );
        assert!(row.passed);
        let failed = row_of("    tests::steps::any_operation_may_fail").expect("a row");
        assert!(!failed.passed);
        for line in [
            "test a::b ... ok",
            "failures:",
            "    at ./actors/x.rs:1",
            "",
        ] {
            assert!(row_of(line).is_none(), "{line}");
        }
        let text = table(&[row, failed]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("FAILED"), "{text}");
    }
}
