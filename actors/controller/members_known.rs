//! What the primary knows of the other controllers' programs, and the feature level that follows.
//!
//! The primary asks every member what it is. When all of them support a higher level than the
//! cluster has, the level is raised by a committed fact; it never falls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use xce_ledger::MemberFact;
use xce_session::peer_wire::PeerAbout;

use crate::control::Control;
use crate::peers::LinkPeers;

/// How long a controller may take to say what it is. Source: chosen; below two elections.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Pause between two rounds while something is not known yet or the level can rise.
/// Source: chosen; an upgraded controller is noticed at once for people.
const PAUSE_SHORT: Duration = Duration::from_millis(500);
/// Pause between two rounds otherwise. Source: chosen; a certificate is looked at often enough.
const PAUSE_LONG: Duration = Duration::from_secs(5);

/// What controllers said of themselves, by number. One that speaks too old a protocol to say it is
/// known as such.
#[derive(Debug, Default)]
pub struct Known(Mutex<BTreeMap<u64, PeerAbout>>);

impl Known {
    /// What one said of itself.
    pub fn of(&self, node: u64) -> Option<PeerAbout> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&node).cloned()
    }

    fn note(&self, node: u64, about: PeerAbout) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(node, about);
    }
}

/// The level that a cluster can have: the lowest of its members, where all are known.
pub fn common_level(levels: impl IntoIterator<Item = Option<u16>>) -> Option<u16> {
    let mut common = None;
    for level in levels {
        let level = level?;
        common = Some(common.map_or(level, |least: u16| least.min(level)));
    }
    common
}

/// Asks again and again, and raises the level when it can be; ends with the reign that it is a task
/// of.
pub async fn follow(control: Arc<Control>, peers: Arc<LinkPeers>) {
    loop {
        let is_settled = round(&control, &peers).await;
        let pause = if is_settled { PAUSE_LONG } else { PAUSE_SHORT };
        tokio::time::sleep(pause).await;
    }
}

/// One round; whether nothing is to be expected of the next one.
async fn round(control: &Control, peers: &LinkPeers) -> bool {
    let own = control.settings.node;
    let members = control.wal.members();
    let others = members.iter().filter(|state| state.member.node != own);
    let asked = others.map(|state| async move {
        let node = state.member.node;
        let epoch = control.view().epoch();
        match peers.about(&state.member, epoch, ANSWER_WITHIN).await {
            Ok(about) => {
                control.known.note(node, about);
                true
            }
            Err(error) => {
                tracing::debug!(node, %error, "a controller did not say what it is");
                false
            }
        }
    });
    let all_answered = join_all(asked).await.into_iter().all(|answered| answered);
    let levels = members.iter().map(|state| match state.member.node {
        node if node == own => Some(control.settings.level_max),
        node => control.known.of(node).map(|about| about.level),
    });
    // Who is not heard now may be upgraded, or taken back to an earlier version, at this moment.
    let Some(common) = common_level(levels).filter(|_| all_answered) else {
        return false;
    };
    if common > control.view().level() {
        raise(control, common).await;
        return false;
    }
    true
}

async fn raise(control: &Control, level: u16) {
    let group = control
        .group("feature level")
        .with(MemberFact::LevelRaised { level });
    match control.commit_at(&group, level).await {
        Ok(_) => tracing::info!(
            level,
            "the feature level is raised: all controllers support it"
        ),
        Err(error) => tracing::warn!(level, %error, "the feature level is not raised now"),
    }
}

#[cfg(test)]
mod tests {
    use super::common_level;

    #[test]
    fn the_level_is_that_of_the_lowest_member_and_waits_for_all() {
        for (levels, expected) in [
            (vec![Some(2)], Some(2)),
            (vec![Some(2), Some(1), Some(3)], Some(1)),
            (vec![Some(3), None], None),
            (vec![], None),
        ] {
            assert_eq!(common_level(levels.clone()), expected, "{levels:?}");
        }
    }
}
