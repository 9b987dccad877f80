//! Hashes of the whole state at certain positions: equal on all controllers, or one of them is wrong.
//!
//! A *mark* is an entry without groups. Whoever applies it freezes its state, in constant time, and
//! hashes it beside the running machine; one at a time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

/// Hashes kept. Source: chosen; the primary asks for the newest within seconds.
const KEPT: usize = 4;

/// A hash of the whole state.
pub(crate) type Digest = [u8; 32];

/// The hashes that a node has made.
#[derive(Default)]
pub(crate) struct Digests {
    known: Mutex<BTreeMap<u64, Digest>>,
    is_busy: AtomicBool,
    newest: watch::Sender<u64>,
}

impl Digests {
    /// Hashes a frozen state in the background, unless another one is being hashed.
    pub(crate) fn begin(
        self: &Arc<Self>,
        lsn: u64,
        records: impl Iterator<Item = Vec<u8>> + Send + 'static,
    ) {
        if self.is_busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let digests = Arc::clone(self);
        drop(tokio::task::spawn_blocking(move || {
            let digest = digest_of(records);
            {
                let mut known = digests.known();
                known.insert(lsn, digest);
                while known.len() > KEPT {
                    known.pop_first();
                }
            }
            digests.is_busy.store(false, Ordering::Release);
            digests.newest.send_replace(lsn);
        }));
    }

    /// The hash at a position, if there is one.
    pub(crate) fn at(&self, lsn: u64) -> Option<Digest> {
        self.known().get(&lsn).copied()
    }

    /// Follows the newest position that has a hash.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Digest>> {
        self.known
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

fn digest_of(records: impl Iterator<Item = Vec<u8>>) -> Digest {
    let mut hash = blake3::Hasher::new();
    for record in records {
        hash.update(&(record.len() as u64).to_le_bytes());
        hash.update(&record);
    }
    *hash.finalize().as_bytes()
}

/// What comparing found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All that answered have the same state.
    Equal,
    /// Most have one state, these nodes have another one.
    Odd(Vec<u64>),
    /// No state has most of the nodes; these differ from the one that compares.
    Split(Vec<u64>),
}

/// Judges the hashes of one position; the first is that of the node that compares.
pub(crate) fn judge(digests: &[(u64, Digest)]) -> Verdict {
    let Some((_, own)) = digests.first() else {
        return Verdict::Equal;
    };
    let unlike = |wanted: &Digest| -> Vec<u64> {
        let others = digests.iter().filter(|(_, digest)| digest != wanted);
        others.map(|(node, _)| *node).collect()
    };
    let differing = unlike(own);
    if differing.is_empty() {
        return Verdict::Equal;
    }
    for (_, candidate) in digests {
        let odd = unlike(candidate);
        if odd.len() * 2 < digests.len() {
            return Verdict::Odd(odd);
        }
    }
    Verdict::Split(differing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minority_is_wrong_whoever_compares() {
        let (a, b, c) = ([1; 32], [2; 32], [3; 32]);
        let cases: [(&[(u64, Digest)], Verdict); 7] = [
            (&[], Verdict::Equal),
            (&[(1, a)], Verdict::Equal),
            (&[(1, a), (2, a), (3, a)], Verdict::Equal),
            (&[(1, a), (2, b), (3, a)], Verdict::Odd(vec![2])),
            (&[(1, a), (2, b), (3, b)], Verdict::Odd(vec![1])),
            (&[(1, a), (2, b)], Verdict::Split(vec![2])),
            (&[(1, a), (2, b), (3, c)], Verdict::Split(vec![2, 3])),
        ];
        for (digests, verdict) in cases {
            assert_eq!(judge(digests), verdict, "{digests:?}");
        }
    }

    #[test]
    fn where_records_end_counts() {
        let records = |parts: &[&[u8]]| {
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
            digest_of(parts.into_iter())
        };
        assert_ne!(records(&[b"ab", b"c"]), records(&[b"a", b"bc"]));
        assert_eq!(records(&[b"ab"]), records(&[b"ab"]));
    }
}
