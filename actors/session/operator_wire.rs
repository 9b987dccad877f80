//! What operators see of actors, sessions and the cluster.

use xce_model::Lsn;

use crate::endpoints_wire::ReaderView;
use crate::member_wire::MemberView;

/// One actor in machine output.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ActorView {
    /// Kind, such as `service`.
    pub kind: String,
    /// Key, such as `service/3`.
    pub key: String,
    /// Key of the parent; empty for the root.
    pub parent: String,
    /// Phase, such as `running`.
    pub state: String,
    /// Restarts since the process started.
    pub restarts: u32,
    /// Messages that wait.
    pub mailbox: u32,
    /// Messages handled.
    pub handled: u64,
    /// Share of its life spent in handlers, in thousandths.
    pub busy_permille: u32,
    /// Age of the actor in milliseconds.
    pub age_ms: u64,
    /// How long it has been in one handler, in milliseconds; 0 when idle.
    pub stuck_ms: u64,
    /// Last error; empty when there was none.
    pub last_error: String,
    /// For a folded family: how many rows this one stands for; 1 otherwise.
    pub count: u32,
}

/// One session in machine output.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct SessionView {
    /// Identity.
    pub id: u64,
    /// Kind of the peer.
    pub kind: String,
    /// Who it is.
    pub principal: String,
    /// Address that it last came from.
    pub remote: String,
    /// Whether it is connected.
    pub connected: bool,
    /// How often it was resumed.
    pub epoch: u32,
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// How it last came back: new, delta or full; with bytes and duration.
    pub last_resume: String,
    /// Services whose endpoints it reads.
    pub reads: Vec<ReaderView>,
    /// What it cost to bring its feed up to date when it last came or came back.
    pub resume: Option<ResumeView>,
}

/// What it cost to bring the reader of a feed up to date.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ResumeView {
    /// `delta` or `full`.
    pub kind: String,
    /// Position of the state that it held; 0 for none.
    pub after: Lsn,
    /// Rows.
    pub rows: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of the messages.
    pub bytes: u64,
    /// From its word until it held the state, or until the last was on its way where it does not say.
    pub micros: u64,
}

/// The cluster in machine output.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ClusterView {
    /// Identity of the cluster.
    pub cluster: String,
    /// Version of the software.
    pub version: String,
    /// This controller's role: primary or standby.
    pub role: String,
    /// Term.
    pub term: u64,
    /// Last committed position.
    pub lsn: Lsn,
    /// Cluster time in milliseconds.
    pub time_ms: u64,
    /// Services.
    pub services: u64,
    /// Jobs that have not ended.
    pub jobs: u64,
    /// Jobs that wait.
    pub pending: u64,
    /// Hosts that are up.
    pub hosts_up: u32,
    /// Hosts in all.
    pub hosts: u32,
    /// Sessions.
    pub sessions: u32,
    /// Process id of the controller.
    pub pid: u32,
    /// What is wrong; empty when all is well.
    pub alarms: Vec<String>,
    /// Figures of the WAL, each a name and a value.
    pub wal: Vec<(String, String)>,
    /// Name of the primary.
    pub primary: String,
    /// Since when it leads, RFC 3339 by its wall clock.
    pub primary_since: String,
    /// How many controllers have a vote.
    pub voters: u32,
    /// How many of these answer.
    pub voters_up: u32,
    /// How many of them must agree.
    pub quorum: u32,
    /// Number of the epoch; 1 unless the cluster began anew.
    pub epoch: u32,
    /// Feature level that facts are written at.
    pub level: u16,
    /// Highest feature level that this controller supports.
    pub level_max: u16,
    /// Runs that the cluster never knew and that are left alone, on all hosts.
    pub quarantined: u64,
    /// The controllers.
    pub controllers: Vec<MemberView>,
}
