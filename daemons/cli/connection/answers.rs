//! What answers are called, and up to where they tell.

use xce_model::Lsn;
use xce_session::wire::{Changes, Reply};

/// The kind of an answer, for messages.
pub fn kind_of(reply: &Reply) -> &'static str {
    match reply {
        Reply::Refused(_) => "a refusal",
        Reply::Accepted(_) => "an accepted change",
        Reply::Services(_) => "services",
        Reply::Jobs { .. } => "jobs",
        Reply::Hosts(_) => "hosts",
        Reply::Actors(_) => "actors",
        Reply::Json(_) => "a state",
        Reply::Lines(_) => "lines",
        Reply::Output(_) => "output",
        Reply::Findings(_) => "findings",
        Reply::Sessions(_) => "sessions",
        Reply::Cluster(_) => "the cluster",
        Reply::Watching { .. } => "a watch",
        Reply::Plan(_) => "a plan",
        Reply::Versions(_) => "versions",
        Reply::Member(_) => "controllers",
        Reply::Policies(_) => "policies",
        Reply::Resolved(_) => "resolved values",
        Reply::Journal(_) => "a part of the journal",
        Reply::Refusals(_) => "refusals",
    }
}

/// Position that a reader has after changes: that of a full state takes the place of any before.
pub(super) fn after_of(changes: &Changes, before: Lsn) -> Lsn {
    match changes.full {
        true => changes.lsn,
        false => before.max(changes.lsn),
    }
}
