//! The library's suite over a storage that is closed and opened again before every read: what passes
//! only because it is still in memory fails here.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{FutureExt, Stream};
use openraft::storage::{
    EntryResponder, IOFlushed, LogState, RaftLogReader, RaftLogStorage, RaftStateMachine,
};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::{SnapshotMetaOf, SnapshotOf};
use openraft::{OptionalSend, StorageError};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::{LogThread, machine, store};
use crate::raft::StateMachine;
use crate::raft::machine::{SnapshotBuilder, SnapshotFile};
use crate::raft::storage::LogStore;
use crate::raft::types::{Entry, LogId, StoredMembership, Types, Vote};
use crate::tests::book::Book;
use crate::tests::conformance::Tally;

/// What a faulty storage does not write; the suite must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgets {
    Nothing,
    Votes,
    Truncations,
    Purges,
}

struct Held {
    dir: PathBuf,
    open: Option<(LogThread, LogStore)>,
}

/// A log that is opened again before it is read.
#[derive(Clone)]
struct Reopened {
    held: Arc<Mutex<Held>>,
    forgets: Forgets,
}

impl Held {
    fn as_it_is(&mut self) -> &mut LogStore {
        let dir = &self.dir;
        let open = || store(dir, Duration::from_secs(3600));
        &mut self.open.get_or_insert_with(open).1
    }

    fn again(&mut self) -> &mut LogStore {
        self.open = None;
        self.as_it_is()
    }
}

impl RaftLogReader<Types> for Reopened {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let mut held = self.held.lock().await;
        held.again().try_get_log_entries(range).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        self.held.lock().await.again().read_vote().await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        let mut held = self.held.lock().await;
        held.again().limited_get_log_entries(start, end).await
    }
}

impl RaftLogStorage<Types> for Reopened {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        self.held.lock().await.again().get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        match self.forgets {
            Forgets::Votes => Ok(()),
            Forgets::Nothing | Forgets::Truncations | Forgets::Purges => {
                self.held.lock().await.as_it_is().save_vote(vote).await
            }
        }
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let mut held = self.held.lock().await;
        held.as_it_is().save_committed(committed).await
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        self.held.lock().await.again().read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let mut held = self.held.lock().await;
        held.as_it_is().append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        match self.forgets {
            Forgets::Truncations => Ok(()),
            Forgets::Nothing | Forgets::Votes | Forgets::Purges => {
                let mut held = self.held.lock().await;
                held.as_it_is().truncate_after(last).await
            }
        }
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        match self.forgets {
            Forgets::Purges => Ok(()),
            Forgets::Nothing | Forgets::Votes | Forgets::Truncations => {
                self.held.lock().await.as_it_is().purge(upto).await
            }
        }
    }
}

/// A machine whose snapshots are looked up by another one that knows only the folder.
struct ReopenedMachine {
    dir: PathBuf,
    inner: StateMachine<Book>,
}

impl RaftStateMachine<Types> for ReopenedMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder<Book>;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        self.inner.applied_state().await
    }

    async fn apply<S>(&mut self, entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        self.inner.apply(entries).await
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder<Book>> {
        self.inner.try_create_snapshot_builder(force).await
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<Book> {
        self.inner.get_snapshot_builder().await
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Types>,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        self.inner.install_snapshot(meta, snapshot).await
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<SnapshotOf<Types, SnapshotFile>>, io::Error> {
        let own = self.inner.get_current_snapshot().await?;
        let (mut another, _page) = machine(&self.dir);
        let there = another.get_current_snapshot().await?;
        let meta = |snapshot: &Option<SnapshotOf<Types, SnapshotFile>>| {
            snapshot.as_ref().map(|snapshot| snapshot.meta.clone())
        };
        assert_eq!(meta(&there), meta(&own), "what a restart finds");
        Ok(there)
    }
}

struct Builder {
    forgets: Forgets,
    built: Arc<AtomicU64>,
}

impl StoreBuilder<Types, Reopened, ReopenedMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Reopened, ReopenedMachine), StorageError<Types>> {
        self.built.fetch_add(1, Ordering::Relaxed);
        let root = TempDir::new().unwrap();
        let (log, snapshots) = (root.path().join("log"), root.path().join("snapshots"));
        std::fs::create_dir(&log).unwrap();
        std::fs::create_dir(&snapshots).unwrap();
        let held = Held {
            dir: log,
            open: None,
        };
        let log = Reopened {
            held: Arc::new(Mutex::new(held)),
            forgets: self.forgets,
        };
        let (inner, _page) = machine(&snapshots);
        let machine = ReopenedMachine {
            dir: snapshots,
            inner,
        };
        Ok((root, log, machine))
    }
}

/// How many cases passed, or that one did not.
fn passed(forgets: Forgets) -> Result<u64, ()> {
    let built = Arc::new(AtomicU64::new(0));
    let builder = Builder {
        forgets,
        built: Arc::clone(&built),
    };
    let suite = AssertUnwindSafe(Suite::test_all(builder)).catch_unwind();
    let ended = Types::run(suite);
    // The last case builds two.
    let cases = built.load(Ordering::Relaxed).saturating_sub(1);
    matches!(ended, Ok(Ok(()))).then_some(cases).ok_or(())
}

#[test]
fn the_library_accepts_a_storage_that_is_opened_again_before_each_read() {
    let cases = passed(Forgets::Nothing).expect("it is accepted");
    Tally::begin(1).report("storage, reopened", cases);
}

#[test]
fn a_storage_that_forgets_is_found_out() {
    for forgets in [Forgets::Votes, Forgets::Truncations, Forgets::Purges] {
        assert_eq!(passed(forgets), Err(()), "{forgets:?} forgotten");
    }
    Tally::begin(1).report("storage, forgetful ones found out", 3);
}
