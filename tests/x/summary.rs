//! Adds up the results that the test runner prints for each of its binaries.

use std::time::Duration;

/// Sums of all results so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    binaries: u32,
    passed: u64,
    failed: u64,
    ignored: u64,
    names: Vec<String>,
}

impl Summary {
    /// Takes one line of the runner's output.
    pub fn line(&mut self, line: &str) {
        if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.names.push(name.to_owned());
        }
        let Some(rest) = line.strip_prefix("test result: ") else {
            return;
        };
        let Some((_, counts)) = rest.split_once(". ") else {
            return;
        };
        self.binaries += 1;
        for part in counts.split(';') {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                Some(_) | None => {}
            }
        }
    }

    /// What came out, the names of failed tests first.
    pub fn text(&self, good: bool, took: Duration) -> String {
        let mut text = String::new();
        for name in &self.names {
            text.push_str(&format!("failed: {name}\n"));
        }
        let word = if good { "ok" } else { "FAILED" };
        text.push_str(&format!(
            "all tests: {word}. {} passed; {} failed; {} ignored; in {} binaries; {} s",
            self.passed,
            self.failed,
            self.ignored,
            self.binaries,
            took.as_secs()
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_and_failures_named() {
        let mut summary = Summary::default();
        for line in [
            "running 2 tests",
            "test rules::one ... ok",
            "test rules::two ... FAILED",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        ] {
            summary.line(line);
        }
        let text = summary.text(false, Duration::from_secs(3));
        let expected = "failed: rules::two\nall tests: FAILED. 8 passed; 1 failed; 2 ignored; in 2 binaries; 3 s";
        assert_eq!(text, expected);
    }
}
