//! Equal specifications share one allocation, so that many jobs of one shape are small.
//!
//! A cache only: what it holds is no part of the state, and forgetting costs memory, not truth.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use xce_model::spec::JobSpec;

/// Specifications remembered. Source: derived, more shapes than are submitted side by side; 16 KiB.
const SLOTS: usize = 1024;

/// Recently seen specifications.
pub(crate) struct Specs {
    slots: Vec<Weak<JobSpec>>,
}

impl Default for Specs {
    fn default() -> Self {
        Self {
            slots: std::iter::repeat_with(Weak::new).take(SLOTS).collect(),
        }
    }
}

impl Specs {
    /// The shared copy of an equal specification, or a new one.
    pub fn share(&mut self, spec: &JobSpec) -> Arc<JobSpec> {
        let mut hasher = DefaultHasher::new();
        (
            &spec.name,
            &spec.project,
            &spec.queue,
            &spec.template.command,
        )
            .hash(&mut hasher);
        let slot = &mut self.slots[hasher.finish() as usize % SLOTS];
        if let Some(known) = slot.upgrade().filter(|known| **known == *spec) {
            return known;
        }
        let shared = Arc::new(spec.clone());
        *slot = Arc::downgrade(&shared);
        shared
    }
}
