//! How one becomes the leader.

use std::collections::BTreeSet;

use super::{BEAT_MS, Body, ELECTION_MS_MAX, LogId, Node, Payload, Progress, Role};

impl Node {
    /// Time has come: a beat, or an election.
    pub fn tick(&mut self, now: u64, wait: u64) {
        if self.is_leader() {
            if now >= self.beat_at {
                self.beat_at = now + BEAT_MS;
                // One that hands over is silent: where that fails, the others elect.
                if !self.transferring {
                    self.send_appends(now);
                }
            }
            return;
        }
        if now < self.elect_at {
            return;
        }
        self.elect_at = now + ELECTION_MS_MAX + wait;
        if !self.members().voters.contains(&self.id) {
            return;
        }
        self.leader = None;
        self.role = Role::Probing(BTreeSet::from([self.id]));
        let last = self.last();
        for to in self.others() {
            self.send(to, Body::PreVote(last));
        }
        self.go_on_probing(now);
    }

    fn others(&self) -> Vec<u64> {
        let members = self.members();
        let voters = members.voters.iter().copied();
        voters.filter(|id| *id != self.id).collect()
    }

    fn wins(&self, votes: &BTreeSet<u64>) -> bool {
        let members = self.members();
        votes.intersection(&members.voters).count() >= members.quorum()
    }

    /// Whether a leader was heard so lately that no other is wanted.
    fn is_led(&self, now: u64) -> bool {
        self.is_leader()
            || self
                .heard
                .is_some_and(|heard| now < heard + ELECTION_MS_MAX)
    }

    pub(super) fn asked_whether(&mut self, from: u64, term: u64, last: LogId, now: u64) {
        let granted = term >= self.term && !self.is_led(now) && last >= self.last();
        self.send(from, Body::PreVoted(granted));
    }

    pub(super) fn answered_whether(&mut self, from: u64, term: u64, granted: bool, now: u64) {
        if term > self.term {
            return self.follow(term, None);
        }
        if let Role::Probing(votes) = &mut self.role
            && granted
        {
            votes.insert(from);
            self.go_on_probing(now);
        }
    }

    fn go_on_probing(&mut self, now: u64) {
        if let Role::Probing(votes) = &self.role
            && self.wins(&votes.clone())
        {
            self.campaign(false, now);
        }
    }

    /// Asks for votes in the next term; `planned` where the leader itself wants it.
    pub(super) fn campaign(&mut self, planned: bool, now: u64) {
        if self.is_leader() || !self.members().voters.contains(&self.id) {
            return;
        }
        self.keep_vote(self.term + 1, Some(self.id));
        self.role = Role::Candidate(BTreeSet::from([self.id]));
        self.leader = None;
        let last = self.last();
        for to in self.others() {
            self.send_durable(to, Body::Vote(last, planned));
        }
        self.go_on_campaign(now);
    }

    pub(super) fn asked(&mut self, from: u64, of: (u64, bool), last: LogId, now: u64) {
        let (term, planned) = of;
        if term < self.term || (self.is_led(now) && !planned) {
            return self.send(from, Body::Voted(false));
        }
        if term > self.term {
            self.follow(term, None);
        }
        let free = self.voted.is_none_or(|voted| voted == from);
        let granted = free && last >= self.last();
        if granted {
            self.keep_vote(term, Some(from));
        }
        self.send_durable(from, Body::Voted(granted));
    }

    pub(super) fn answered(&mut self, from: u64, granted: bool, now: u64) {
        if let Role::Candidate(votes) = &mut self.role
            && granted
        {
            votes.insert(from);
            self.go_on_campaign(now);
        }
    }

    fn go_on_campaign(&mut self, now: u64) {
        if let Role::Candidate(votes) = &self.role
            && self.wins(&votes.clone())
        {
            self.lead(now);
        }
    }

    fn lead(&mut self, now: u64) {
        self.role = Role::Leader;
        self.leader = Some(self.id);
        self.transferring = false;
        self.beat_at = now + BEAT_MS;
        let next = self.last().index + 1;
        let members = self.members();
        self.progress = members
            .all()
            .filter(|id| *id != self.id)
            .map(|id| {
                let progress = Progress {
                    next,
                    matched: 0,
                    acked: None,
                    sending: None,
                };
                (id, progress)
            })
            .collect();
        self.append_own(Payload::Empty);
        self.send_appends(now);
    }
}
