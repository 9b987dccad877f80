//! Identifiers, one type per entity, in alphabetical order.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Identity of a cluster, made once by its first controller.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct ClusterId(pub [u8; 16]);

/// Identity of one installation of a worker's state directory, or of one client process.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct Incarnation(pub [u8; 16]);

/// Identity of a job: a number that is never reused, and the element for a job of an array.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[rkyv(derive(Debug, PartialEq, Eq, PartialOrd, Ord))]
#[serde(into = "String", try_from = "String")]
pub struct JobId {
    /// Number given by the ledger when the job was submitted, from 1.
    pub number: u64,
    /// Index of the array element, or [`JobId::NO_ELEMENT`].
    pub element: u32,
}

/// Names one command for ever, so that a repeat has one effect and one answer.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct OperationId(pub [u8; 16]);

/// Identity of a service for ever; its name may be used again after deletion.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct ServiceId(pub u64);

/// Identity of a session between a peer and the cluster.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct SessionId(pub u64);

/// Number of a version of a service's template, from 1, never reused.
pub type Version = u32;

/// Number of an attempt of a job, from 1; 0 before the first placement.
pub type Run = u32;

/// Number of an in-place start within a run, from 1.
pub type Start = u32;

impl JobId {
    /// Element of a job that is not part of an array.
    /// Source: derived, the largest value, so that an array's elements sort before it.
    pub const NO_ELEMENT: u32 = u32::MAX;

    /// A job that is not part of an array.
    pub const fn single(number: u64) -> Self {
        Self {
            number,
            element: Self::NO_ELEMENT,
        }
    }

    /// An element of an array.
    pub const fn element(number: u64, element: u32) -> Self {
        Self { number, element }
    }

    /// Whether this names an element of an array.
    pub const fn is_element(self) -> bool {
        self.element != Self::NO_ELEMENT
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_element() {
            write!(f, "{}[{}]", self.number, self.element)
        } else {
            write!(f, "{}", self.number)
        }
    }
}

/// A text that is not an identifier of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct IdError {
    /// What was given, at most 64 characters of it.
    pub text: String,
    /// What is allowed.
    pub wanted: &'static str,
}

impl IdError {
    fn new(text: &str, wanted: &'static str) -> Self {
        Self {
            text: text.chars().take(64).collect(),
            wanted,
        }
    }
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || {
            IdError::new(
                text,
                "a job id (a number such as 17, or 17[3] for an element)",
            )
        };
        let (number, element) = match text.split_once('[') {
            None => (text, None),
            Some((number, rest)) => (number, Some(rest.strip_suffix(']').ok_or_else(wrong)?)),
        };
        let number = number.parse::<u64>().map_err(|_| wrong())?;
        match element {
            None => Ok(Self::single(number)),
            Some(text) => match text.parse::<u32>() {
                Ok(element) if element != Self::NO_ELEMENT => Ok(Self::element(number, element)),
                _ => Err(wrong()),
            },
        }
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for JobId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! hexadecimal {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_hexadecimal(text).map(Self)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
    )*};
}
hexadecimal!(ClusterId, Incarnation, OperationId);

fn parse_hexadecimal(text: &str) -> Result<[u8; 16], IdError> {
    let wrong = || IdError::new(text, "an id of 32 hexadecimal digits");
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let value = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
    Ok(value.to_be_bytes())
}
