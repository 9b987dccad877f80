//! How supervisors treat their children: restart, limits, order and time of stopping.

use std::time::Duration;

use crate::backoff::Backoff;

/// When an ended child is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// However it ended.
    Always,
    /// Unless it ended in order; a kill is a failure.
    OnFailure,
    /// Never; it leaves the tree however it ended.
    Never,
}

/// What follows when a child has crashed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLimit {
    /// It is set aside, visibly; its siblings go on.
    Quarantine {
        /// When it is tried again without an operator; `None` means never.
        retry_after: Option<Duration>,
    },
    /// The supervisor itself fails, and with it all its children.
    Escalate,
}

/// How one child is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// When it is started again.
    pub restart: Restart,
    /// After which delay, and how often at most.
    pub backoff: Backoff,
    /// What follows beyond that.
    pub on_limit: OnLimit,
    /// How long an orderly end may take before the child is killed.
    pub stop_within: Duration,
    /// Messages that may wait; more are refused as overloaded.
    pub mailbox_max: u32,
}

/// Delays and limit of entities.
///
/// Source: design, section 3.3: the first restart at once, then 10 ms to 30 s; eight crashes in
/// 60 s.
const ENTITY_BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(10),
    longest: Duration::from_secs(30),
    crashes_max: 8,
    window: Duration::from_secs(60),
};

/// Delays and limit of supervisors: five crashes in 60 s.
///
/// Source: derived; limits multiply over levels, so upper ones are smaller than those of entities.
const SUPERVISOR_BACKOFF: Backoff = Backoff {
    crashes_max: 5,
    ..ENTITY_BACKOFF
};

/// When a quarantined entity is tried again by itself.
///
/// Source: derived; five windows, so that a lasting fault costs two starts a second for a thousand
/// quarantined entities at most.
const QUARANTINE: Duration = Duration::from_secs(300);

/// Messages that may wait for one entity.
///
/// Source: derived; at some 10 us a message the last one waits about 10 ms.
const MAILBOX_MAX: u32 = 1_024;

impl Policy {
    /// Services, jobs, hosts: restarted always, quarantined after eight crashes in 60 s.
    pub const ENTITY: Policy = Policy {
        restart: Restart::Always,
        backoff: ENTITY_BACKOFF,
        on_limit: OnLimit::Quarantine {
            retry_after: Some(QUARANTINE),
        },
        stop_within: Duration::from_secs(5),
        mailbox_max: MAILBOX_MAX,
    };

    /// Sessions: never restarted.
    pub const TEMPORARY: Policy = Policy {
        restart: Restart::Never,
        ..Policy::ENTITY
    };

    /// The WAL: three crashes in 60 s bring its supervisor down.
    ///
    /// Source: design, section 3.3. The mailbox holds a write of each of many entities.
    pub const WAL: Policy = Policy {
        backoff: Backoff {
            crashes_max: 3,
            ..ENTITY_BACKOFF
        },
        on_limit: OnLimit::Escalate,
        stop_within: Duration::from_secs(10),
        mailbox_max: 65_536,
        ..Policy::ENTITY
    };

    /// A supervisor below another.
    pub(crate) fn supervisor(limits: &Limits) -> Policy {
        Policy {
            backoff: limits.restart,
            on_limit: OnLimit::Escalate,
            stop_within: limits.shutdown_within + SHUTDOWN_MARGIN,
            ..Policy::ENTITY
        }
    }
}

/// How much longer than its own bound a supervisor may take to end.
///
/// Source: derived; killing 2 000 children and noticing it takes some 20 ms on an idle core, and
/// fifty times that on a loaded one.
pub(crate) const SHUTDOWN_MARGIN: Duration = Duration::from_secs(1);

/// In which order children are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOrder {
    /// All at once: for equals, such as the entities of a shard.
    Together,
    /// Each after the one that was started after it has ended.
    Reverse,
}

/// What follows when many children crash at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStorm {
    /// Further first restarts are no longer immediate but spread over this time, so that a common
    /// cause is not hammered.
    Spread(Duration),
    /// The supervisor itself fails.
    Escalate,
}

/// How one supervisor behaves towards all its children together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How it is itself started again by the supervisor above; beyond that limit the one above
    /// fails. The top one is never started again.
    pub restart: Backoff,
    /// Crashes of all children within the window before it is a storm.
    pub storm_max: usize,
    /// How far back crashes count.
    pub storm_window: Duration,
    /// What follows.
    pub on_storm: OnStorm,
    /// In which order children are stopped.
    pub stop_order: StopOrder,
    /// How long an orderly shutdown may take before the rest is killed.
    pub shutdown_within: Duration,
}

impl Limits {
    /// A shard of many equal entities: a storm is more than 100 crashes in 10 s.
    ///
    /// Source: derived; a hundred immediate restarts cost about a millisecond, so below that there
    /// is nothing to spread.
    pub const SHARD: Limits = Limits {
        restart: SUPERVISOR_BACKOFF,
        storm_max: 100,
        storm_window: Duration::from_secs(10),
        on_storm: OnStorm::Spread(Duration::from_secs(1)),
        stop_order: StopOrder::Together,
        shutdown_within: Duration::from_secs(8),
    };

    /// A supervisor of few, different children: stopped in reverse; a storm brings it down.
    ///
    /// Source: derived; its children have limits of at most eight crashes of their own, so twenty
    /// in 10 s is the sickness of several.
    pub const ROOT: Limits = Limits {
        restart: SUPERVISOR_BACKOFF,
        storm_max: 20,
        storm_window: Duration::from_secs(10),
        on_storm: OnStorm::Escalate,
        stop_order: StopOrder::Reverse,
        shutdown_within: Duration::from_secs(30),
    };
}
