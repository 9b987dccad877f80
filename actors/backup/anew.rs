//! A new epoch: what is committed first when a cluster begins anew. Pure.

use xce_ledger::level::{LEVEL_MAX, LEVEL_MIN};
use xce_ledger::{Anew, Epoch, Group, Ledger, MemberFact, Outcome, View};
use xce_model::WallTime;
use xce_wal::Position;

/// How far ahead of a state of the past the numbers of a new epoch begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Positions of the log.
    pub lsn: u64,
    /// Numbers of jobs and arrays.
    pub jobs: u64,
    /// Numbers of services.
    pub services: u64,
    /// Numbers of sessions.
    pub sessions: u64,
    /// Numbers of controllers.
    pub controllers: u64,
    /// Terms.
    pub terms: u64,
}

/// Source: chosen; above what this log commits on the fastest disk measured, on average.
const LSN_A_SECOND: u64 = 20_000;
/// Source: chosen; above what the busiest sites submit on average, arrays counting as one.
const JOBS_A_SECOND: u64 = 1_000;
/// Source: chosen; a script that creates services one after the other.
const SERVICES_A_SECOND: u64 = 10;
/// Source: chosen; a herd of 5 000 hosts that comes back every few seconds.
const SESSIONS_A_SECOND: u64 = 1_000;
/// Counted in addition to what the clocks say, in seconds: they may be wrong.
/// Source: chosen.
const MARGIN_S: u64 = 3_600;
/// Source: chosen; five controllers that are replaced every day for weeks.
const CONTROLLERS: u64 = 100;
/// Source: derived; an election every 150 ms for 43 hours.
const TERMS: u64 = 1 << 20;

impl Skip {
    /// Enough for the time between the last commit that is known and now, by wall clocks; a clock
    /// that stands before it counts as no time.
    pub fn since(last: WallTime, now: WallTime) -> Self {
        let lost_ms = u64::try_from(now.0.saturating_sub(last.0)).unwrap_or(0);
        let seconds = (lost_ms / 1_000).saturating_add(MARGIN_S);
        Self {
            lsn: seconds.saturating_mul(LSN_A_SECOND),
            jobs: seconds.saturating_mul(JOBS_A_SECOND),
            services: seconds.saturating_mul(SERVICES_A_SECOND),
            sessions: seconds.saturating_mul(SESSIONS_A_SECOND),
            controllers: CONTROLLERS,
            terms: TERMS,
        }
    }
}

/// The next number after `last + skip` that people recognise as a beginning.
fn ahead(last: u64, skip: u64, round: u64) -> u64 {
    last.saturating_add(skip)
        .checked_next_multiple_of(round)
        .unwrap_or(u64::MAX / 2)
}

/// Where a state goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The new epoch.
    pub epoch: Epoch,
    /// Term of its first position.
    pub term: u64,
}

/// Begins a new epoch of a ledger: applies the first group of it. A restored cluster is given a
/// founder with a new number, since the one before may still be there.
///
/// # Panics
/// Never: a group without preconditions applies.
pub fn begin(
    ledger: &mut Ledger,
    anew: Anew,
    own: Option<u64>,
    seen: (u64, u64),
    skip: Skip,
    by: (&str, WallTime),
) -> Begun {
    let (term, last) = seen;
    let view = ledger.view();
    let epoch = epoch(view, anew, own, last, skip, by);
    let term = term.saturating_add(skip.terms);
    let at = Position {
        term,
        lsn: epoch.at,
        sub: 0,
    };
    let mut group = Group::new(view.clock().last, by.1, anew.word());
    by.0.clone_into(&mut group.principal);
    // It has one controller, which is this program.
    if view.level().max(LEVEL_MIN) < LEVEL_MAX {
        group = group.with(MemberFact::LevelRaised { level: LEVEL_MAX });
    }
    let group = group.with(MemberFact::BeganAnew {
        epoch: epoch.clone(),
    });
    let outcome = ledger.commit(at, &group);
    assert!(
        matches!(outcome, Outcome::Applied(_)),
        "a group without preconditions applies"
    );
    ledger.publish(at.lsn, at.term);
    Begun { epoch, term }
}

fn epoch(
    view: &View,
    anew: Anew,
    own: Option<u64>,
    last: u64,
    skip: Skip,
    by: (&str, WallTime),
) -> Epoch {
    let numbers = view.last_numbers();
    let controllers = ahead(view.last_controller(), skip.controllers, 100);
    Epoch {
        number: view.epoch() + 1,
        anew,
        founder: own.unwrap_or(controllers + 1),
        from: last,
        at: ahead(last, skip.lsn, 1_000_000),
        wall: by.1,
        by: by.0.to_owned(),
        jobs: (numbers.jobs, ahead(numbers.jobs, skip.jobs, 100_000)),
        services: (
            numbers.services,
            ahead(numbers.services, skip.services, 1_000),
        ),
        sessions: (
            numbers.sessions,
            ahead(numbers.sessions, skip.sessions, 100_000),
        ),
        controllers: (view.last_controller(), controllers),
    }
}
