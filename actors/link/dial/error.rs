//! Why no connection was made, in words that say whose fault it is.

use std::net::SocketAddr;

use xce_model::{ClusterId, Refusal, RefusalKind};

use crate::close::Closed;

/// No connection was made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    /// No address was given.
    #[error("no address to connect to")]
    NoAddress,
    /// The identity or a socket cannot be used on this host.
    #[error("cannot connect from this host: {reason}")]
    Here {
        /// Why.
        reason: String,
    },
    /// Another cluster answers at the address.
    #[error("{address} belongs to cluster {theirs}, but this identity is for cluster {ours}")]
    WrongCluster {
        /// Who answered.
        address: SocketAddr,
        /// The cluster of our identity.
        ours: ClusterId,
        /// The cluster that it claims to be.
        theirs: ClusterId,
    },
    /// Who answers at the address is not certified by our cluster's authority.
    #[error("{address} is not trusted: it has no valid certificate of cluster {ours} ({reason})")]
    UntrustedPeer {
        /// Who answered.
        address: SocketAddr,
        /// The cluster of our identity.
        ours: ClusterId,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The peer does not accept our certificate.
    #[error("{address} does not accept this identity ({ours}): {reason}")]
    NotAccepted {
        /// Who refused.
        address: SocketAddr,
        /// Whom our certificate names.
        ours: String,
        /// Why.
        reason: String,
    },
    /// The peer speaks another protocol, or another version of it.
    #[error("{address} does not speak this protocol: {reason}")]
    Protocol {
        /// Who answered.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The peer turned the connection away.
    #[error("{address} turned the connection away: {closed}")]
    TurnedAway {
        /// Who answered.
        address: SocketAddr,
        /// How.
        closed: Closed,
    },
    /// An address cannot be reached.
    #[error("{address} cannot be reached: {reason}")]
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// No address answered in time.
    #[error("no answer within {timeout_ms} ms from {}", list(tried))]
    NoAnswer {
        /// What was tried.
        tried: Vec<SocketAddr>,
        /// The time-out in milliseconds.
        timeout_ms: u64,
    },
}

impl DialError {
    /// The form in which a user hears of it.
    pub fn refusal(&self) -> Refusal {
        let (kind, code) = match self {
            Self::NoAddress => (RefusalKind::Usage, "no_address"),
            Self::Here { .. } => (RefusalKind::Unavailable, "cannot_connect"),
            Self::WrongCluster { .. } => (RefusalKind::NotPermitted, "wrong_cluster"),
            Self::UntrustedPeer { .. } => (RefusalKind::NotPermitted, "untrusted_peer"),
            Self::NotAccepted { .. } => (RefusalKind::NotPermitted, "identity_not_accepted"),
            Self::Protocol { .. } => (RefusalKind::Refused, "protocol_mismatch"),
            Self::TurnedAway { .. } => (RefusalKind::Unavailable, "turned_away"),
            Self::Unreachable { .. } => (RefusalKind::Unavailable, "unreachable"),
            Self::NoAnswer { .. } => (RefusalKind::Unavailable, "no_answer"),
        };
        Refusal::new(kind, code, self.to_string())
    }

    /// How much the error tells a user; of several addresses' errors the most telling is given.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Self::NoAddress | Self::NoAnswer { .. } => 0,
            Self::Unreachable { .. } | Self::Here { .. } => 1,
            Self::TurnedAway { .. } => 2,
            Self::Protocol { .. } => 3,
            Self::UntrustedPeer { .. } | Self::NotAccepted { .. } => 4,
            Self::WrongCluster { .. } => 5,
        }
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
