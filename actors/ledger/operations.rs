//! The commands that were carried out, so that a repeat has one effect and gets the first answer.
//!
//! Kept for 24 h of cluster time and at most 10 000 a principal; evicted in the order in which they
//! were carried out. What is evicted raises a floor: an unknown operation that was made below it may
//! have been carried out and is refused, never executed.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use xce_model::{ClusterTime, Lsn, Millis, OperationId};

use crate::group::{Answer, Operation};

/// How long an operation is remembered. Source: design section 3.2.
pub const OPERATION_AGE_MAX: Millis = Millis::seconds(24 * 3600);
/// Operations remembered of one principal. Source: design section 3.2.
pub const OPERATIONS_MAX: usize = 10_000;
/// Old operations forgotten at each group. Source: derived, more than one group can add, and a
/// bounded step.
const EVICTIONS_MAX: usize = 16;

/// Where in the log an operation was carried out.
pub(crate) type Place = (Lsn, u32);

/// An operation that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub place: Place,
    pub at: ClusterTime,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct OfPrincipal {
    by_id: OrdMap<OperationId, Arc<Remembered>>,
    order: OrdSet<(Place, OperationId)>,
    floor: Lsn,
}

/// The operations of all principals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Operations {
    principals: OrdMap<Arc<str>, OfPrincipal>,
    order: OrdMap<Place, (Arc<str>, OperationId)>,
    floor: Lsn,
}

/// What is known of an operation before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// Certainly not carried out.
    New,
    /// Carried out, with this answer.
    Answered(Answer),
    /// Perhaps carried out, too long ago.
    Expired,
}

impl Operations {
    pub fn known(&self, principal: &str, operation: Operation) -> Known {
        let of = self.principals.get(principal);
        if let Some(found) = of.and_then(|of| of.by_id.get(&operation.id)) {
            return Known::Answered(found.answer.clone());
        }
        // Whatever was evicted was carried out after it was made: made at the floor is still safe.
        let floor = self.floor.max(of.map_or(0, |of| of.floor));
        if operation.made_at < floor {
            Known::Expired
        } else {
            Known::New
        }
    }

    pub fn remember(&mut self, principal: &str, id: OperationId, remembered: Remembered) {
        let name: Arc<str> = match self.principals.get_key_value(principal) {
            Some((name, _)) => name.clone(),
            None => Arc::from(principal),
        };
        let place = remembered.place;
        self.order.insert(place, (name.clone(), id));
        let of = self.principals.entry(name).or_default();
        of.order.insert((place, id));
        of.by_id.insert(id, Arc::new(remembered));
        if of.by_id.len() > OPERATIONS_MAX
            && let Some((oldest, id)) = of.order.remove_min()
        {
            of.by_id.remove(&id);
            of.floor = of.floor.max(oldest.0);
            self.order.remove(&oldest);
        }
    }

    /// Forgets some of those that are too old.
    pub fn evict(&mut self, now: ClusterTime) {
        for _ in 0..EVICTIONS_MAX {
            let Some((place, (name, id))) = self.order.get_min().cloned() else {
                return;
            };
            let Some(of) = self.principals.get_mut(&name) else {
                return;
            };
            let is_old = of
                .by_id
                .get(&id)
                .is_none_or(|found| now.since(found.at) >= OPERATION_AGE_MAX);
            if !is_old {
                return;
            }
            of.by_id.remove(&id);
            of.order.remove(&(place, id));
            self.floor = self.floor.max(place.0);
            if of.by_id.is_empty() {
                self.principals.remove(&name);
            }
            self.order.remove(&place);
        }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn floor(&self) -> Lsn {
        self.floor
    }

    pub fn set_floor(&mut self, floor: Lsn) {
        self.floor = floor;
    }

    /// Principals with a floor of their own.
    pub fn floors(&self) -> Vec<(String, Lsn)> {
        self.principals
            .iter()
            .filter(|(_, of)| of.floor > 0)
            .map(|(name, of)| (name.to_string(), of.floor))
            .collect()
    }

    pub fn set_floor_of(&mut self, principal: &str, floor: Lsn) {
        self.principals
            .entry(Arc::from(principal))
            .or_default()
            .floor = floor;
    }

    /// Those behind a place, in the order in which they were carried out.
    pub fn after(
        &self,
        place: Option<Place>,
    ) -> impl Iterator<Item = (&Arc<str>, OperationId, &Arc<Remembered>)> {
        let from = place.map_or(Bound::Unbounded, Bound::Excluded);
        self.order
            .range((from, Bound::Unbounded))
            .filter_map(|(_, (name, id))| {
                let found = self.principals.get(name)?.by_id.get(id)?;
                Some((name, *id, found))
            })
    }

    /// Checks that its indices agree.
    pub fn check(&self) -> Result<(), String> {
        let by_id: usize = self.principals.values().map(|of| of.by_id.len()).sum();
        let ordered: usize = self.principals.values().map(|of| of.order.len()).sum();
        if by_id != self.order.len() || ordered != by_id || self.after(None).count() != by_id {
            return Err(format!(
                "operations: {} in order, {by_id} by name, {ordered} by principal",
                self.order.len()
            ));
        }
        match self
            .principals
            .iter()
            .find(|(_, of)| of.by_id.len() > OPERATIONS_MAX)
        {
            Some((name, _)) => Err(format!("principal {name} has too many operations")),
            None => Ok(()),
        }
    }
}
