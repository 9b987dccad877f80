//! The one list of exceptions. It may only shrink: an exception that nothing needs any more fails
//! the tests, and so does one that allows much more than is there.

use super::Finding;

/// A finding that may stay.
struct Exception {
    rule: &'static str,
    path: &'static str,
    /// Text that the finding contains; empty for any.
    text: &'static str,
    /// The largest amount; 0 where there is none.
    amount_max: usize,
    reason: &'static str,
}

/// How far below its exception something may be before the exception has to shrink.
const SLACK: usize = 20;

const ALL: [Exception; 5] = [
    Exception {
        rule: "function-length",
        path: "config/tests/bad_files.rs",
        text: "each_fault_is_named_with_its_line_and_what_is_allowed",
        amount_max: 173,
        reason: "one table of wrong files with the words of their messages, and three lines of code",
    },
    Exception {
        rule: "function-length",
        path: "config/tests/defaults.rs",
        text: "every_field_of_a_file_arrives",
        amount_max: 104,
        reason: "one file with every field, and beside it what has to come out",
    },
    Exception {
        rule: "function-length",
        path: "daemons/cli/present/job.rs",
        text: "details",
        amount_max: 72,
        reason: "one line for each line that a user sees, in their order",
    },
    Exception {
        rule: "function-length",
        path: "daemons/cli/services.rs",
        text: "change_of",
        amount_max: 99,
        reason: "one arm for each verb; parting them would part the list of what can be asked",
    },
    Exception {
        rule: "sleep",
        path: "actors/runtime/tests.rs",
        text: "",
        amount_max: 0,
        reason: "virtual time: those who use it have their clock paused",
    },
];

/// Whether a finding may stay.
pub fn allow(finding: &Finding) -> bool {
    ALL.iter()
        .any(|exception| exception.covers(finding) && finding.amount <= exception.amount_max)
}

/// Exceptions that are not needed, or not so large.
pub fn stale(findings: &[Finding]) -> Vec<String> {
    let mut stale = Vec::new();
    for exception in &ALL {
        let what = format!("{} {} {}", exception.rule, exception.path, exception.text);
        let amount = findings
            .iter()
            .filter(|f| exception.covers(f))
            .map(|f| f.amount)
            .max();
        match amount {
            None => stale.push(format!("{what}: not needed")),
            Some(amount) if amount + SLACK < exception.amount_max => {
                stale.push(format!("{what}: {amount} is enough"));
            }
            Some(_) => {}
        }
        if exception.reason.len() < 20 {
            stale.push(format!("{what}: has no reason"));
        }
    }
    stale
}

impl Exception {
    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule && self.path == finding.path && finding.text.contains(self.text)
    }
}
