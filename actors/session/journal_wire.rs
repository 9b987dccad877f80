//! The journal of the log, handed out in parts, and the journal of refusals.

/// Where an export of the journal stands; given back as it came to get the next part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct JournalPosition {
    /// Position that the snapshot at its head covers; 0 for none.
    pub base: u64,
    /// Last position of the export.
    pub end: u64,
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Bytes of the snapshot that are handed out.
    pub offset: u64,
    /// Last position that is handed out.
    pub lsn: u64,
    /// Groups that are handed out.
    pub groups: u64,
}

/// A part of the journal.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct JournalPart {
    /// The next bytes of the file.
    pub bytes: Vec<u8>,
    /// What the next part is asked for with.
    pub position: JournalPosition,
    /// Whether these are the last bytes.
    pub done: bool,
}

/// A change that was refused.
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
pub struct RefusalView {
    /// When, RFC 3339 by the controller's wall clock.
    pub time: String,
    /// When, in milliseconds of cluster time.
    pub at_ms: u64,
    /// Last committed position then.
    pub lsn: u64,
    /// Who wanted it.
    pub principal: String,
    /// What was wanted, such as `service scale`.
    pub event: String,
    /// Stable code of the refusal.
    pub code: String,
    /// The sentence that was answered.
    pub text: String,
    /// Name of the change.
    pub operation: String,
}
