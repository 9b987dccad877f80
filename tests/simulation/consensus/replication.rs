//! How the log of the leader becomes that of the others.

use std::sync::Arc;

use super::{Body, ENTRIES_MAX, Entry, LogId, Node, Output, PART_RECORDS, Record, Snapshot};

impl Node {
    /// Sends each member what it misses; an empty message is a beat.
    pub(super) fn send_appends(&mut self, now: u64) {
        let members: Vec<u64> = self.progress.keys().copied().collect();
        for to in members {
            self.send_append(to, now);
        }
    }

    fn send_append(&mut self, to: u64, now: u64) {
        let Some(progress) = self.progress.get(&to) else {
            return;
        };
        if let Some((snapshot, part)) = progress.sending.clone() {
            let sent = now;
            return self.send(
                to,
                Body::Part {
                    snapshot,
                    part,
                    sent,
                },
            );
        }
        let index = progress.next.saturating_sub(1);
        let Some(term) = self.term_at(index) else {
            return self.begin_snapshot(to, now);
        };
        let entries: Vec<Arc<Entry>> = (progress.next..)
            .map_while(|index| self.entry(index).cloned())
            .take(ENTRIES_MAX)
            .collect();
        let sent = Body::Append {
            previous: LogId { term, index },
            entries,
            commit: self.commit,
            sent: now,
        };
        self.send(to, sent);
    }

    fn begin_snapshot(&mut self, to: u64, now: u64) {
        let Some(snapshot) = self.snapshot.clone() else {
            return;
        };
        if let Some(progress) = self.progress.get_mut(&to) {
            progress.sending = Some((snapshot, 0));
            self.send_append(to, now);
        }
    }

    pub(super) fn take_entries(
        &mut self,
        from: u64,
        what: (LogId, Vec<Arc<Entry>>),
        of: (u64, u64),
    ) {
        let ((previous, entries), (commit, sent)) = (what, of);
        // What is below the log is committed and the same everywhere.
        let known =
            previous.index < self.base.index || self.term_at(previous.index) == Some(previous.term);
        if !known {
            let hint = self.last().index.min(previous.index.saturating_sub(1));
            let matched = Err(hint.max(self.commit));
            return self.send(from, Body::Appended { matched, sent });
        }
        let mut matched = previous.index;
        for entry in entries {
            matched = entry.id.index;
            if matched <= self.base.index || self.term_at(matched) == Some(entry.id.term) {
                continue;
            }
            if matched <= self.last().index {
                assert!(matched > self.commit, "a committed entry is overwritten");
                self.truncate(matched);
            }
            let write = self.write(Record::Append(Arc::clone(&entry)));
            self.log.push_back((entry, write));
        }
        self.commit = self.commit.max(commit.min(matched));
        self.send_durable(
            from,
            Body::Appended {
                matched: Ok(matched),
                sent,
            },
        );
    }

    fn truncate(&mut self, from: u64) {
        while self
            .log
            .back()
            .is_some_and(|(entry, _)| entry.id.index >= from)
        {
            self.log.pop_back();
        }
        self.durable = self.durable.min(from - 1);
        self.write(Record::Truncate(from));
    }

    pub(super) fn entries_taken(&mut self, from: u64, matched: Result<u64, u64>, of: (u64, u64)) {
        let (sent, now) = of;
        let last = self.last().index;
        let Some(progress) = self.progress.get_mut(&from) else {
            return;
        };
        progress.acked = progress.acked.max(Some(sent));
        match matched {
            Ok(matched) => {
                progress.matched = progress.matched.max(matched);
                progress.next = progress.next.max(matched + 1);
                let behind = progress.next <= last;
                self.advance_commit();
                if behind {
                    self.send_append(from, now);
                }
            }
            Err(hint) => {
                if progress.sending.is_none() && hint + 1 < progress.next {
                    progress.next = (hint + 1).max(progress.matched + 1);
                    self.send_append(from, now);
                }
            }
        }
    }

    /// What a quorum holds durably, and is of this term, is committed.
    pub(super) fn advance_commit(&mut self) {
        let members = self.members();
        let mut held: Vec<u64> = members
            .voters
            .iter()
            .map(|voter| match *voter == self.id {
                true => self.durable,
                false => self.progress.get(voter).map_or(0, |one| one.matched),
            })
            .collect();
        held.sort_unstable();
        held.reverse();
        let index = held.get(members.quorum() - 1).copied().unwrap_or(0);
        if index > self.commit && self.term_at(index) == Some(self.term) {
            self.commit = index;
        }
    }

    pub(super) fn take_part(&mut self, from: u64, snapshot: &Arc<Snapshot>, of: (usize, u64)) {
        let ((part, sent), last) = (of, snapshot.last);
        let taken = |next| Body::PartTaken { last, next, sent };
        if last.index <= self.commit {
            self.incoming = None;
            return self.send_durable(from, taken(None));
        }
        let wanted = match self.incoming {
            Some((of, next)) if of == last => next,
            Some(_) | None => 0,
        };
        if part != wanted {
            self.incoming = Some((last, wanted));
            return self.send(from, taken(Some(wanted)));
        }
        let parts = snapshot.records.len().div_ceil(PART_RECORDS).max(1);
        if part + 1 < parts {
            self.incoming = Some((last, part + 1));
            return self.send(from, taken(Some(part + 1)));
        }
        self.incoming = None;
        self.install(snapshot);
        self.send_durable(from, taken(None));
    }

    fn install(&mut self, snapshot: &Arc<Snapshot>) {
        let last = snapshot.last;
        if self.term_at(last.index) == Some(last.term) {
            // The log goes on from it.
            while self
                .log
                .front()
                .is_some_and(|(entry, _)| entry.id.index <= last.index)
            {
                self.log.pop_front();
            }
        } else {
            self.log.clear();
        }
        self.base = last;
        self.members_below = Arc::clone(&snapshot.members);
        self.snapshot = Some(Arc::clone(snapshot));
        self.commit = last.index;
        self.applied = last;
        self.write(Record::Install(Arc::clone(snapshot)));
        // The log that goes on is durable as far as it was.
        self.durable = self.durable.max(last.index).min(self.last().index);
        self.outputs.push(Output::Restore(Arc::clone(snapshot)));
    }

    pub(super) fn part_taken(&mut self, from: u64, what: (LogId, Option<usize>), of: (u64, u64)) {
        let ((last, next), (sent, now)) = (what, of);
        let Some(progress) = self.progress.get_mut(&from) else {
            return;
        };
        progress.acked = progress.acked.max(Some(sent));
        let Some((snapshot, part)) = &mut progress.sending else {
            return;
        };
        if snapshot.last != last {
            return;
        }
        match next {
            Some(next) => {
                if *part == next {
                    return;
                }
                *part = next;
            }
            None => {
                progress.sending = None;
                progress.matched = progress.matched.max(last.index);
                progress.next = progress.matched + 1;
                self.advance_commit();
            }
        }
        self.send_append(from, now);
    }
}
