//! Admission at the doors through which requests come from outside.
//!
//! Mailboxes have no bound of their own, so every door counts what it has let in and refuses the
//! rest at once. A refusal costs a few nanoseconds and changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// A door with a bound on the requests in flight.
#[derive(Debug, Clone)]
pub struct Admission {
    door: &'static str,
    bound: usize,
    free: Arc<Semaphore>,
    refused: Arc<AtomicU64>,
}

/// The right of one request to be inside; dropping it makes room.
#[derive(Debug)]
#[must_use = "the request is in flight only while the permit lives"]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    /// A door named `door` that admits `bound` requests at once; values beyond what a semaphore
    /// counts are lowered to that.
    pub fn new(door: &'static str, bound: usize) -> Self {
        let bound = bound.min(Semaphore::MAX_PERMITS);
        Self {
            door,
            bound,
            free: Arc::new(Semaphore::new(bound)),
            refused: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Lets one request in.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`] when as many as allowed are inside.
    pub fn enter(&self) -> Result<Permit, Refusal> {
        match self.free.clone().try_acquire_owned() {
            Ok(permit) => Ok(Permit { _permit: permit }),
            Err(_full) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(Refusal::Overloaded {
                    door: self.door,
                    bound: self.bound,
                })
            }
        }
    }

    /// How many requests are inside.
    pub fn in_flight(&self) -> usize {
        self.bound - self.free.available_permits()
    }

    /// How many requests were refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}
