//! Jobs and arrays as submitted.

use serde::{Deserialize, Serialize};

use super::Template;

/// A job as submitted.
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
pub struct JobSpec {
    /// Name, not unique.
    pub name: String,
    /// Project it belongs to.
    pub project: String,
    /// Queue it waits in.
    pub queue: String,
    /// What is run.
    pub template: Template,
    /// Elements, for an array.
    pub array: Option<ArraySpec>,
    /// Submitted as held.
    pub held: bool,
    /// Run again when its host is lost.
    pub rerunnable: bool,
}

/// Elements of an array.
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
pub struct ArraySpec {
    /// Inclusive ranges, sorted, apart from each other.
    pub ranges: Vec<(u32, u32)>,
    /// Most elements that run at once; no limit when absent.
    pub slot_limit: Option<u32>,
}

impl ArraySpec {
    /// Number of elements.
    pub fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|(first, last)| u64::from(last - first) + 1)
            .sum()
    }
}
