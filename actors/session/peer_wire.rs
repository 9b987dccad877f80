//! What controllers tell each other: bytes of consensus, which the write-ahead log alone understands.

/// A request of consensus.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PeerCall {
    /// As the log made them.
    pub bytes: Vec<u8>,
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PeerReply {
    /// As the log made them.
    pub bytes: Vec<u8>,
}
