//! What it cost to bring a reader up to date after it came, or came back.

use xce_model::{Bytes, Lsn};
use xce_session::operator_wire::ResumeView;

/// A resume that goes on.
#[derive(Debug)]
pub struct Resume {
    after: Lsn,
    began_ns: u64,
    full: bool,
    rows: u64,
    messages: u64,
    bytes: u64,
}

impl Resume {
    /// One of a reader that held the state of a position; by a monotonic clock in nanoseconds.
    pub fn new(after: Lsn, began_ns: u64) -> Self {
        Self {
            after,
            began_ns,
            full: false,
            rows: 0,
            messages: 0,
            bytes: 0,
        }
    }

    /// Counts a message.
    pub fn add(&mut self, full: bool, rows: usize, bytes: usize) {
        self.full |= full;
        self.rows += rows as u64;
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    /// What it cost.
    pub fn finish(self, now_ns: u64) -> ResumeView {
        ResumeView {
            kind: if self.full { "full" } else { "delta" }.to_owned(),
            after: self.after,
            rows: self.rows,
            messages: self.messages,
            bytes: self.bytes,
            micros: now_ns.saturating_sub(self.began_ns) / 1000,
        }
    }
}

/// A resume as people read it.
pub fn text(resume: &ResumeView) -> String {
    let messages = if resume.messages == 1 { "" } else { "s" };
    format!(
        "{} after {}: {} rows, {} in {} message{messages}, {}.{} ms",
        resume.kind,
        resume.after,
        resume.rows,
        Bytes(resume.bytes).rounded(),
        resume.messages,
        resume.micros / 1000,
        resume.micros % 1000 / 100,
    )
}
