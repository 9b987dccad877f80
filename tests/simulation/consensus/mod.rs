//! Consensus for the simulated controllers: a small Raft of its own, in the place of the library that
//! the real ones use.
//!
//! Terms, pre-votes and votes, replication with conflicts overwritten, commit by quorum in the own
//! term, a lease from the sending time of what a quorum answered, snapshots for whoever is far behind,
//! one change of members at a time, a planned transfer. Pure: clocks, chance and disk are outside; what
//! is to be written and sent comes out as [`Output`], in order. Times are the node's own clock.

mod disk;
mod election;
mod members;
mod replication;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use xce_ledger::Group;

pub use disk::Disk;
pub use members::{Change, Members};

/// Pause between beats. Source: as in the log's own adapter.
pub const BEAT_MS: u64 = 50;
/// Bounds of the wait before an election. Source: as in the log's own adapter.
pub const ELECTION_MS_MIN: u64 = 150;
pub const ELECTION_MS_MAX: u64 = 300;
/// Records of a snapshot in one message; small, so that transfers are broken off.
const PART_RECORDS: usize = 24;
/// Entries of one message.
const ENTRIES_MAX: usize = 32;

/// A place in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId {
    pub term: u64,
    pub index: u64,
}

/// What an entry carries.
#[derive(Debug, Clone)]
pub enum Payload {
    /// The first of a term, and barriers.
    Empty,
    Groups(Arc<Vec<Group>>),
    Members(Arc<Members>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub id: LogId,
    pub payload: Payload,
}

/// The state up to a place.
#[derive(Debug)]
pub struct Snapshot {
    pub last: LogId,
    pub members: Arc<Members>,
    pub records: Vec<Vec<u8>>,
}

/// What a node writes; one stream in order.
#[derive(Debug, Clone)]
pub enum Record {
    Vote(u64, Option<u64>),
    Append(Arc<Entry>),
    /// From this index on everything goes.
    Truncate(u64),
    /// A snapshot that another sent: it stands for everything.
    Install(Arc<Snapshot>),
}

#[derive(Debug, Clone)]
pub struct Envelope {
    pub from: u64,
    pub to: u64,
    pub term: u64,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub enum Body {
    /// Whether a vote in the term above would be given.
    PreVote(LogId),
    PreVoted(bool),
    /// With whether the leader itself asked for this election.
    Vote(LogId, bool),
    Voted(bool),
    Append {
        previous: LogId,
        entries: Vec<Arc<Entry>>,
        commit: u64,
        sent: u64,
    },
    /// Matched up to here, or where to try next; with the sending time that it answers.
    Appended {
        matched: Result<u64, u64>,
        sent: u64,
    },
    Part {
        snapshot: Arc<Snapshot>,
        part: usize,
        sent: u64,
    },
    /// The part that is wanted next; none: all is installed.
    PartTaken {
        last: LogId,
        next: Option<usize>,
        sent: u64,
    },
    /// Begin an election at once.
    Elect,
}

/// What is to be done, in order.
#[derive(Debug)]
pub enum Output {
    Write(Record),
    /// Goes out when all that was written before is synced.
    SendDurable(Envelope),
    Send(Envelope),
    /// The state is replaced by this one.
    Restore(Arc<Snapshot>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Follower,
    /// Asks whether an election has a chance.
    Probing(BTreeSet<u64>),
    Candidate(BTreeSet<u64>),
    Leader,
}

/// What a leader knows of another.
#[derive(Debug, Clone)]
struct Progress {
    next: u64,
    matched: u64,
    /// Sending time of the last message that it answered.
    acked: Option<u64>,
    /// The snapshot that it is sent, and the part.
    sending: Option<(Arc<Snapshot>, usize)>,
}

/// What recovery finds on a disk.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub term: u64,
    pub voted: Option<u64>,
    pub snapshot: Option<Arc<Snapshot>>,
    pub log: Vec<Arc<Entry>>,
}

#[derive(Debug)]
pub struct Node {
    pub id: u64,
    pub term: u64,
    voted: Option<u64>,
    pub role: Role,
    pub leader: Option<u64>,
    /// What is below the log.
    base: LogId,
    pub snapshot: Option<Arc<Snapshot>>,
    /// Each with the number of its write.
    log: VecDeque<(Arc<Entry>, u64)>,
    members_below: Arc<Members>,
    writes: u64,
    durable: u64,
    pub commit: u64,
    pub applied: LogId,
    /// When the leader was last heard.
    heard: Option<u64>,
    elect_at: u64,
    beat_at: u64,
    progress: BTreeMap<u64, Progress>,
    /// Parts of a snapshot that came so far.
    incoming: Option<(LogId, usize)>,
    /// A transfer was begun: nothing more is proposed and the lease is given up.
    pub transferring: bool,
    /// Whether a lease that is given up by a transfer still counts: off to see what it is for.
    pub lease_while_transferring: bool,
    pub outputs: Vec<Output>,
}

impl Node {
    /// A node as its disk has it; `first` are the members of a cluster that begins.
    pub fn new(id: u64, found: Found, first: Arc<Members>, elect_at: u64) -> Self {
        let base = found.snapshot.as_ref().map_or(LogId::default(), |s| s.last);
        let members_below = found
            .snapshot
            .as_ref()
            .map_or(first, |snapshot| Arc::clone(&snapshot.members));
        let log: VecDeque<_> = found.log.into_iter().map(|entry| (entry, 0)).collect();
        let mut node = Self {
            id,
            term: found.term,
            voted: found.voted,
            role: Role::Follower,
            leader: None,
            base,
            snapshot: found.snapshot,
            log,
            members_below,
            writes: 0,
            durable: 0,
            commit: base.index,
            applied: base,
            heard: None,
            elect_at,
            beat_at: 0,
            progress: BTreeMap::new(),
            incoming: None,
            transferring: false,
            lease_while_transferring: false,
            outputs: Vec::new(),
        };
        node.durable = node.last().index;
        node
    }

    pub fn last(&self) -> LogId {
        self.log.back().map_or(self.base, |(entry, _)| entry.id)
    }

    pub fn entry(&self, index: u64) -> Option<&Arc<Entry>> {
        let offset = index.checked_sub(self.base.index + 1)?;
        let place = usize::try_from(offset).ok()?;
        self.log.get(place).map(|(entry, _)| entry)
    }

    fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.entry(index).map(|entry| entry.id.term)
    }

    pub fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    /// Whether it leads and has applied an entry of its own term.
    pub fn is_primary(&self) -> bool {
        self.is_leader() && self.applied.term == self.term
    }

    fn send(&mut self, to: u64, body: Body) {
        let (from, term) = (self.id, self.term);
        self.outputs.push(Output::Send(Envelope {
            from,
            to,
            term,
            body,
        }));
    }

    fn send_durable(&mut self, to: u64, body: Body) {
        let (from, term) = (self.id, self.term);
        self.outputs.push(Output::SendDurable(Envelope {
            from,
            to,
            term,
            body,
        }));
    }

    fn write(&mut self, record: Record) -> u64 {
        self.writes += 1;
        self.outputs.push(Output::Write(record));
        self.writes
    }

    fn keep_vote(&mut self, term: u64, voted: Option<u64>) {
        if (self.term, self.voted) != (term, voted) {
            (self.term, self.voted) = (term, voted);
            self.write(Record::Vote(term, voted));
        }
    }

    /// Everything up to a write is synced.
    pub fn synced(&mut self, write: u64) {
        let is_synced = |(_, of): &&(Arc<Entry>, u64)| *of <= write;
        let count = self.log.iter().take_while(is_synced).count() as u64;
        self.durable = self.durable.max(self.base.index + count);
        if self.is_leader() {
            self.advance_commit();
        }
    }

    /// Proposes an entry; nothing where it does not lead.
    pub fn propose(&mut self, payload: Payload, now: u64) -> Option<LogId> {
        if !self.is_leader() || self.transferring {
            return None;
        }
        let id = self.append_own(payload);
        self.send_appends(now);
        Some(id)
    }

    fn append_own(&mut self, payload: Payload) -> LogId {
        let id = LogId {
            term: self.term,
            index: self.last().index + 1,
        };
        let entry = Arc::new(Entry { id, payload });
        let write = self.write(Record::Append(Arc::clone(&entry)));
        self.log.push_back((entry, write));
        id
    }

    /// Takes the next committed entry to apply.
    pub fn next_to_apply(&mut self) -> Option<Arc<Entry>> {
        if self.applied.index >= self.commit {
            return None;
        }
        let entry = Arc::clone(self.entry(self.applied.index + 1)?);
        self.applied = entry.id;
        Some(entry)
    }

    /// A snapshot of what is applied was kept: the log below `keep` may go.
    pub fn compact(&mut self, snapshot: Arc<Snapshot>, keep: u64) {
        self.snapshot = Some(snapshot);
        while let Some((entry, _)) = self.log.front() {
            if entry.id.index > keep || entry.id.index > self.durable {
                break;
            }
            if let Payload::Members(members) = &entry.payload {
                self.members_below = Arc::clone(members);
            }
            self.base = entry.id;
            self.log.pop_front();
        }
    }

    /// When it has to be called next.
    pub fn deadline(&self) -> u64 {
        match self.role {
            Role::Leader => self.beat_at,
            Role::Follower | Role::Probing(_) | Role::Candidate(_) => self.elect_at,
        }
    }

    /// Whether no other can lead now, from when a quorum answered what was sent.
    pub fn holds_lease(&self, now: u64, length: u64) -> bool {
        if !self.is_primary() || (self.transferring && !self.lease_while_transferring) {
            return false;
        }
        self.unanswered(now).is_some_and(|time| time < length)
    }

    /// How long ago what a quorum answered was sent; nothing where it never did.
    pub fn unanswered(&self, now: u64) -> Option<u64> {
        let acked = self.quorum_acked(now)?;
        Some(now.saturating_sub(acked))
    }

    /// The latest sending time that a quorum answered.
    fn quorum_acked(&self, now: u64) -> Option<u64> {
        let members = self.members();
        let mut times: Vec<Option<u64>> = members
            .voters
            .iter()
            .map(|voter| match *voter == self.id {
                true => Some(now),
                false => self.progress.get(voter).and_then(|one| one.acked),
            })
            .collect();
        times.sort_unstable();
        times.reverse();
        times.get(members.quorum() - 1).copied().flatten()
    }

    /// Takes a message in; `wait` is a random part of an election's wait.
    pub fn receive(&mut self, message: Envelope, now: u64, wait: u64) {
        let Envelope {
            from, term, body, ..
        } = message;
        match body {
            Body::PreVote(last) => return self.asked_whether(from, term, last, now),
            Body::PreVoted(granted) => return self.answered_whether(from, term, granted, now),
            Body::Vote(last, planned) => return self.asked(from, (term, planned), last, now),
            _ => {}
        }
        if term > self.term {
            self.follow(term, None);
        }
        if term < self.term {
            // An old leader learns the term from the answer.
            if matches!(body, Body::Append { .. } | Body::Part { .. }) {
                let matched = Err(0);
                self.send(from, Body::Appended { matched, sent: 0 });
            }
            return;
        }
        match body {
            Body::PreVote(_) | Body::PreVoted(_) | Body::Vote(..) => {}
            Body::Voted(granted) => self.answered(from, granted, now),
            Body::Append {
                previous,
                entries,
                commit,
                sent,
            } => {
                self.hear(from, now, wait);
                self.take_entries(from, (previous, entries), (commit, sent));
            }
            Body::Appended { matched, sent } => self.entries_taken(from, matched, (sent, now)),
            Body::Part {
                snapshot,
                part,
                sent,
            } => {
                self.hear(from, now, wait);
                self.take_part(from, &snapshot, (part, sent));
            }
            Body::PartTaken { last, next, sent } => {
                self.part_taken(from, (last, next), (sent, now));
            }
            Body::Elect => self.campaign(true, now),
        }
    }

    /// A node that starts does not know whom it had answered lately: it gives no vote for as long as
    /// that one may count on it.
    pub fn respect_former(&mut self, now: u64) {
        self.heard = Some(now);
    }

    /// It no longer belongs to the voters: others lead.
    pub fn step_down(&mut self) {
        if self.is_leader() && !self.members().voters.contains(&self.id) {
            self.follow(self.term, None);
        }
    }

    /// Follows whoever leads a term.
    fn follow(&mut self, term: u64, leader: Option<u64>) {
        if term > self.term {
            self.keep_vote(term, None);
        }
        self.role = Role::Follower;
        self.transferring = false;
        self.leader = leader;
        self.progress.clear();
    }

    fn hear(&mut self, from: u64, now: u64, wait: u64) {
        assert!(!self.is_leader(), "two nodes lead in term {}", self.term);
        if self.role != Role::Follower || self.leader != Some(from) {
            self.follow(self.term, Some(from));
        }
        self.heard = Some(now);
        self.elect_at = now + ELECTION_MS_MAX + wait;
    }
}
