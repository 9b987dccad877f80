//! The change index of one kind of object: what changed since a position, in proportion to that.
//!
//! An object stands in it once, at its last change; what is gone stays as a tombstone for a bounded
//! history. A reader at a position below the oldest forgotten tombstone needs the full state.

use std::ops::Bound;

use imbl::{OrdMap, OrdSet};
use xce_model::Lsn;

/// Tombstones kept of each kind. Source: derived, two minutes of clean-up at 500 objects a second;
/// 1 MiB a kind.
pub const TOMBSTONES_MAX: usize = 65_536;

/// What changed between two positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<Key> {
    /// Exist and changed; each once, in the order of their last change.
    pub changed: Vec<Key>,
    /// Existed and are gone; a key that the reader never knew may be among them.
    pub gone: Vec<Key>,
}

/// The position is older than the history that is kept: read the full state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("changes since {since} are no longer held, only those since {floor}")]
pub struct TooOld {
    /// What was asked for.
    pub since: Lsn,
    /// The oldest position that can be asked for.
    pub floor: Lsn,
}

/// The change index of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes<Key: Ord + Clone> {
    by_lsn: OrdSet<(Lsn, Key)>,
    gone: OrdSet<(Lsn, Key)>,
    gone_at: OrdMap<Key, Lsn>,
    floor: Lsn,
}

impl<Key: Ord + Clone> Default for Changes<Key> {
    fn default() -> Self {
        Self {
            by_lsn: OrdSet::new(),
            gone: OrdSet::new(),
            gone_at: OrdMap::new(),
            floor: 0,
        }
    }
}

impl<Key: Ord + Clone> Changes<Key> {
    /// Moves an object from its last change, if it had one, to this one.
    pub(crate) fn touch(&mut self, before: Option<Lsn>, lsn: Lsn, key: &Key) {
        match before {
            Some(old) if old == lsn => return,
            Some(old) => {
                self.by_lsn.remove(&(old, key.clone()));
            }
            None => {
                if let Some(old) = self.gone_at.remove(key) {
                    self.gone.remove(&(old, key.clone()));
                }
            }
        }
        self.by_lsn.insert((lsn, key.clone()));
    }

    /// Turns an object into a tombstone.
    pub(crate) fn bury(&mut self, before: Lsn, lsn: Lsn, key: &Key) {
        self.by_lsn.remove(&(before, key.clone()));
        self.add_tombstone(lsn, key.clone());
        while self.gone.len() > TOMBSTONES_MAX {
            if let Some((oldest, key)) = self.gone.remove_min() {
                self.gone_at.remove(&key);
                self.floor = self.floor.max(oldest);
            }
        }
    }

    pub(crate) fn add_tombstone(&mut self, lsn: Lsn, key: Key) {
        self.gone_at.insert(key.clone(), lsn);
        self.gone.insert((lsn, key));
    }

    pub(crate) fn set_floor(&mut self, floor: Lsn) {
        self.floor = floor;
    }

    pub(crate) fn tombstones(&self) -> &OrdSet<(Lsn, Key)> {
        &self.gone
    }

    pub(crate) fn entries(&self) -> &OrdSet<(Lsn, Key)> {
        &self.by_lsn
    }

    /// Objects that exist, from a place in the order of their last changes on.
    pub(crate) fn changed_from(
        &self,
        from: Bound<(Lsn, Key)>,
    ) -> impl Iterator<Item = (Lsn, Key)> + '_ {
        self.by_lsn.range((from, Bound::Unbounded)).cloned()
    }

    /// Tombstones, from a place in the order of the ends on.
    pub(crate) fn gone_from(
        &self,
        from: Bound<(Lsn, Key)>,
    ) -> impl Iterator<Item = (Lsn, Key)> + '_ {
        self.gone.range((from, Bound::Unbounded)).cloned()
    }

    /// Oldest position that can be asked for.
    pub fn floor(&self) -> Lsn {
        self.floor
    }

    /// What changed after a position.
    ///
    /// # Errors
    /// [`TooOld`] when the history that is kept does not reach back to it.
    pub fn since(&self, lsn: Lsn) -> Result<Delta<Key>, TooOld> {
        if lsn < self.floor {
            return Err(TooOld {
                since: lsn,
                floor: self.floor,
            });
        }
        Ok(Delta {
            changed: after(&self.by_lsn, lsn),
            gone: after(&self.gone, lsn),
        })
    }
}

/// The keys behind a position. The set is walked from its end: a bound would need a key of its own.
fn after<Key: Ord + Clone>(set: &OrdSet<(Lsn, Key)>, lsn: Lsn) -> Vec<Key> {
    let mut keys: Vec<Key> = set
        .iter()
        .rev()
        .take_while(|(changed, _)| *changed > lsn)
        .map(|(_, key)| key.clone())
        .collect();
    keys.reverse();
    keys
}
