//! A node that starts greets the others before it votes: one of them may have seen its log longer
//! than it is now, or it may run already, from a copy of its directory.
//!
//! ```text
//!  start ─► no votes, no elections ─► Greet(node, birth, start) to each other one
//!             all well, or nobody answers in time ─► votes and elections
//!             seen further, or running elsewhere  ─► ends with the reason
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use openraft::async_runtime::watch::WatchReceiver;

use super::encoding::position;
use super::message::{Greeting, PeerAnswer, PeerRequest};
use super::node::RaftNode;
use crate::machine::Machine;
use crate::notes::Note;
use crate::peers::{Lane, Member, PeerError};
use crate::record::LogPosition;

/// How long a start waits for the others.
///
/// Source: derived; two elections, so that a cluster that starts as a whole loses no more than that.
const GREET_WITHIN: Duration = Duration::from_millis(600);
/// How long one try may take.
const TRY_WITHIN: Duration = Duration::from_millis(250);
/// Pause before one that was not reached is tried again. Source: chosen; a process starts meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Who a start is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Which directory; a copy has the same.
    pub(crate) birth: u64,
    /// Which start of it; nobody else has the same.
    pub(crate) start: u64,
}

/// Why a node must not take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Its log was longer once.
    Shorter(String),
    /// Another process has the same number.
    Running(String),
}

impl<M: Machine> RaftNode<M> {
    /// Greets the others; the node votes when this returns nothing.
    pub(crate) async fn greet(&self) -> Option<Unfit> {
        let own = self.node_id;
        let states = self.members().into_iter();
        let others: Vec<Member> = states
            .map(|state| state.member)
            .filter(|member| !member.address.is_empty())
            .collect();
        let mut asked: FuturesUnordered<_> = others
            .into_iter()
            .map(|member| self.greet_one(member, own))
            .collect();
        let all = async {
            while let Some(unfit) = asked.next().await {
                if unfit.is_some() {
                    return unfit;
                }
            }
            None
        };
        let unfit = tokio::time::timeout(GREET_WITHIN, all)
            .await
            .unwrap_or(None);
        if unfit.is_none() {
            self.vote_from_now_on();
        }
        unfit
    }

    async fn greet_one(&self, member: Member, own: u64) -> Option<Unfit> {
        // At its own address nobody should be but itself.
        let request = if member.node == own {
            PeerRequest::Who
        } else {
            PeerRequest::Greet(self.greeting())
        };
        let request = request.encode();
        loop {
            let called =
                self.peers
                    .call(member.clone(), Lane::Control, request.clone(), TRY_WITHIN);
            match called.await.map(|bytes| PeerAnswer::decode(&bytes)) {
                Ok(Ok(answer)) => return self.judge(&member, answer),
                // An older program, or one that cannot say now.
                Ok(Err(_)) => return None,
                Err(PeerError::Unreachable { .. } | PeerError::NoAnswer { .. })
                    if member.node == own =>
                {
                    return None;
                }
                Err(PeerError::Unreachable { .. } | PeerError::NoAnswer { .. }) => {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Ends when another process answers where the others know this controller.
    pub(crate) async fn runs_twice(&self) -> String {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let members = self.members().into_iter();
            let own = members
                .map(|state| state.member)
                .find(|member| member.node == self.node_id && !member.address.is_empty());
            let Some(own) = own else { continue };
            let who = PeerRequest::Who.encode();
            let called = self.peers.call(own.clone(), Lane::Control, who, LOOK_EVERY);
            let answer = called.await.map(|bytes| PeerAnswer::decode(&bytes));
            if let Ok(Ok(answer)) = answer
                && let Some(Unfit::Running(text)) = self.judge(&own, answer)
            {
                return text;
            }
        }
    }

    fn greeting(&self) -> Greeting {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        Greeting {
            node: self.node_id,
            birth: self.origin.birth,
            start: self.origin.start,
            term: now.current_term,
            last: self.last(),
        }
    }

    fn last(&self) -> Option<LogPosition> {
        self.log.last()
    }

    fn judge(&self, member: &Member, answer: PeerAnswer) -> Option<Unfit> {
        match answer {
            PeerAnswer::Am { birth: _, start } if member.node == self.node_id => {
                (start != self.origin.start).then(|| self.runs_at(&member.address))
            }
            PeerAnswer::Seen { matched, elsewhere } => {
                if let Some(address) = elsewhere {
                    return Some(self.runs_at(&address));
                }
                let seen = matched?;
                let last = self.last();
                if last >= Some(seen) {
                    // What it was seen to have came after the greeting was written.
                    return None;
                }
                let here = last.map_or(0, |last| last.index);
                Some(Unfit::Shorter(format!(
                    "the log of this controller ends at {here}, but controller {} has seen it up to {} \
                     of term {}: the directory is older than it was, or was emptied",
                    member.node, seen.index, seen.term
                )))
            }
            _other => None,
        }
    }

    fn runs_at(&self, address: &str) -> Unfit {
        Unfit::Running(format!(
            "another process runs as controller {} at {address}, from a copy of this directory; only \
             one of them may",
            self.node_id
        ))
    }

    /// Answers a greeting: what this node has seen of that one, when that is more than it has now.
    pub(crate) async fn greeted(&self, greeting: Greeting) -> PeerAnswer {
        let elsewhere = self.runs_elsewhere(&greeting).await;
        if elsewhere.is_some() {
            return PeerAnswer::Seen {
                matched: None,
                elsewhere,
            };
        }
        self.notes.follow(&self.seen());
        let known = self.notes.about(greeting.node);
        let matched = known.and_then(|note| seen_further(&note, &greeting));
        if matched.is_none() {
            self.notes.is_born(greeting.node, greeting.birth);
        }
        PeerAnswer::Seen {
            matched,
            elsewhere: None,
        }
    }

    /// Where the others know that controller, and another process answers as it.
    async fn runs_elsewhere(&self, greeting: &Greeting) -> Option<String> {
        let members = self.members().into_iter();
        let known = members
            .map(|state| state.member)
            .find(|member| member.node == greeting.node)?;
        if known.address.is_empty() || known.node == self.node_id {
            return None;
        }
        let who = PeerRequest::Who.encode();
        let called = self
            .peers
            .call(known.clone(), Lane::Control, who, TRY_WITHIN / 2);
        let answer = PeerAnswer::decode(&called.await.ok()?).ok()?;
        let other = matches!(answer, PeerAnswer::Am { start, .. } if start != greeting.start);
        other.then_some(known.address)
    }

    /// The members, whether each has a vote, and how far its log was seen.
    fn seen(&self) -> Vec<(Member, bool, Option<LogPosition>)> {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        let membership = now.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let mut seen = Vec::new();
        for (node, known) in membership.nodes() {
            let replicated = now.replication.as_ref().and_then(|all| all.get(node));
            let matched = replicated.and_then(|at| at.as_ref()).map(position);
            let member = Member {
                node: *node,
                address: known.addr.clone(),
            };
            seen.push((member, voters.contains(node), matched));
        }
        seen
    }

    /// Remembers where the others are and how far they were seen, for as long as this node runs.
    pub(crate) async fn take_notes(self) {
        let mut metrics = self.raft.metrics();
        let (mut members, mut saved) = (Vec::new(), self.notes.pages());
        let mut at = tokio::time::Instant::now();
        loop {
            let known = self.who();
            // Who belongs to the cluster must be found after a crash; how far they are may lag.
            let must_last = known != members;
            if must_last || at.elapsed() >= NOTES_EVERY {
                let seen = self.seen();
                if !seen.is_empty() {
                    self.notes.follow(&seen);
                }
                let pages = self.notes.pages();
                if pages != saved {
                    self.save(must_last).await;
                    saved = pages;
                }
                (members, at) = (known, tokio::time::Instant::now());
            }
            let changed = tokio::time::timeout(NOTES_EVERY, metrics.changed());
            if let Ok(Err(_)) = changed.await {
                return;
            }
        }
    }

    /// The members and whether each has a vote; cheap enough for every entry.
    fn who(&self) -> Vec<(u64, bool, String)> {
        let metrics = self.raft.metrics();
        let now = metrics.borrow_watched();
        let membership = now.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let nodes = membership.nodes();
        nodes
            .map(|(node, known)| (*node, voters.contains(node), known.addr.clone()))
            .collect()
    }

    async fn save(&self, must_last: bool) {
        let notes = Arc::clone(&self.notes);
        let saving = tokio::task::spawn_blocking(move || {
            notes.save()?;
            if must_last { notes.sync() } else { Ok(()) }
        });
        if let Ok(Err(error)) = saving.await {
            tracing::warn!(%error, "notes about the other controllers not written");
        }
    }
}

/// Pause between two looks at the own address. Source: chosen; one small question.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Pause between two notes. Source: chosen; a file of some hundred bytes, without a sync.
const NOTES_EVERY: Duration = Duration::from_secs(1);

/// The position up to which a controller was seen, when its log cannot have come after that.
fn seen_further(note: &Note, greeting: &Greeting) -> Option<LogPosition> {
    let seen = note.matched?;
    if note.birth != greeting.birth {
        return None;
    }
    // A later term may have cut it off by right; an older directory would not know that term.
    (greeting.term <= seen.term && Some(seen) > greeting.last).then_some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_directory_with_less_and_no_later_term_is_unfit() {
        let at = |term, index| LogPosition { term, index };
        let note = Note {
            birth: 5,
            matched: Some(at(3, 100)),
            ..Note::default()
        };
        let cases = [
            (5, 3, Some(at(3, 100)), false),
            (5, 3, Some(at(3, 120)), false),
            (5, 3, Some(at(3, 99)), true),
            (5, 2, Some(at(2, 400)), true),
            (5, 3, None, true),
            // Cut off by a primary of a later term.
            (5, 4, Some(at(3, 98)), false),
            // A directory made anew.
            (6, 3, None, false),
        ];
        for (birth, term, last, unfit) in cases {
            let greeting = Greeting {
                node: 2,
                birth,
                start: 1,
                term,
                last,
            };
            assert_eq!(
                seen_further(&note, &greeting).is_some(),
                unfit,
                "{greeting:?}"
            );
        }
    }
}
