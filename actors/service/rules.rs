//! Decisions about a service. Everything that keeps it healthy is decided here, from committed
//! state alone.
//!
//! A decision takes in what happened (failures, readiness, progress), then takes at most one step
//! with jobs. The shell commits it and asks again; when nothing comes out, the service waits for
//! the next committed fact or for the one timer. Never reads a clock.

mod budget;
mod census;
mod command;
mod delete;
mod draft;
mod fence;
mod moving;
mod replace;
mod rollout;
mod room;
mod settle;
mod share;
mod slow_start;
mod validate;
mod victims;

pub use budget::{Turns, most_restarts, waits_for_turn};
pub use census::{Census, Counts, Group, Replica, Standing};
pub use command::{Author, Base, Command, Which};
pub use fence::{Fence, resolve};
pub use moving::Hold;
pub use replace::{is_failure, is_news};
pub use rollout::{Blocker, measure};
pub use room::{RoomNeeded, cannot_move, room_needed};
pub use share::{Size, shares};
pub use validate::check_spec;

pub(crate) use rollout::{blocker, draining};

use xce_host::{HostLife, HostRecord};
use xce_model::decision::Decision;
use xce_model::{ClusterTime, Refusal, WallTime};
use xce_replica::JobFact;

use crate::facts::ServiceFact;
use crate::roster::Replicas;
use crate::state::ServiceRecord;

use draft::Draft;

/// Everything that a decision about a service may depend on, as committed.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The service.
    pub service: &'a ServiceRecord,
    /// Every job of the service that is still in the ledger, ended ones too.
    pub replicas: Replicas<'a>,
    /// Where a host is in its life; none for one that was removed.
    pub life: &'a dyn Fn(&str) -> Option<HostLife>,
    /// The drain of a host, where it is drained.
    pub draining: &'a dyn Fn(&str) -> Option<Draining>,
    /// Cluster time.
    pub now: ClusterTime,
    /// The controller's wall clock, for display in facts.
    pub wall: WallTime,
}

/// The drain of a host, as far as its replicas are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draining {
    /// From then on replicas stop without waiting for their replacement, as far as the service may
    /// miss them; never when absent.
    pub until: Option<ClusterTime>,
}

impl Draining {
    /// That of a host.
    pub fn of(host: &HostRecord) -> Option<Self> {
        let until = host.drain.as_ref()?.until;
        Some(Self { until })
    }
}

/// What a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A fact of the service, its replicas or their hosts was committed.
    Changed,
    /// The timer that an earlier decision asked for ran out.
    Timer,
    /// Somebody wants something.
    Command(Box<Command>, Author),
}

/// A fact that a service decides: of itself or of its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Of the service.
    Service(ServiceFact),
    /// Of a replica.
    Job(JobFact),
}

/// What is to be done after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Decide again at this time, with [`Event::Timer`]; replaces an earlier wake.
    WakeAt(ClusterTime),
}

/// Answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nobody asked.
    Nothing,
    /// It is already so; nothing is written on account of the command.
    NoChange {
        /// A sentence for people.
        text: String,
    },
    /// It is done or under way.
    Accepted {
        /// A sentence for people.
        text: String,
    },
}

/// A decision about a service.
pub type ServiceDecision = Decision<Change, Effect, Answer>;

/// Decides what an event means for a service.
///
/// # Errors
/// A refusal of a command, with a code and what is allowed; never for other events.
pub fn decide(situation: &Situation<'_>, event: Event) -> Result<ServiceDecision, Refusal> {
    let mut draft = Draft::new(situation);
    let answer = match event {
        Event::Changed | Event::Timer => Answer::Nothing,
        Event::Command(command, author) => command::decide(&mut draft, *command, &author)?,
    };
    if !draft.has_job_step() {
        advance(&mut draft);
    }
    Ok(draft.into_decision(answer))
}

/// Takes in what happened and takes the next step, if one is possible.
fn advance(draft: &mut Draft<'_>) {
    let census = draft.census();
    if draft.record().is_deleting() {
        delete::step(draft, &census);
        return;
    }
    replace::account(draft, &census);
    slow_start::observe(draft, &census);
    replace::observe(draft, &census);
    if rollout::observe(draft, &census) {
        // A rollback made another version: its replicas are counted anew, in the next decision.
        draft.wake_at(draft.situation().now);
        return;
    }
    settle::settle(draft, &census);
    if !draft.has_job_step() {
        moving::step(draft, &census);
    }
    if !draft.has_job_step() {
        rollout::step(draft, &census);
    }
    if !draft.has_job_step() {
        budget::step(draft, &census);
    }
}
