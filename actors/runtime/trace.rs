//! Names of spans and fields, so that every crate writes the same word for the same thing.
//!
//! Fields carry the details; the message of an event is a fixed lower-case phrase.

/// Span of one message handled by a host actor.
pub const SPAN_HOST: &str = "host";
/// Span of one message handled by a job's actor, batch or replica.
pub const SPAN_REPLICA: &str = "replica";
/// Span of one message handled by a service actor.
pub const SPAN_SERVICE: &str = "service";
/// Span of one peer's session.
pub const SPAN_SESSION: &str = "session";
/// Span of one group written by the WAL.
pub const SPAN_WAL: &str = "wal";

/// The actor an event is about, as `kind/id`.
pub const FIELD_ACTOR: &str = "actor";
/// What went wrong, with its causes.
pub const FIELD_ERROR: &str = "error";
/// Name of a host.
pub const FIELD_HOST: &str = "host";
/// Number of a job.
pub const FIELD_JOB: &str = "job";
/// Position in the log.
pub const FIELD_LSN: &str = "lsn";
/// Name of a connected peer.
pub const FIELD_PEER: &str = "peer";
/// Index of a replica in its service.
pub const FIELD_REPLICA: &str = "replica";
/// How often an actor was started again.
pub const FIELD_RESTARTS: &str = "restarts";
/// Number of an attempt of a job.
pub const FIELD_RUN: &str = "run";
/// Name of a service.
pub const FIELD_SERVICE: &str = "service";
/// Raft term.
pub const FIELD_TERM: &str = "term";
