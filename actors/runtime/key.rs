//! The name of an actor as operators type it: `kind/id`, such as `job/812`, or `wal` alone.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Longest text that is looked up as a key, in bytes.
///
/// Source: derived; a kind of at most 32 bytes, a slash, and names of at most 253 bytes (RFC 1123,
/// section 2.1), rounded up.
pub const KEY_TEXT_BYTES_MAX: usize = 320;

/// Name of one actor in a node: its kind, and an id that is unique among its kind.
///
/// Keys are ordered by kind, then by id, where ids of digits only come first and in the order of
/// their numbers, so that `job/9` stands before `job/10`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    kind: &'static str,
    id: Arc<str>,
}

impl Key {
    /// Names the actor `id` of a kind.
    pub fn new(kind: &'static str, id: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            id: id.into(),
        }
    }

    /// Names the actor `number` of a kind.
    pub fn numbered(kind: &'static str, number: u64) -> Self {
        Self::new(kind, number.to_string())
    }

    /// Names the only actor of its kind; it is shown as the kind alone.
    pub fn single(kind: &'static str) -> Self {
        Self::new(kind, "")
    }

    /// The kind, such as `job`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The id among its kind; empty for the only one of its kind.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Splits typed text into kind and id; text without a slash has an empty id.
    pub fn split(text: &str) -> (&str, &str) {
        text.split_once('/').unwrap_or((text, ""))
    }
}

/// Ids of digits only come first, shorter ones before longer ones.
fn rank(id: &str) -> (bool, usize, &str) {
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    (!digits, if digits { id.len() } else { 0 }, id)
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.kind
            .cmp(other.kind)
            .then_with(|| rank(&self.id).cmp(&rank(&other.id)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.id.is_empty() {
            formatter.write_str(self.kind)
        } else {
            write!(formatter, "{}/{}", self.kind, self.id)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
