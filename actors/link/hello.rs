//! The first request on a connection, and its answer.
//!
//! ```text
//!   dialler:  Hello { versions, cluster, kind, incarnation, New | Resume }
//!   listener: Welcome { version, session, epoch, token, term, lsn, resumed }   or   Refused
//! ```
//! These two types never change their form within a version of the frame form, so that any two
//! programs can at least refuse each other in words.

use std::fmt;
use std::net::SocketAddr;

use rkyv::{Archive, Deserialize, Serialize};
use xce_model::{ClusterId, Incarnation, Lsn, Refusal, RefusalKind, SessionId};

use crate::message::{KIND_HELLO, KIND_HELLO_ANSWER, Message};

/// Protocol versions that this program speaks.
///
/// 1: the first. 2: controllers tell each other what they are, [`ABOUT_SINCE`].
/// Source: counted; the version before the highest is spoken too, so that hosts are upgraded one by
/// one.
pub const VERSIONS: VersionRange = VersionRange { low: 1, high: 2 };

/// Protocol version from which controllers tell each other what they are.
pub const ABOUT_SINCE: u16 = 2;

impl VersionRange {
    /// The range that this program speaks, held back to a highest version; 0 holds nothing back.
    ///
    /// # Errors
    /// The highest version is not within the range.
    pub fn up_to(highest: u16) -> Result<Self, String> {
        match highest {
            0 => Ok(VERSIONS),
            high if (VERSIONS.low..=VERSIONS.high).contains(&high) => Ok(Self { high, ..VERSIONS }),
            other => Err(format!(
                "protocol version {other} is not spoken here; this program speaks {VERSIONS}"
            )),
        }
    }
}

/// A range of protocol versions, both ends included.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Lowest version that is spoken.
    pub low: u16,
    /// Highest version that is spoken.
    pub high: u16,
}

impl fmt::Display for VersionRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high {
            return write!(out, "{}", self.low);
        }
        write!(out, "{} to {}", self.low, self.high)
    }
}

/// What kind of peer speaks; its certificate's role must allow it.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerKind {
    /// The worker of a host.
    Worker,
    /// A person's or script's client.
    Client,
    /// A scheduler.
    Scheduler,
    /// An apiserver.
    Apiserver,
    /// Another controller.
    Controller,
}

/// What the dialler wants.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A new session.
    New,
    /// The session of a token goes on.
    Resume {
        /// The sealed token of the last welcome.
        token: Vec<u8>,
        /// LSN of the last change that was applied and acknowledged.
        last_lsn: Lsn,
        /// Number of the last message of the session that was received.
        last_seq: u64,
    },
    /// No session: reads of what this controller has applied, which may be behind, at the position
    /// that the welcome names.
    Look,
}

/// The first request on every connection.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Protocol versions the dialler speaks.
    pub versions: VersionRange,
    /// The cluster it means.
    pub cluster: ClusterId,
    /// What it is.
    pub kind: PeerKind,
    /// Its incarnation; a newer one fences the older.
    pub incarnation: Incarnation,
    /// What it wants.
    pub opening: Opening,
}

/// The session that the listener grants.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Protocol version to speak from now on.
    pub version: u16,
    /// The session.
    pub session: SessionId,
    /// Its epoch; every resume raises it, and lower ones are fenced.
    pub epoch: u64,
    /// The sealed token for the next resume.
    pub token: Vec<u8>,
    /// Term of the primary.
    pub term: u64,
    /// Last committed LSN.
    pub lsn: Lsn,
    /// Whether the old session goes on; false is a new one, with nothing of the old.
    pub resumed: bool,
    /// Time in milliseconds over which peers spread their coming back when many lose their
    /// connection at once: each waits for a random part of it. Follows the size of the cluster.
    pub spread_ms: u64,
}

/// Why a hello is refused; the words are in [`HelloCode::word`].
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HelloCode {
    /// No common protocol version.
    Version,
    /// The dialler means another cluster.
    WrongCluster,
    /// The certificate's role does not allow this kind of peer.
    NotPermitted,
    /// The token is not valid; a new session may be opened.
    Token,
    /// A newer incarnation or epoch has taken over.
    Fenced,
    /// This controller is not the primary.
    NotPrimary,
    /// Too many sessions or resumes; try again later.
    Busy,
    /// The hello is not understood.
    Malformed,
}

impl HelloCode {
    /// The stable word for machines.
    pub fn word(self) -> &'static str {
        match self {
            Self::Version => "protocol_version",
            Self::WrongCluster => "wrong_cluster",
            Self::NotPermitted => "not_permitted",
            Self::Token => "bad_token",
            Self::Fenced => "fenced",
            Self::NotPrimary => "not_primary",
            Self::Busy => "busy",
            Self::Malformed => "malformed_hello",
        }
    }
}

/// A refused hello.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct HelloRefusal {
    /// Why.
    pub code: HelloCode,
    /// Why, in one sentence.
    pub text: String,
    /// Protocol versions that are allowed.
    pub allowed: VersionRange,
    /// Where the primary listens, `host:port`, when it is another controller and known.
    pub primary: Option<String>,
}

impl HelloRefusal {
    /// Makes a refusal that names the versions this program speaks.
    pub fn new(code: HelloCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            allowed: VERSIONS,
            primary: None,
        }
    }

    /// The refusal of a controller that is not the primary, with the way to the one that is.
    pub fn not_primary(primary: Option<String>) -> Self {
        let text = match &primary {
            Some(address) => format!("this controller is a standby; the primary is at {address}"),
            None => "this controller is a standby, and no primary is known now".to_owned(),
        };
        Self {
            primary,
            ..Self::new(HelloCode::NotPrimary, text)
        }
    }

    /// Where the primary listens, where it is another controller and known by number.
    pub fn primary_address(&self) -> Option<SocketAddr> {
        self.primary.as_ref()?.parse().ok()
    }

    /// The form in which a user hears of it.
    pub fn refusal(&self) -> Refusal {
        let kind = match self.code {
            HelloCode::Version | HelloCode::Token | HelloCode::Fenced | HelloCode::Malformed => {
                RefusalKind::Refused
            }
            HelloCode::WrongCluster | HelloCode::NotPermitted => RefusalKind::NotPermitted,
            HelloCode::NotPrimary | HelloCode::Busy => RefusalKind::Unavailable,
        };
        Refusal::new(kind, self.code.word(), self.text.clone())
    }
}

/// The answer to a hello.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum HelloAnswer {
    /// The session begins or goes on.
    Welcome(Welcome),
    /// It does not.
    Refused(HelloRefusal),
}

impl Message for Hello {
    const KIND: u8 = KIND_HELLO;
    const VERSION: u8 = 1;
}

impl Message for HelloAnswer {
    const KIND: u8 = KIND_HELLO_ANSWER;
    const VERSION: u8 = 1;
}

/// Chooses the highest version that both sides speak.
///
/// # Errors
/// A refusal with [`HelloCode::Version`] that names both ranges when there is none, and with
/// [`HelloCode::Malformed`] when their range is empty.
pub fn negotiate(ours: VersionRange, theirs: VersionRange) -> Result<u16, HelloRefusal> {
    let refuse = |code, text| HelloRefusal {
        code,
        text,
        allowed: ours,
        primary: None,
    };
    if theirs.low > theirs.high {
        let text = format!(
            "protocol versions {} to {} are no range",
            theirs.low, theirs.high
        );
        return Err(refuse(HelloCode::Malformed, text));
    }
    let highest = ours.high.min(theirs.high);
    if highest >= ours.low && highest >= theirs.low {
        return Ok(highest);
    }
    let text =
        format!("no common protocol version: the peer speaks {theirs}, this controller {ours}");
    Err(refuse(HelloCode::Version, text))
}

/// Checks version and cluster of a hello; the version to speak.
///
/// # Errors
/// As [`negotiate`], and with [`HelloCode::WrongCluster`] naming both clusters.
pub fn check(hello: &Hello, ours: VersionRange, cluster: ClusterId) -> Result<u16, HelloRefusal> {
    let version = negotiate(ours, hello.versions)?;
    if hello.cluster == cluster {
        return Ok(version);
    }
    let text = format!("this is cluster {cluster}, not {}", hello.cluster);
    Err(HelloRefusal {
        code: HelloCode::WrongCluster,
        text,
        allowed: ours,
        primary: None,
    })
}
