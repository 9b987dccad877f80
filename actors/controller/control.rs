//! What every shell of the controller shares: the ledger to read, the WAL to persist, the families
//! of actors to find each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use xce_deciding::{Decided, Times, schedule};
use xce_ledger::{
    Anchor, Answer, Group, GroupEvent, Here, Ledger, Operation, Outcome, Reader, View,
};
use xce_model::{ClusterTime, Lsn, Refusal, RefusalKind, WallTime};
use xce_placement::Placement;
use xce_runtime::{Address, Node, Shards};
use xce_wal::{PersistError, Receipt, Wal};

use crate::barrier::Barrier;
use crate::connections::Connections;
use crate::endpoints::Readers;
use crate::losing::Doubts;
use crate::members_known::Known;
use crate::refusals::Refusals;
use crate::scheduler::{self, Scheduling};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::views::Seer;

/// Shared by all shells of one controller.
pub struct Control {
    /// Settings.
    pub settings: Settings,
    /// The actors' node.
    pub node: Arc<Node>,
    /// Persists.
    pub wal: Wal<Ledger>,
    /// Reads what is committed.
    pub reader: Reader,
    /// Cluster time at a moment of this machine's clock.
    pub anchor: Anchor,
    /// The term of this reign. What is sent to workers carries it, not the term that the log has
    /// heard of meanwhile: then the reign is over, and what it still says is old.
    pub term: u64,
    /// Position of the last published change.
    pub published: watch::Receiver<Lsn>,
    /// Services.
    pub services: Shards,
    /// Jobs.
    pub jobs: Shards,
    /// Hosts.
    pub hosts: Shards,
    /// Sessions.
    pub session_family: Shards,
    /// Live connections of workers.
    pub connections: Connections,
    /// The doubt in the own network, when most hosts are silent.
    pub doubts: Doubts,
    /// Sessions that are known.
    pub sessions: Sessions,
    /// Actors of the endpoints that somebody reads.
    pub endpoints: Shards,
    /// Who reads endpoints.
    pub readers: Readers,
    /// What the other controllers said of themselves.
    pub known: Known,
    /// When this certificate ends, in seconds of Unix time.
    pub certificate_ends_s: i64,
    /// The journal of refusals.
    pub refusals: Arc<Refusals>,
    /// Where the scheduler is told to look.
    pub scheduler: OnceLock<Address<scheduler::Message>>,
    /// Whether the scheduler has been told and has not looked yet.
    pub scheduler_told: AtomicBool,
    /// Waits for the log, once for many.
    pub barrier: Barrier,
    /// What is known of the scheduler outside of its actor.
    pub scheduling: Scheduling,
}

/// Why a group was not committed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A precondition did not hold: decide again.
    #[error("{0}")]
    Stale(String),
    /// Certainly not written.
    #[error(transparent)]
    Refused(Refusal),
    /// Nobody knows: the actor must end and read the committed state.
    #[error("the outcome of a write is unknown")]
    Unknown,
}

/// A committed group's answer, with the WAL's receipt.
#[derive(Debug)]
pub struct Committed {
    /// What it created, and where.
    pub answer: Answer,
    /// The proof that releases effects and reply.
    pub receipt: Receipt<Outcome>,
}

impl Control {
    /// The committed state now.
    pub fn view(&self) -> Arc<View> {
        self.reader.view()
    }

    /// Cluster time now.
    pub fn now(&self) -> ClusterTime {
        let elapsed = self.monotonic_ms().saturating_sub(self.anchor.boot_ms);
        ClusterTime(self.anchor.at.0 + elapsed)
    }

    /// Cluster time and wall clock now.
    pub fn times(&self) -> (ClusterTime, WallTime) {
        (self.now(), self.wall())
    }

    /// This machine's monotonic clock, in milliseconds.
    pub fn monotonic_ms(&self) -> u64 {
        self.node.clock().monotonic_ms()
    }

    /// When the monotonic clock will show a cluster time.
    pub fn monotonic_of(&self, at: ClusterTime) -> u64 {
        self.anchor.boot_ms + at.0.saturating_sub(self.anchor.at.0)
    }

    /// The wall clock, for display.
    pub fn wall(&self) -> WallTime {
        wall_of(&self.node)
    }

    /// An empty group made now.
    pub fn group(&self, cause: &str) -> Group {
        Group::new(self.now(), self.wall(), cause)
    }

    /// Persists a group; it is durable, applied and published when this returns `Ok`.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn commit(&self, group: &Group) -> Result<Committed, CommitError> {
        self.commit_at(group, self.view().level()).await
    }

    /// The same in the form of a feature level.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn commit_at(&self, group: &Group, level: u16) -> Result<Committed, CommitError> {
        let bytes = group.encode_at(level).map_err(|error| {
            CommitError::Refused(Refusal::refused("feature_level", error.to_string()))
        })?;
        let receipt = self.wal.persist(bytes).await.map_err(persist_error)?;
        match receipt.outcome() {
            Outcome::Applied(answer) | Outcome::Repeated(answer) => Ok(Committed {
                answer: answer.clone(),
                receipt,
            }),
            Outcome::Refused(unmet) => Err(CommitError::Stale(unmet.text.clone())),
            Outcome::Expired => Err(CommitError::Refused(self.expired(group.operation))),
        }
    }

    /// What is said of an operation that is older than what is remembered.
    fn expired(&self, operation: Option<Operation>) -> Refusal {
        let made_at = operation.map_or(0, |operation| operation.made_at);
        let view = self.view();
        let text = match view.epochs().last().filter(|epoch| made_at < epoch.at) {
            Some(epoch) => format!(
                "the operation was made at position {made_at}, before the cluster began anew at {} \
                 (epoch {}): what became of it is lost; it was not carried out now. Look, and ask \
                 anew",
                epoch.at, epoch.number
            ),
            None => "the operation is older than what is remembered of its kind; it was not \
                     carried out"
                .to_owned(),
        };
        Refusal::refused("operation_expired", text)
    }

    /// Persists what was decided on an event on behalf of XCE itself, at the times of the decision.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn commit_decided(
        &self,
        cause: &str,
        on: (Lsn, GroupEvent),
        times: Times,
        decided: Decided,
    ) -> Result<Committed, CommitError> {
        let group = Group::new(times.0, times.1, cause).decided_on(on.0, on.1);
        self.commit(&decided.into_group(group)).await
    }

    /// Commits one placement of a plan under its own precondition.
    ///
    /// # Errors
    /// See [`CommitError`]; a stale one is planned again.
    pub async fn place(
        &self,
        placement: Placement,
        event: GroupEvent,
        times: Times,
    ) -> Result<(), CommitError> {
        let decided = schedule::placement(&placement);
        self.commit_decided("place", (placement.made_at, event), times, decided)
            .await
            .map(drop)
    }

    /// Puts together what users see of a state.
    pub fn seer<'a>(&self, view: &'a View) -> Seer<'a> {
        let silence = self.scheduling.silence();
        let silence = silence.map(|silence| silence.text(self.monotonic_ms()));
        Seer::new(view, self.times()).with_silence(silence)
    }

    /// Waits until everything proposed before has been applied; many may wait at once.
    ///
    /// # Errors
    /// See [`Wal::barrier`].
    pub async fn settled(&self) -> Result<(), PersistError> {
        self.barrier.pass(&self.wal).await
    }

    /// Whether no other controller can be the primary at this moment: answers and effects that need
    /// no commit ask this first.
    pub fn holds_lease(&self) -> bool {
        self.wal.holds_lease()
    }

    /// Tells the scheduler to look; many tellings before it looks are one.
    pub fn tell_scheduler(&self) {
        if self.scheduler_told.swap(true, Ordering::AcqRel) {
            return;
        }
        let delivered = self
            .scheduler
            .get()
            .is_some_and(|address| address.cast(scheduler::Message::Look).is_ok());
        if !delivered {
            // It is down: when it starts again it looks by itself.
            self.scheduler_told.store(false, Ordering::Release);
        }
    }
}

/// The wall clock of a node.
pub fn wall_of(node: &Node) -> WallTime {
    WallTime(i64::try_from(node.clock().wall_ms()).unwrap_or(i64::MAX))
}

/// What the clocks of this machine say now.
pub fn here(node: &Node, boot_id: &str) -> Here {
    Here {
        boot_id: boot_id.to_owned(),
        boot_ms: node.clock().monotonic_ms(),
        wall: wall_of(node),
    }
}

/// The refusal that a persist error means for whoever asked.
pub fn persist_error(error: PersistError) -> CommitError {
    match error {
        PersistError::Unknown => CommitError::Unknown,
        PersistError::TooLarge { .. } => {
            CommitError::Refused(Refusal::refused(error.code(), error.to_string()))
        }
        PersistError::Overloaded
        | PersistError::NotPrimary { .. }
        | PersistError::DiskFull
        | PersistError::Stopped => CommitError::Refused(Refusal::new(
            RefusalKind::Unavailable,
            error.code(),
            error.to_string(),
        )),
    }
}

/// What a client is told of an outcome that nobody knows.
pub fn outcome_unknown() -> Refusal {
    Refusal::new(
        RefusalKind::OutcomeUnknown,
        "outcome_unknown",
        "nobody knows whether it was carried out; the same operation again is safe",
    )
}

/// An operation as committed with a group.
pub fn operation(id: Option<xce_model::OperationId>, made_at: Lsn) -> Option<Operation> {
    id.map(|id| Operation { id, made_at })
}
