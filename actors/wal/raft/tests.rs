//! The adapter against the library's own suite, and what that suite does not see: a restart.

mod reopen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use openraft::entry::RaftEntry;
use openraft::impls::BasicNode;
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use openraft::{EntryPayload, RaftSnapshotBuilder, StorageError};
use tempfile::TempDir;

use super::encoding::{
    decode_membership, entry, log_id, stored_entry, stored_membership_bytes, stored_vote, vote,
};
use super::message::{Greeting, PeerAnswer, PeerRequest};
use super::storage::LogStore;
use super::types::{Entry, Groups, Membership, StoredMembership, Types, Vote};
use super::{StateMachine, Waiters};
use crate::groups;
use crate::record::LogPosition;
use crate::snapshot::SnapshotStore;
use crate::status::Shared;
use crate::tests::book::{Book, Page};
use crate::tests::conformance::Tally;
use crate::tests::log::open_log;
use crate::tests::synced;
use crate::writer::LogThread;

/// What must live as long as a store; the folder last.
struct Guard {
    _thread: LogThread,
    _dir: Option<TempDir>,
}

fn store(dir: &std::path::Path, watermark: std::time::Duration) -> (LogThread, LogStore) {
    let (log, recovered) = open_log(dir, synced());
    let fatal = Arc::new(|reason| panic!("fatal: {reason}"));
    let (thread, writer) = LogThread::start(log, watermark, fatal).unwrap();
    let store = LogStore::new(writer, recovered.marks, &recovered.entries).unwrap();
    (thread, store)
}

fn machine(dir: &std::path::Path) -> (StateMachine<Book>, Arc<Mutex<Page>>) {
    let (mut book, page) = Book::new();
    let snapshots = Arc::new(SnapshotStore::new(synced(), dir.to_path_buf(), [5; 16]));
    let restored = snapshots.restore_newest(&mut book).unwrap();
    let shared = Arc::new(Shared::default());
    let waiters = Arc::new(Waiters::default());
    let machine = StateMachine::new(book, restored.as_ref(), waiters, snapshots, shared);
    (machine.unwrap(), page)
}

/// Counts what it builds: one for each case of the suite, two for its last.
#[derive(Default)]
struct Builder(Arc<std::sync::atomic::AtomicU64>);

impl StoreBuilder<Types, LogStore, StateMachine<Book>, Guard> for Builder {
    async fn build(&self) -> Result<(Guard, LogStore, StateMachine<Book>), StorageError<Types>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = TempDir::new().unwrap();
        let (log, snapshots) = (dir.path().join("log"), dir.path().join("snapshots"));
        std::fs::create_dir(&log).unwrap();
        std::fs::create_dir(&snapshots).unwrap();
        let (thread, store) = store(&log, std::time::Duration::from_millis(5));
        let (machine, _page) = machine(&snapshots);
        Ok((
            Guard {
                _thread: thread,
                _dir: Some(dir),
            },
            store,
            machine,
        ))
    }
}

#[test]
fn the_library_accepts_the_storage() {
    let builder = Builder::default();
    let built = Arc::clone(&builder.0);
    Types::run(async { Suite::test_all(builder).await.unwrap() });
    let cases = built.load(std::sync::atomic::Ordering::Relaxed) - 1;
    Tally::begin(1).report("storage", cases);
}

fn blank(term: u64, index: u64) -> Entry {
    Entry::new(log_id(LogPosition { term, index }), EntryPayload::Blank)
}

fn normal(term: u64, index: u64, group: &[u8]) -> Entry {
    let groups = Groups {
        bytes: groups::pack(&[group]),
        ticket: 7,
    };
    Entry::new(
        log_id(LogPosition { term, index }),
        EntryPayload::Normal(groups),
    )
}

async fn append(store: &mut LogStore, entries: Vec<Entry>) {
    let (sender, receiver) = Types::oneshot();
    store
        .append(entries, IOFlushed::signal(sender))
        .await
        .unwrap();
    receiver.await.unwrap().unwrap();
}

#[tokio::test]
async fn everything_the_storage_promised_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let never = std::time::Duration::from_secs(3600);
    let given = Vote::new(3, 2);
    {
        let (_thread, mut log) = store(dir.path(), never);
        log.save_vote(&given).await.unwrap();
        append(
            &mut log,
            (1..=20).map(|index| normal(1, index, b"group")).collect(),
        )
        .await;
        log.truncate_after(Some(log_id(LogPosition { term: 1, index: 15 })))
            .await
            .unwrap();
        append(&mut log, (16..=18).map(|index| blank(3, index)).collect()).await;
        log.save_committed(Some(log_id(LogPosition { term: 3, index: 17 })))
            .await
            .unwrap();
        log.purge(log_id(LogPosition { term: 1, index: 10 }))
            .await
            .unwrap();
    }
    {
        let (_thread, mut log) = store(dir.path(), never);
        assert_eq!(log.read_vote().await.unwrap(), Some(given));
        let state = log.get_log_state().await.unwrap();
        assert_eq!(
            state.last_purged_log_id,
            Some(log_id(LogPosition { term: 1, index: 10 }))
        );
        assert_eq!(
            state.last_log_id,
            Some(log_id(LogPosition { term: 3, index: 18 }))
        );
        let committed = log.read_committed().await.unwrap();
        assert_eq!(committed, Some(log_id(LogPosition { term: 3, index: 17 })));
        let entries = log.try_get_log_entries(0..100).await.unwrap();
        let indexes: Vec<_> = entries.iter().map(|entry| entry.log_id.index()).collect();
        assert_eq!(indexes, (11..=18).collect::<Vec<_>>());
        assert!(matches!(&entries[0].payload, EntryPayload::Normal(groups)
            if groups.ticket == 0 && groups::unpack(&groups.bytes).unwrap() == [b"group"]));
        assert_eq!(entries[5], blank(3, 16));
        log.purge(log_id(LogPosition { term: 3, index: 18 }))
            .await
            .unwrap();
    }
    let (_thread, mut log) = store(dir.path(), never);
    let state = log.get_log_state().await.unwrap();
    assert_eq!(
        state.last_log_id,
        Some(log_id(LogPosition { term: 3, index: 18 }))
    );
    assert!(log.try_get_log_entries(..).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_installed_snapshot_is_there_after_a_restart() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (mut sender, _page) = machine(from.path());
    let entries = [normal(2, 1, b"one"), normal(2, 2, b"two")];
    sender
        .apply(futures::stream::iter(
            entries.map(|entry| Ok((entry, None))),
        ))
        .await
        .unwrap();
    let built = sender
        .get_snapshot_builder()
        .await
        .build_snapshot()
        .await
        .unwrap();
    let (mut receiver, page) = machine(to.path());
    receiver
        .install_snapshot(&built.meta, built.snapshot)
        .await
        .unwrap();
    assert_eq!(page.lock().unwrap().groups, [b"one", b"two"]);
    let (mut again, _page) = machine(to.path());
    let state = again.applied_state().await.unwrap();
    assert_eq!(state.0, Some(log_id(LogPosition { term: 2, index: 2 })));
    assert_eq!(
        again.get_current_snapshot().await.unwrap().unwrap().meta,
        built.meta
    );
}

fn memberships() -> Vec<Membership> {
    let node = |address: &str| BasicNode {
        addr: address.to_owned(),
    };
    let nodes = BTreeMap::from([(1, node("a:1")), (2, node("")), (7, node("höst:3"))]);
    let joint = vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 7])];
    vec![
        Membership::default(),
        Membership::new(vec![BTreeSet::from([1])], nodes.clone()).unwrap(),
        Membership::new(joint, nodes).unwrap(),
    ]
}

#[test]
fn own_encodings_bring_back_what_was_put_in() {
    for vote_in in [Vote::new(1, 2), Vote::new_committed(u64::MAX, 3)] {
        assert_eq!(vote(stored_vote(&vote_in)), vote_in);
    }
    let at = log_id(LogPosition { term: 3, index: 4 });
    for membership in memberships() {
        let entry_in = Entry::new(at, EntryPayload::Membership(membership.clone()));
        assert_eq!(entry(&stored_entry(&entry_in)).unwrap(), entry_in);
        for id in [None, Some(at)] {
            let stored = StoredMembership::new(id, membership.clone());
            let bytes = stored_membership_bytes(&stored);
            assert_eq!(decode_membership(&bytes).unwrap(), stored);
            for cut in 0..bytes.len() {
                assert!(decode_membership(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}

#[test]
fn bytes_of_a_membership_stay_as_they_are() {
    let membership = memberships().remove(1);
    let stored = StoredMembership::new(Some(log_id(LogPosition { term: 5, index: 6 })), membership);
    let golden: &[u8] = b"\x01\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\
        \x01\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0a:1\
        \x02\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x07\0\0\0h\xc3\xb6st:3";
    assert_eq!(stored_membership_bytes(&stored), golden);
}

#[test]
fn every_message_comes_back_and_none_that_is_cut_off() {
    let at = LogPosition { term: 3, index: 7 };
    let member = crate::Member {
        node: 2,
        address: "höst:1".to_owned(),
    };
    let greeting = Greeting {
        node: 2,
        birth: 5,
        start: u64::MAX,
        term: 4,
        last: Some(at),
    };
    let requests = [
        PeerRequest::Greet(greeting),
        PeerRequest::Rejoin(member.clone()),
        PeerRequest::Who,
        PeerRequest::Digest(9),
        PeerRequest::Differs(9),
    ];
    for request in requests {
        let bytes = request.encode();
        assert_eq!(PeerRequest::decode(&bytes), Ok(request));
        for cut in 0..bytes.len() {
            assert!(PeerRequest::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
    let seen = |elsewhere: Option<&str>| PeerAnswer::Seen {
        matched: Some(at),
        elsewhere: elsewhere.map(str::to_owned),
    };
    let answers = [
        seen(None),
        seen(Some("host:1")),
        PeerAnswer::Am { birth: 1, start: 2 },
        PeerAnswer::TakenIn,
        PeerAnswer::NotPrimary(None),
        PeerAnswer::NotPrimary(Some(member)),
        PeerAnswer::NotMember,
        PeerAnswer::Digest(None),
        PeerAnswer::Digest(Some([7; 32])),
    ];
    for answer in answers {
        let bytes = answer.encode();
        assert_eq!(PeerAnswer::decode(&bytes), Ok(answer));
        for cut in 0..bytes.len() {
            assert!(PeerAnswer::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
