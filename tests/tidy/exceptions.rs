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

const ALL: [Exception; 0] = [];

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
