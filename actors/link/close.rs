//! Why a connection ended, on the wire and for people.

use std::fmt;

use quinn::{ConnectionError, VarInt};

/// Longest reason sent with a close, in bytes; longer ones are cut.
///
/// Source: derived; it must fit into one packet of 1 200 bytes with its headers.
const REASON_BYTES_MAX: usize = 900;

/// Why one side closed a connection; the numbers stay as they are for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// Its handle was dropped without a word.
    Dropped,
    /// Nothing more to say.
    Done,
    /// The daemon stops.
    Shutdown,
    /// The other side sent what is not allowed.
    Protocol,
    /// The other side read too slowly, or sent a frame too slowly; resume when it can.
    SlowPeer,
    /// The handshake was refused.
    Refused,
    /// A newer connection or incarnation took the session over.
    Fenced,
    /// Too many connections; try again later.
    Overloaded,
    /// This controller is no longer the primary; another one is, or will be.
    NotPrimary,
    /// A code that this program does not know.
    Other(u32),
}

impl CloseCode {
    fn number(self) -> u32 {
        match self {
            Self::Dropped => 0,
            Self::Done => 1,
            Self::Shutdown => 2,
            Self::Protocol => 3,
            Self::SlowPeer => 4,
            Self::Refused => 5,
            Self::Fenced => 6,
            Self::Overloaded => 7,
            Self::NotPrimary => 8,
            Self::Other(number) => number,
        }
    }

    pub(crate) fn wire(self) -> VarInt {
        VarInt::from_u32(self.number())
    }

    pub(crate) fn from_wire(code: VarInt) -> Self {
        let known = [
            Self::Dropped,
            Self::Done,
            Self::Shutdown,
            Self::Protocol,
            Self::SlowPeer,
            Self::Refused,
            Self::Fenced,
            Self::Overloaded,
            Self::NotPrimary,
        ];
        let number = u32::try_from(code.into_inner()).unwrap_or(u32::MAX);
        known
            .into_iter()
            .find(|code| code.number() == number)
            .unwrap_or(Self::Other(number))
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped => out.write_str("dropped"),
            Self::Done => out.write_str("done"),
            Self::Shutdown => out.write_str("shutdown"),
            Self::Protocol => out.write_str("protocol error"),
            Self::SlowPeer => out.write_str("too slow"),
            Self::Refused => out.write_str("refused"),
            Self::Fenced => out.write_str("fenced"),
            Self::Overloaded => out.write_str("overloaded"),
            Self::NotPrimary => out.write_str("not the primary"),
            Self::Other(number) => write!(out, "code {number}"),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This side closed it.
    #[error("closed here ({code}): {reason}")]
    Here {
        /// Why.
        code: CloseCode,
        /// Why, in words.
        reason: String,
    },
    /// The other side closed it.
    #[error("closed by the peer ({code}): {reason}")]
    ByPeer {
        /// Why.
        code: CloseCode,
        /// Why, in words; given by the peer.
        reason: String,
    },
    /// The peer lost the connection, most likely because it restarted.
    #[error("the peer no longer knows this connection; it has restarted")]
    Restarted,
    /// Nothing came for the idle time-out.
    #[error("the peer has been silent for the idle time-out")]
    Silent,
    /// QUIC or TLS failed.
    #[error("connection failed: {reason}")]
    Transport {
        /// Why.
        reason: String,
    },
}

impl Closed {
    pub(crate) fn of(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => Self::ByPeer {
                code: CloseCode::from_wire(close.error_code),
                reason: String::from_utf8_lossy(&close.reason).into_owned(),
            },
            ConnectionError::Reset => Self::Restarted,
            ConnectionError::TimedOut => Self::Silent,
            ConnectionError::LocallyClosed => Self::Here {
                code: CloseCode::Dropped,
                reason: "endpoint closed".to_owned(),
            },
            ConnectionError::VersionMismatch
            | ConnectionError::TransportError(_)
            | ConnectionError::ConnectionClosed(_)
            | ConnectionError::CidsExhausted => Self::Transport {
                reason: error.to_string(),
            },
        }
    }
}

/// Cuts a reason to what a close can carry.
pub(crate) fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}
