//! What controllers tell each other: bytes of consensus, which the write-ahead log alone understands.

/// A request of consensus.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PeerCall {
    /// As the log made them.
    pub bytes: Vec<u8>,
}

/// Asks a controller what it is; from protocol version 2 on.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PeerAsk {
    /// Epoch of the one who asks.
    pub epoch: u32,
}

/// What a controller is.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PeerAbout {
    /// Version of its program.
    pub version: String,
    /// Highest feature level that it supports.
    pub level: u16,
    /// When its certificate ends, in seconds of Unix time.
    pub certificate_ends_s: i64,
    /// Its epoch.
    pub epoch: u32,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PeerReply {
    /// As the log made them.
    pub bytes: Vec<u8>,
}
