//! Where the values of a resolved specification came from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::Version;

/// Who gave a value.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nobody: XCE itself.
    BuiltIn,
    /// The account of whoever asked.
    Account,
    /// A profile as it was then.
    Profile(String),
    /// A project as it was then.
    Project(String),
    /// A request: the one that made this version, or that came while it was current; 0 for one
    /// that is not committed yet.
    Request(Version),
}

/// Where one value came from.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
pub struct Origin {
    /// Dotted name of the value, such as `resources.cpus`.
    pub path: String,
    /// Who gave it.
    pub source: Source,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => write!(out, "built-in"),
            Self::Account => write!(out, "account"),
            Self::Profile(name) => write!(out, "profile {name}"),
            Self::Project(name) => write!(out, "project {name}"),
            Self::Request(0) => write!(out, "request"),
            Self::Request(version) => write!(out, "request of version {version}"),
        }
    }
}

/// The same origins with requests that have no version yet given one.
#[must_use]
pub fn stamped(origins: &[Origin], version: Version) -> Vec<Origin> {
    let stamp = |origin: &Origin| {
        let mut origin = origin.clone();
        if origin.source == Source::Request(0) {
            origin.source = Source::Request(version);
        }
        origin
    };
    origins.iter().map(stamp).collect()
}
