//! A machine for tests: remembers every group in order.

use std::sync::{Arc, Mutex};

use crate::{Machine, Position, SnapshotError};

/// What a [`Book`] has published, seen from outside.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) groups: Vec<Vec<u8>>,
    pub(crate) lsn: u64,
    pub(crate) term: u64,
}

/// Remembers groups; its outcome is how many it has.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Remembers something else from this one on.
    pub(crate) wrong_from: Option<usize>,
    groups: Vec<Vec<u8>>,
    page: Arc<Mutex<Page>>,
}

impl Book {
    pub(crate) fn new() -> (Self, Arc<Mutex<Page>>) {
        let book = Self::default();
        let page = Arc::clone(&book.page);
        (book, page)
    }
}

/// The group that makes a [`Book`] panic.
pub(crate) const POISON: &[u8] = b"poison";

impl Machine for Book {
    type Outcome = usize;
    type Snapshot = std::vec::IntoIter<Vec<u8>>;

    fn apply(&mut self, _at: Position, group: &[u8]) -> usize {
        assert!(group != POISON, "poisoned group");
        let wrong = self
            .wrong_from
            .is_some_and(|from| self.groups.len() >= from);
        let group = if wrong { b"wrong" } else { group };
        self.groups.push(group.to_vec());
        self.groups.len()
    }

    fn publish(&mut self, lsn: u64, term: u64) {
        let mut page = self.page.lock().unwrap();
        let known = page.groups.len();
        page.groups.extend_from_slice(&self.groups[known..]);
        (page.lsn, page.term) = (lsn, term);
    }

    fn snapshot(&self) -> Self::Snapshot {
        self.groups.clone().into_iter()
    }

    fn clear(&mut self) {
        self.groups.clear();
        *self.page.lock().unwrap() = Page::default();
    }

    fn restore(
        &mut self,
        records: &mut dyn Iterator<Item = Result<Vec<u8>, SnapshotError>>,
    ) -> Result<(), SnapshotError> {
        self.groups.clear();
        self.page.lock().unwrap().groups.clear();
        for record in records {
            self.groups.push(record?);
        }
        Ok(())
    }
}
