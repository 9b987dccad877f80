//! Who reads the endpoints of services, and what each was sent and uses. Kept outside the actors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xce_link::Peer;
use xce_model::{Lsn, ServiceId, SessionId};
use xce_service::view::EndpointSet;
use xce_session::endpoints_wire::ReaderView;

use super::drain::Uses;

/// Readers of one service. Source: chosen; a front on each host of a large site, and a bound on memory.
pub const READERS_MAX: usize = 10_000;
/// Sets of one reader that were sent and of which it has not said that it uses them. Of more, one that
/// it says it uses counts as the one before, which ends no drain too early.
/// Source: chosen; a reader takes as long as one reload, and sets share nothing.
const OPEN_MAX: usize = 16;

/// Names a reader: its session, and the number of its request there.
pub type ReaderKey = (SessionId, u64);

/// One reader.
pub struct Reader {
    key: ReaderKey,
    /// Which service it reads.
    pub service: ServiceId,
    /// Who it is.
    principal: String,
    /// Its connection.
    pub peer: Peer,
    /// Whether it says what it uses.
    acknowledges: bool,
    progress: Mutex<Progress>,
}

/// How far a reader is.
#[derive(Debug, Default)]
struct Progress {
    /// The last set that it was sent as a whole.
    sent: Option<Arc<EndpointSet>>,
    /// Sets that it was sent after the one that it uses, oldest first.
    open: VecDeque<Arc<EndpointSet>>,
    /// The set that it uses, as it says.
    used: Option<Arc<EndpointSet>>,
    /// When its connection ended, in milliseconds of the monotonic clock.
    left_ms: Option<u64>,
}

/// Whether a reader is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is connected.
    Connected,
    /// It went away and may come back; until then it may use what it had.
    Away {
        /// When it counts no longer, in milliseconds of the monotonic clock.
        until_ms: u64,
    },
    /// It counts no longer.
    Over,
}

impl Progress {
    fn pushed(&mut self, set: &Arc<EndpointSet>, acknowledges: bool) {
        self.sent = Some(Arc::clone(set));
        if acknowledges {
            if self.open.len() >= OPEN_MAX {
                self.open.remove(OPEN_MAX / 2);
            }
            self.open.push_back(Arc::clone(set));
        }
    }

    /// Takes the word of a reader that it uses a generation; a late word changes nothing.
    fn used(&mut self, generation: Lsn) {
        while let Some(set) = self.open.front()
            && set.generation <= generation
        {
            self.used = self.open.pop_front();
        }
    }
}

impl Reader {
    /// A reader that has been sent nothing yet.
    pub fn new(
        key: ReaderKey,
        service: ServiceId,
        principal: String,
        peer: Peer,
        acknowledges: bool,
    ) -> Self {
        Self {
            key,
            service,
            principal,
            peer,
            acknowledges,
            progress: Mutex::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of its request, by which its pushes are told apart.
    pub fn number(&self) -> u64 {
        self.key.1
    }

    /// The set that it has, where it has any.
    pub fn has(&self) -> Option<Arc<EndpointSet>> {
        self.progress().sent.clone()
    }

    /// Notes that it was sent a whole set.
    pub fn pushed(&self, set: &Arc<EndpointSet>) {
        self.progress().pushed(set, self.acknowledges);
    }

    /// Notes that it may have been sent a part of a set: the next one is sent in full.
    pub fn interrupted(&self) {
        self.progress().sent = None;
    }

    /// Takes its word that it uses a generation.
    pub fn used(&self, generation: Lsn) {
        self.progress().used(generation);
    }

    /// Notes that its connection has ended; the first time counts.
    pub fn leave(&self, now_ms: u64) {
        self.progress().left_ms.get_or_insert(now_ms);
    }

    /// Whether it is there; one that says what it uses counts for a while after it went away.
    pub fn standing(&self, now_ms: u64, return_within_ms: u64) -> Standing {
        match self.progress().left_ms {
            None => Standing::Connected,
            Some(left_ms) if self.acknowledges && now_ms < left_ms + return_within_ms => {
                Standing::Away {
                    until_ms: left_ms + return_within_ms,
                }
            }
            Some(_) => Standing::Over,
        }
    }

    /// What it uses, where it says so.
    pub fn uses(&self) -> Option<Uses> {
        let progress = self.progress();
        self.acknowledges.then(|| Uses {
            connected: progress.left_ms.is_none(),
            set: progress.used.clone(),
        })
    }

    fn view(&self) -> ReaderView {
        let progress = self.progress();
        let generation = |set: &Option<Arc<EndpointSet>>| set.as_ref().map(|set| set.generation);
        ReaderView {
            session: self.key.0.0,
            principal: self.principal.clone(),
            service: self.service,
            connected: progress.left_ms.is_none(),
            acknowledges: self.acknowledges,
            sent: generation(&progress.sent),
            acknowledged: generation(&progress.used),
        }
    }
}

/// All readers of this controller.
#[derive(Default)]
pub struct Readers(Mutex<Table>);

#[derive(Default)]
struct Table {
    by_service: BTreeMap<ServiceId, BTreeMap<ReaderKey, Arc<Reader>>>,
    services: BTreeMap<ReaderKey, ServiceId>,
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader, unless its service has as many as it may have.
    pub fn add(&self, reader: Reader) -> bool {
        let mut table = self.lock();
        let (key, service) = (reader.key, reader.service);
        let readers = table.by_service.entry(service).or_default();
        if readers.len() >= READERS_MAX {
            return false;
        }
        readers.insert(key, Arc::new(reader));
        table.services.insert(key, service);
        true
    }

    /// Whether anybody reads the endpoints of a service.
    pub fn any(&self, service: ServiceId) -> bool {
        self.lock().by_service.contains_key(&service)
    }

    /// The readers of a service.
    pub fn of(&self, service: ServiceId) -> Vec<Arc<Reader>> {
        let table = self.lock();
        let readers = table.by_service.get(&service);
        readers.map_or_else(Vec::new, |readers| readers.values().cloned().collect())
    }

    /// How many readers a session has.
    pub fn count(&self, session: SessionId) -> usize {
        self.lock().services.range(range(session)).count()
    }

    /// One reader.
    pub fn get(&self, key: ReaderKey) -> Option<Arc<Reader>> {
        let table = self.lock();
        let service = table.services.get(&key)?;
        table.by_service.get(service)?.get(&key).cloned()
    }

    /// The readers of a session.
    pub fn of_session(&self, session: SessionId) -> Vec<Arc<Reader>> {
        let table = self.lock();
        let keys = table.services.range(range(session));
        keys.filter_map(|(key, service)| table.by_service.get(service)?.get(key).cloned())
            .collect()
    }

    /// Takes a reader out.
    pub fn take(&self, reader: &Reader) {
        let mut table = self.lock();
        table.services.remove(&reader.key);
        if let Some(readers) = table.by_service.get_mut(&reader.service) {
            readers.remove(&reader.key);
            if readers.is_empty() {
                table.by_service.remove(&reader.service);
            }
        }
    }

    /// Takes all readers of a service out.
    pub fn take_all(&self, service: ServiceId) -> Vec<Arc<Reader>> {
        let mut table = self.lock();
        let readers = table.by_service.remove(&service).unwrap_or_default();
        for key in readers.keys() {
            table.services.remove(key);
        }
        readers.into_values().collect()
    }

    /// What operators see of the readers of a service.
    pub fn views(&self, service: ServiceId) -> Vec<ReaderView> {
        self.of(service)
            .iter()
            .map(|reader| reader.view())
            .collect()
    }

    /// What operators see of what a session reads.
    pub fn views_of_session(&self, session: SessionId) -> Vec<ReaderView> {
        let readers = self.of_session(session);
        readers.iter().map(|reader| reader.view()).collect()
    }
}

fn range(session: SessionId) -> std::ops::RangeInclusive<ReaderKey> {
    (session, 0)..=(session, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(generation: Lsn) -> Arc<EndpointSet> {
        Arc::new(EndpointSet::new(generation, []))
    }

    fn used(progress: &Progress) -> Lsn {
        progress.used.as_ref().map_or(0, |set| set.generation)
    }

    #[test]
    fn a_word_counts_for_the_last_set_that_it_covers() {
        let mut progress = Progress::default();
        for generation in [3, 5, 9] {
            progress.pushed(&set(generation), true);
        }
        // word, generation that counts as used then
        for (word, expected) in [(1, 0), (5, 5), (4, 5), (5, 5), (8, 5), (100, 9)] {
            progress.used(word);
            assert_eq!(used(&progress), expected, "after {word}");
        }
    }

    #[test]
    fn a_silent_reader_costs_a_bounded_number_of_sets_and_is_never_taken_for_further_than_it_is() {
        let mut progress = Progress::default();
        for generation in 1..=1_000 {
            progress.pushed(&set(generation), true);
        }
        assert_eq!(progress.open.len(), OPEN_MAX);
        progress.used(500);
        assert!(used(&progress) <= 500);
        progress.used(1_000);
        assert_eq!(used(&progress), 1_000);
        let mut watching = Progress::default();
        watching.pushed(&set(1), false);
        assert!(watching.open.is_empty(), "one that says nothing keeps none");
    }
}
