//! Rows that tests of other binaries prove: they are run, and not written twice.

use std::process::Command;

use super::results::Outcome;

/// Tests of one package.
#[derive(Debug, Clone, Copy)]
pub struct Tests {
    /// The package.
    pub package: &'static str,
    /// Their names, without the modules before.
    pub names: &'static [&'static str],
}

/// Runs them, built as everything else is.
pub fn run(tests: Tests) -> Outcome {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["test", "--quiet", "--package", tests.package]);
    if tests.package == "xce-tests" {
        command.args(["--test", "xce"]);
    }
    command.arg("--").args(tests.names);
    let output = match command.current_dir(xce_tests::root()).output() {
        Ok(output) => output,
        Err(error) => return Outcome::NotRun(format!("cargo does not start: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next())
        .filter_map(|count| count.parse::<usize>().ok())
        .sum::<usize>();
    let names = format!("{} of {}", tests.names.join(", "), tests.package);
    match (output.status.success(), passed >= tests.names.len()) {
        (true, true) => Outcome::Passed(names),
        (true, false) => Outcome::Failed(format!("only {passed} are there of {names}")),
        (false, _) => Outcome::Failed(format!("{names}: {}", last_line(&said))),
    }
}

fn last_line(said: &str) -> &str {
    said.lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it did not build or run")
}
