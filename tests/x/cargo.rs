//! The verbs that cargo carries out.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::summary::Summary;
use crate::tools;

/// Builds everything and runs all tests, or those whose names contain a filter.
pub fn test(words: &[String]) -> Result<u8, String> {
    tools::provide()?;
    // With the tests, so that dependencies get the same features and are built once.
    let code = run(cargo(&["build", "--workspace", "--bins", "--tests"]))?;
    if code != 0 {
        return Ok(code);
    }
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    command
        .args(words)
        .env(xce_tests::harness::binaries::BUILT, "1")
        .stdout(Stdio::piped());
    tested(command)
}

/// Runs faults on hosts of their own, or those that are named, and writes the table of results.
pub fn faults(words: &[String]) -> Result<u8, String> {
    tools::provide()?;
    let code = run(cargo(&["build", "--workspace", "--bins", "--tests"]))?;
    if code != 0 {
        return Ok(code);
    }
    let mut command = cargo(&[
        "test",
        "--quiet",
        "--package",
        "xce-tests",
        "--test",
        "faults",
    ]);
    command
        .args(["--", "--write"])
        .args(words)
        .env(xce_tests::harness::binaries::BUILT, "1");
    run(command)
}

/// Formatting, lints, tests; writes nothing but the build.
pub fn verify(words: &[String]) -> Result<u8, String> {
    no_words(words)?;
    let checks: [&[&str]; 2] = [
        &["fmt", "--all", "--check"],
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ];
    for check in checks {
        let code = run(cargo(check))?;
        if code != 0 {
            return Ok(code);
        }
    }
    test(&[])
}

/// Formats, and applies what the lints propose.
pub fn fix(words: &[String]) -> Result<u8, String> {
    no_words(words)?;
    let code = run(cargo(&[
        "clippy",
        "--fix",
        "--workspace",
        "--all-targets",
        "--allow-dirty",
        "--allow-staged",
    ]))?;
    if code != 0 {
        return Ok(code);
    }
    run(cargo(&["fmt", "--all"]))
}

/// Measures an optimised build.
pub fn bench(words: &[String]) -> Result<u8, String> {
    let code = run(cargo(&["build", "--release", "--workspace", "--bins"]))?;
    if code != 0 {
        return Ok(code);
    }
    let mut command = cargo(&[
        "bench",
        "--quiet",
        "--package",
        "xce-tests",
        "--bench",
        "xce",
        "--",
    ]);
    command.args(words);
    // State that is measured belongs on the disk of the build, not into the sources.
    if std::env::var_os("XCE_BENCH_DIR").is_none() {
        command.env("XCE_BENCH_DIR", target_directory()?);
    }
    run(command)
}

/// Runs the histories of the simulation with these settings.
pub fn simulate(settings: &[(&str, String)]) -> Result<u8, String> {
    let mut command = cargo(&[
        "test",
        "--quiet",
        "--package",
        "xce-simulation",
        "--lib",
        "--",
        "--exact",
        "control_plane::a_thousand_histories_of_several_controllers_come_true",
        "--nocapture",
    ]);
    for (name, value) in settings {
        command.env(name, value);
    }
    run(command)
}

fn no_words(words: &[String]) -> Result<(), String> {
    match words.first() {
        None => Ok(()),
        Some(word) => Err(format!("takes nothing, but was given `{word}`")),
    }
}

/// The directory of this program's build, such as `target`.
fn target_directory() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
    let directory = own.ancestors().nth(2);
    directory
        .map(PathBuf::from)
        .ok_or_else(|| "lies outside a build".to_owned())
}

fn cargo(words: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(words).current_dir(xce_tests::root());
    command
}

/// Says what is run, runs it, and gives its exit code.
fn run(mut command: Command) -> Result<u8, String> {
    announce(&command);
    let status = command
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(code_of(status))
}

fn announce(command: &Command) {
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    eprintln!("$ cargo {}", words.join(" "));
}

fn code_of(status: std::process::ExitStatus) -> u8 {
    // A signal has no code; anything but 0 will do.
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// Runs tests, passes everything on, and adds up the runner's results at the end.
fn tested(mut command: Command) -> Result<u8, String> {
    announce(&command);
    let begin = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let mut summary = Summary::default();
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            // Whoever no longer reads has no use for the rest, but the tests go on.
            drop(std::io::stdout().write_all(&line));
            summary.line(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for cargo: {error}"))?;
    println!("{}", summary.text(status.success(), begin.elapsed()));
    Ok(code_of(status))
}
