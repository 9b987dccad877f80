//! A job array: one record with run-length state.
//!
//! ```text
//! pending ──first fact of the element──► a job of its own ──clean-up──► done | exit
//!    └────────────── the whole array is cancelled ──────────────────► cancelled
//! ```
//!
//! An element has no job record until something happens to it alone: it is placed, held or ended.
//! When its ended job is cleaned up it is folded back into `done` or `exit`.

use std::sync::Arc;

use xce_model::spec::JobSpec;
use xce_model::{ClusterTime, Exit, JobState, Lsn, WallTime};

use crate::ranges::Ranges;

/// Elements of an array that have a job of their own, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ElementCounts {
    /// Wait to be placed (again).
    pub pending: u32,
    /// Held, each by itself.
    pub held: u32,
    /// Hold a host: started, running, suspended or stopping.
    pub placed: u32,
    /// Ended well.
    pub done: u32,
    /// Ended otherwise.
    pub exit: u32,
}

impl ElementCounts {
    /// How many elements have a job of their own.
    pub const fn total(&self) -> u32 {
        self.pending + self.held + self.placed + self.done + self.exit
    }

    pub(crate) fn slot(&mut self, state: JobState) -> &mut u32 {
        match state {
            JobState::Pend => &mut self.pending,
            JobState::Held => &mut self.held,
            JobState::Start | JobState::Run | JobState::Susp | JobState::Stopping => {
                &mut self.placed
            }
            JobState::Done => &mut self.done,
            JobState::Exit => &mut self.exit,
        }
    }
}

/// An array as committed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ArrayRecord {
    /// Its number; its elements are `number[element]`.
    pub number: u64,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// Owner's login name.
    pub owner: Arc<str>,
    /// Whether its pending elements wait until somebody releases them.
    pub held: bool,
    /// Elements that nothing happened to yet.
    pub pending: Ranges,
    /// Elements that ended well and were cleaned up.
    pub done: Ranges,
    /// Elements that ended otherwise and were cleaned up.
    pub exit: Ranges,
    /// Elements that were pending when the whole array was cancelled.
    pub cancelled: Ranges,
    /// How the cancelled ones ended.
    pub cancel: Option<Exit>,
    /// Elements with a job of their own; derived.
    pub counts: ElementCounts,
    /// When it was submitted, by the controller's wall clock.
    pub submitted: WallTime,
    /// When it was submitted, in cluster time.
    pub submitted_at: ClusterTime,
    /// When its last element was folded back, in cluster time.
    pub ended_at: Option<ClusterTime>,
    /// Position of its last change.
    pub changed: Lsn,
}

impl ArrayRecord {
    pub(crate) fn submitted(
        number: u64,
        spec: Arc<JobSpec>,
        elements: Ranges,
        at: (Lsn, ClusterTime, WallTime),
    ) -> Self {
        Self {
            number,
            owner: Arc::from(spec.template.user.name.as_str()),
            held: spec.held,
            spec,
            pending: elements,
            done: Ranges::default(),
            exit: Ranges::default(),
            cancelled: Ranges::default(),
            cancel: None,
            counts: ElementCounts::default(),
            submitted: at.2,
            submitted_at: at.1,
            ended_at: None,
            changed: at.0,
        }
    }

    /// Number of its elements.
    pub fn size(&self) -> u64 {
        self.pending.count()
            + self.done.count()
            + self.exit.count()
            + self.cancelled.count()
            + u64::from(self.counts.total())
    }

    /// Most elements that hold a host at once.
    pub fn slot_limit(&self) -> Option<u32> {
        self.spec.array.as_ref().and_then(|array| array.slot_limit)
    }

    /// Whether pending elements may be placed as far as the array is concerned.
    pub fn is_waiting(&self) -> bool {
        !self.held && !self.pending.is_empty()
    }

    /// State of an element without a job of its own; absent when it has one or does not exist.
    pub fn folded_state(&self, element: u32) -> Option<JobState> {
        if self.pending.contains(element) {
            Some(if self.held {
                JobState::Held
            } else {
                JobState::Pend
            })
        } else if self.done.contains(element) {
            Some(JobState::Done)
        } else if self.exit.contains(element) || self.cancelled.contains(element) {
            Some(JobState::Exit)
        } else {
            None
        }
    }

    /// All cancelled elements wait again.
    pub(crate) fn uncancel_all(&mut self) {
        self.pending = self.pending.with(&std::mem::take(&mut self.cancelled));
        self.cancel = None;
        self.ended_at = None;
    }

    /// One cancelled element waits again.
    pub(crate) fn uncancel(&mut self, element: u32) {
        self.cancelled.remove(element);
        self.pending.insert(element);
        if self.cancelled.is_empty() {
            self.cancel = None;
        }
        self.ended_at = None;
    }

    /// Checks what must hold of any array; the text names what does not.
    ///
    /// # Errors
    /// One sentence about the first invariant that is broken.
    pub fn check(&self) -> Result<(), String> {
        let sets = [&self.pending, &self.done, &self.exit, &self.cancelled];
        if !sets.iter().all(|set| set.is_sound()) {
            return Err(format!(
                "array {} has unsorted or touching ranges",
                self.number
            ));
        }
        let joined: Vec<(u32, u32)> = sets
            .iter()
            .flat_map(|set| set.as_slice())
            .copied()
            .collect();
        let apart: u64 = sets.iter().map(|set| set.count()).sum();
        if Ranges::of(&joined).count() != apart {
            return Err(format!(
                "array {} has an element in two ranges",
                self.number
            ));
        }
        let asked = self
            .spec
            .array
            .as_ref()
            .map_or(0, xce_model::spec::ArraySpec::count);
        if asked != self.size() {
            return Err(format!(
                "array {} has {} elements, {asked} were submitted",
                self.number,
                self.size()
            ));
        }
        if self.cancelled.is_empty() != self.cancel.is_none() {
            return Err(format!(
                "array {} is cancelled without an exit",
                self.number
            ));
        }
        let over = self.pending.is_empty() && self.counts.total() == 0;
        if over != self.ended_at.is_some() {
            return Err(format!("array {} has a wrong end", self.number));
        }
        Ok(())
    }
}
