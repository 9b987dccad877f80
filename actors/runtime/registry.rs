//! All actors of one node, for operators and for finding an address by key.
//!
//! One per node, never global: several nodes fit in one process. Entries are spread over shards,
//! and nobody holds a shard's lock for longer than it takes to copy some hundred pointers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::address::Occupant;
use crate::inspect::{Filter, Page, Row};
use crate::key::Key;

/// Number of shards.
///
/// Source: derived; starting an actor costs some 10 us and holds a lock for about 1 us, so sixteen
/// shards keep waiting below a percent on a hundred cores; each page visits all of them.
const SHARDS: usize = 16;

/// Entries examined for one page, in all shards together.
///
/// Source: derived; about 0.3 us an entry, so a page takes at most some 0.6 ms of a worker thread.
pub(crate) const EXAMINED_MAX: usize = 2_048;

/// Most rows in a page.
///
/// Source: derived; half of what is examined, so that a page without a filter is full mostly.
pub const ROWS_MAX: usize = 1_000;

type Shard = BTreeMap<Key, Arc<dyn Occupant>>;

/// The table of all actors of a node.
#[derive(Default)]
pub(crate) struct Registry {
    shards: [RwLock<Shard>; SHARDS],
    kinds: RwLock<Vec<&'static str>>,
}

/// Some entries in order, and the key after which to go on.
pub(crate) struct Stretch {
    pub(crate) entries: Vec<Arc<dyn Occupant>>,
    pub(crate) next: Option<Key>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn shard(&self, key: &Key) -> &RwLock<Shard> {
        // Source: the FNV-1a hash of Fowler, Noll and Vo, offset basis and prime for 64 bits.
        let hash = key
            .id()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        // The upper bits of short, similar ids are alike; a multiplication by 2^64 divided by the
        // golden ratio (Knuth, The Art of Computer Programming, section 6.4) spreads them.
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 32) as usize % SHARDS]
    }

    /// Enters an actor unless its key is taken; says whether it did.
    pub(crate) fn insert(&self, occupant: Arc<dyn Occupant>) -> bool {
        let key = occupant.probe().key().clone();
        self.learn_kind(key.kind());
        let mut shard = write(self.shard(&key));
        if shard.contains_key(&key) {
            return false;
        }
        shard.insert(key, occupant);
        true
    }

    pub(crate) fn remove(&self, key: &Key) {
        let removed = write(self.shard(key)).remove(key);
        if let Some(occupant) = removed {
            occupant.give_up();
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<dyn Occupant>> {
        read(self.shard(key)).get(key).cloned()
    }

    /// Finds an actor by `kind/id` as typed.
    pub(crate) fn find(&self, text: &str) -> Option<Arc<dyn Occupant>> {
        if text.len() > crate::key::KEY_TEXT_BYTES_MAX {
            return None;
        }
        let (kind, id) = Key::split(text);
        let kind = *read(&self.kinds).iter().find(|known| **known == kind)?;
        self.get(&Key::new(kind, id))
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).len()).sum()
    }

    fn learn_kind(&self, kind: &'static str) {
        if !read(&self.kinds).contains(&kind) {
            write(&self.kinds).push(kind);
        }
    }

    /// The next entries after a key, in order. Every entry that exists throughout is met exactly
    /// once, whatever comes and goes meanwhile.
    ///
    /// Looks at no more than `examined` entries, itself at most [`EXAMINED_MAX`].
    pub(crate) fn stretch(&self, after: Option<&Key>, examined: usize) -> Stretch {
        let each = examined.min(EXAMINED_MAX).div_ceil(SHARDS);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found: Vec<Arc<dyn Occupant>> = Vec::with_capacity(each * SHARDS);
        // Up to here nothing is missing: the smallest last key of the shards that hold more.
        let mut complete: Option<Key> = None;
        for shard in &self.shards {
            let shard = read(shard);
            let mut rest = shard.range::<Key, _>((from, Bound::Unbounded));
            found.extend(rest.by_ref().take(each).map(|(_, entry)| entry.clone()));
            if rest.next().is_some()
                && let Some(last) = found.last()
            {
                let last = last.probe().key();
                if complete.as_ref().is_none_or(|least| last < least) {
                    complete = Some(last.clone());
                }
            }
        }
        if let Some(limit) = &complete {
            found.retain(|entry| entry.probe().key() <= limit);
        }
        // The shards are sorted runs, which the stable sort merges.
        found.sort_by(|left, right| left.probe().key().cmp(right.probe().key()));
        Stretch {
            entries: found,
            next: complete,
        }
    }

    /// One page of at most `rows_max` rows, itself at most [`ROWS_MAX`] and at least one.
    pub(crate) fn page(
        &self,
        filter: &Filter,
        after: Option<&Key>,
        rows_max: usize,
        now_ns: u64,
    ) -> Page {
        let rows_max = rows_max.clamp(1, ROWS_MAX);
        let examined = if *filter == Filter::default() {
            rows_max + rows_max / 4 + SHARDS
        } else {
            EXAMINED_MAX
        };
        let stretch = self.stretch(after, examined);
        let mut rows = Vec::new();
        for entry in &stretch.entries {
            let probe = entry.probe();
            if !filter.admits(probe) {
                continue;
            }
            if rows.len() == rows_max {
                let next = rows.last().map(|row: &Row| row.key.clone());
                return Page { rows, next };
            }
            rows.push(Row::of(probe, now_ns));
        }
        Page {
            rows,
            next: stretch.next,
        }
    }
}
