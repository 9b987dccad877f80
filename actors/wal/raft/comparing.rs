//! The primary compares the states of all controllers from time to time. One that differs from most
//! stops, and is begun again from the others: a wrong state must neither answer nor lead.

use std::time::Duration;

use tokio::time::Instant;

use super::message::{PeerAnswer, PeerRequest};
use super::node::RaftNode;
use super::types::Groups;
use crate::digests::{Digest, Verdict, judge};
use crate::groups;
use crate::machine::Machine;
use crate::peers::{Lane, Member};
use crate::rejoining;

/// How long a state may take to be hashed, and a standby to answer.
///
/// Source: derived; a million jobs take about a second, a busy machine ten times that.
const DIGEST_WITHIN: Duration = Duration::from_secs(30);
/// Pause before a standby that has no hash yet is asked again. Source: chosen.
const PAUSE: Duration = Duration::from_millis(500);
/// How long one question may take. Source: chosen.
const ASK_WITHIN: Duration = Duration::from_secs(2);
/// Share of the time that may go into hashing. Source: chosen; one part of so many.
const SHARE: u32 = 100;

impl<M: Machine> RaftNode<M> {
    /// Compares for as long as this node runs; does nothing while another one leads.
    pub(crate) async fn compare(self, every: Duration) {
        let (mut pause, mut compared) = (every, 0);
        loop {
            tokio::time::sleep(pause).await;
            let last = self
                .shared
                .last_lsn
                .load(std::sync::atomic::Ordering::Relaxed);
            let leads = self.shared.role.borrow().primary_term().is_some();
            // The mark itself is no reason for another one.
            if !leads || last <= compared + 1 || self.members().len() < 2 {
                continue;
            }
            let begun = Instant::now();
            if let Some(lsn) = self.compare_once().await {
                compared = lsn;
            }
            pause = every.max(begun.elapsed() * SHARE);
        }
    }

    /// The position that was compared, if all went well.
    async fn compare_once(&self) -> Option<u64> {
        let mut newest = self.digests.newest();
        let before = *newest.borrow_and_update();
        let mark = Groups {
            bytes: groups::mark(),
            ticket: 0,
        };
        self.propose(mark).await.ok()?.await.ok()?;
        let hashed = newest.wait_for(|lsn| *lsn > before);
        let hashed = tokio::time::timeout(DIGEST_WITHIN, hashed).await;
        let lsn = *hashed.ok()?.ok()?;
        let mut digests = vec![(self.node_id, self.digests.at(lsn)?)];
        let members = self.members().into_iter().map(|state| state.member);
        for member in members.filter(|member| member.node != self.node_id) {
            if let Some(digest) = self.digest_of(&member, lsn).await {
                digests.push((member.node, digest));
            }
        }
        self.carry_out_verdict(lsn, judge(&digests)).await;
        Some(lsn)
    }

    /// The hash of another one; none when it has none, because it was down or got a snapshot.
    async fn digest_of(&self, member: &Member, lsn: u64) -> Option<Digest> {
        let request = PeerRequest::Digest(lsn).encode();
        let deadline = Instant::now() + DIGEST_WITHIN;
        while Instant::now() < deadline {
            let called =
                self.peers
                    .call(member.clone(), Lane::Control, request.clone(), ASK_WITHIN);
            match PeerAnswer::decode(&called.await.ok()?).ok()? {
                PeerAnswer::Digest(Some(digest)) => return Some(digest),
                PeerAnswer::Digest(None) => tokio::time::sleep(PAUSE).await,
                _other => return None,
            }
        }
        None
    }

    async fn carry_out_verdict(&self, lsn: u64, verdict: Verdict) {
        let wrong = match verdict {
            Verdict::Equal => return,
            Verdict::Odd(nodes) | Verdict::Split(nodes) => nodes,
        };
        tracing::error!(lsn, nodes = ?wrong, "the states of controllers differ");
        if wrong.contains(&self.node_id) {
            return self.stop_as_wrong(lsn);
        }
        let members = self.members().into_iter().map(|state| state.member);
        for member in members.filter(|member| wrong.contains(&member.node)) {
            let request = PeerRequest::Differs(lsn).encode();
            let told = self.peers.call(member, Lane::Control, request, ASK_WITHIN);
            // One that is not reached is compared again.
            drop(told.await);
        }
    }

    /// Ends this node, whose state is not what the others have, and lets it begin again.
    pub(crate) fn stop_as_wrong(&self, lsn: u64) {
        let text = format!(
            "the state of this controller at position {lsn} differs from that of the others"
        );
        if let Err(error) = rejoining::mark(&self.root, &text) {
            tracing::error!(%error, "cannot note that this state is wrong");
        }
        (self.fatal)(format!(
            "{text}. Start it again: it then gets all of its state from them; what it has is kept for \
             an examination"
        ));
    }
}
