//! Decisions about one host: joining, silence, return.

mod blame;
pub mod lease;
mod mass;

pub use blame::{
    Failed, Services, TRIAL_AFTER, TRIAL_RUNS, Tried, decide_launch_failed, decide_replica_failed,
    decide_trial, next_trial,
};

pub use mass::{
    Around, Doubt, LOSSES_PERCENT, MASS_LOSS_LEAST, MASS_LOSS_PERCENT, MassLoss, Verdict,
};

use xce_model::{ClusterTime, Incarnation, JobId, Millis, Refusal, Run};

use crate::facts::{HostFact, Inventory, Remnant};
use crate::state::{HostLife, HostRecord};

/// Missed beats that make a host suspect. Source: design section 8.1.
pub const BEATS_MISSED_MAX: u64 = 3;

/// How the silence of a host is judged.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Patience {
    /// Time between beats. Default 2 s.
    pub beat: Millis,
    /// Silence after which a host is lost. Default 20 s.
    pub grace: Millis,
    /// How long a host may be away before it counts as lost. Default 10 min.
    pub away_max: Millis,
}

/// What an operator may want of a host.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Take no new jobs, for this reason.
    Close(String),
    /// Take new jobs again.
    Reopen,
    /// Forget it.
    Remove,
    /// The machine is known to be off: recover its jobs at once.
    ConfirmDead,
    /// Let what runs there leave it, for this reason; batch jobs and replicas have this long.
    Drain(Option<Millis>, String),
    /// Drain it no longer.
    Undrain,
    /// Stop a run that is in quarantine.
    StopQuarantined(JobId, Run),
}

/// Code of the refusal of a worker whose name another one has.
pub const NAME_IN_USE: &str = "name_in_use";

/// How long a host may be away. Source: design section 8.1.
pub const AWAY_MAX: Millis = Millis::seconds(600);

/// What a worker that joins says of its runs, compared with what is known of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// Runs that it has, that are not counted any more and that were not known of.
    pub stale: Vec<Remnant>,
    /// Runs that were known to be such and that it does not have.
    pub gone: Vec<(JobId, Run)>,
}

/// Compares the runs of a worker that are not counted any more, by job and run, with what is known.
pub fn leftovers(known: Option<&HostRecord>, inventory: &Inventory, runs: &[Remnant]) -> Leftovers {
    let known = known.filter(|known| known.inventory.boot_id == inventory.boot_id);
    let same = known.filter(|known| known.inventory.incarnation == inventory.incarnation);
    let has = |job: JobId, run: Run| runs.iter().any(|one| (one.job, one.run) == (job, run));
    let is_known =
        |one: &&Remnant| known.is_none_or(|known| known.remnant(one.job, one.run).is_none());
    Leftovers {
        stale: runs.iter().filter(is_known).cloned().collect(),
        gone: same
            .into_iter()
            .flat_map(|known| &known.remnants)
            .map(|one| (one.job, one.run))
            .filter(|(job, run)| !has(*job, *run))
            .collect(),
    }
}

/// Decides whether a worker may join under its name.
///
/// # Errors
/// `name_in_use` where another incarnation with that name answers, or did so just now; `bad_name`;
/// `bad_inventory`.
pub fn decide_join(
    known: Option<&HostRecord>,
    connected: Option<Incarnation>,
    inventory: &Inventory,
    leftovers: Leftovers,
) -> Result<HostFact, Refusal> {
    xce_model::limits::check_name("host", &inventory.name)?;
    if inventory.cpus.0 == 0 || inventory.port_first > inventory.port_last {
        let text = format!(
            "host `{}` offers no processors, or a port range {}-{} that is empty",
            inventory.name, inventory.port_first, inventory.port_last
        );
        return Err(Refusal::refused("bad_inventory", text));
    }
    if let Some(known) = known
        && known.inventory.incarnation != inventory.incarnation
        && answers(known, connected)
    {
        let (other, address) = (known.inventory.incarnation, &known.inventory.address);
        let text = format!(
            "host name `{}` is in use: a worker with incarnation {other} at {address} answers \
             under it; give this worker another name, or stop that one: it takes the name over \
             when that one has missed its beats",
            inventory.name
        );
        return Err(Refusal::refused(NAME_IN_USE, text));
    }
    Ok(HostFact::Joined {
        inventory: inventory.clone(),
        stale: leftovers.stale,
        gone: leftovers.gone,
    })
}

/// Whether the worker that has the name is there: connected, or heard within a few beats. A new
/// primary holds all hosts for up that were so, until they had the time to come.
fn answers(known: &HostRecord, connected: Option<Incarnation>) -> bool {
    match known.life {
        HostLife::Up => true,
        HostLife::Suspect => connected == Some(known.inventory.incarnation),
        HostLife::Lost | HostLife::Away => false,
    }
}

/// Decides what `silent`, the time since the last exchange, means.
///
/// A host that is away has the time for it from its goodbye on, whoever is the primary, and at least
/// the grace since it was last heard or could have been.
pub fn decide_silence(
    host: &HostRecord,
    silent: Millis,
    patience: Patience,
    now: ClusterTime,
) -> Option<HostFact> {
    let name = host.inventory.name.clone();
    let away = now.since(host.since);
    match host.life {
        HostLife::Away if away >= patience.away_max && silent >= patience.grace => {
            Some(HostFact::Lost { host: name })
        }
        HostLife::Up | HostLife::Suspect if silent >= patience.grace => {
            Some(HostFact::Lost { host: name })
        }
        HostLife::Up if silent.0 >= patience.beat.0 * BEATS_MISSED_MAX => {
            Some(HostFact::Suspected { host: name })
        }
        HostLife::Up | HostLife::Suspect | HostLife::Lost | HostLife::Away => None,
    }
}

/// How long until the silence of a host has to be judged again; none where it does not matter.
pub fn next_judgement(
    host: &HostRecord,
    silent: Millis,
    patience: Patience,
    now: ClusterTime,
) -> Option<Millis> {
    let left = |until: u64, past: Millis| until.saturating_sub(past.0);
    let wait = match host.life {
        HostLife::Up => left(
            patience.grace.0.min(patience.beat.0 * BEATS_MISSED_MAX),
            silent,
        ),
        HostLife::Suspect => left(patience.grace.0, silent),
        HostLife::Away => {
            let away = now.since(host.since);
            left(patience.away_max.0, away).max(left(patience.grace.0, silent))
        }
        HostLife::Lost => return None,
    };
    Some(Millis(wait.max(1)))
}

/// Why a host is closed while its disk is full; it opens by itself when there is space.
pub const DISK_FULL: &str = "the disk of its state directory is full, so that no run can be recorded \
                             there; it opens by itself when there is space";

/// Decides what a beat says of the disk: a full one closes the host until there is space. What an
/// operator closed is left as it is.
fn decide_disk(host: &HostRecord, disk_full: bool) -> Option<HostFact> {
    let name = host.inventory.name.clone();
    let closed = host.closed.as_ref();
    let by_disk = closed.is_some_and(|closure| closure.reason == DISK_FULL);
    let by_operator = closed.is_some_and(|closure| !closure.by.is_empty());
    match disk_full {
        true if !by_disk && !by_operator => Some(HostFact::Closed {
            host: name,
            reason: DISK_FULL.to_owned(),
            by: String::new(),
        }),
        false if by_disk => Some(HostFact::Opened {
            host: name,
            by: String::new(),
        }),
        true | false => None,
    }
}

/// Decides what a beat means: a suspect host has recovered, and its disk may be full or no longer
/// so.
pub fn decide_beat(host: &HostRecord, disk_full: bool) -> Option<HostFact> {
    let recovered = recovered(host);
    let counts = matches!(host.life, HostLife::Up | HostLife::Suspect);
    recovered.or_else(|| decide_disk(host, disk_full).filter(|_| counts))
}

fn recovered(host: &HostRecord) -> Option<HostFact> {
    match host.life {
        HostLife::Suspect => Some(HostFact::Recovered {
            host: host.inventory.name.clone(),
        }),
        HostLife::Up | HostLife::Lost | HostLife::Away => None,
    }
}
