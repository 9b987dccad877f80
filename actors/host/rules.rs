//! Decisions about one host: joining, silence, return.

mod blame;

pub use blame::{
    Failed, Services, TRIAL_AFTER, TRIAL_RUNS, Tried, decide_launch_failed, decide_replica_failed,
    decide_trial, next_trial,
};

use xce_model::{Incarnation, Millis, Refusal};

use crate::facts::{HostFact, Inventory};
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
}

/// How long a host may be away. Source: design section 8.1.
pub const AWAY_MAX: Millis = Millis::seconds(600);

/// Decides whether a worker may join under its name.
///
/// # Errors
/// `name_in_use` where another incarnation with that name answers; `bad_name`; `bad_inventory`.
pub fn decide_join(
    known: Option<&HostRecord>,
    connected: Option<Incarnation>,
    inventory: &Inventory,
) -> Result<HostFact, Refusal> {
    xce_model::limits::check_name("host", &inventory.name)?;
    if inventory.cpus.0 == 0 || inventory.port_first > inventory.port_last {
        let text = format!(
            "host `{}` offers no processors, or a port range {}-{} that is empty",
            inventory.name, inventory.port_first, inventory.port_last
        );
        return Err(Refusal::refused("bad_inventory", text));
    }
    let other = connected.filter(|incarnation| *incarnation != inventory.incarnation);
    if let (Some(other), Some(known)) = (other, known)
        && matches!(known.life, HostLife::Up | HostLife::Suspect)
    {
        let text = format!(
            "host name `{}` is in use: a worker with incarnation {other} at {} answers under it; \
             give this worker another name, or stop that one",
            inventory.name, known.inventory.address
        );
        return Err(Refusal::refused("name_in_use", text));
    }
    Ok(HostFact::Joined {
        inventory: inventory.clone(),
    })
}

/// Decides what `silent`, the time since the last exchange, means.
pub fn decide_silence(host: &HostRecord, silent: Millis, patience: Patience) -> Option<HostFact> {
    let name = host.inventory.name.clone();
    match host.life {
        HostLife::Away if silent >= patience.away_max => Some(HostFact::Lost { host: name }),
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
pub fn next_judgement(host: &HostRecord, silent: Millis, patience: Patience) -> Option<Millis> {
    let until = match host.life {
        HostLife::Up => patience.grace.0.min(patience.beat.0 * BEATS_MISSED_MAX),
        HostLife::Suspect => patience.grace.0,
        HostLife::Away => patience.away_max.0,
        HostLife::Lost => return None,
    };
    Some(Millis(until.saturating_sub(silent.0).max(1)))
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

/// Share of the hosts that may be lost at once before the controller doubts its own network, in
/// hundredths. Source: design section 8.1.
pub const MASS_LOSS_PERCENT: u32 = 50;
/// Least number of silent hosts that counts as a mass loss. Source: design section 8.1.
pub const MASS_LOSS_LEAST: u32 = 3;

/// Whether so many of the hosts are silent that the controller rather doubts its own network.
pub const fn is_mass_loss(silent: u32, answering: u32) -> bool {
    let all = silent + answering;
    silent >= MASS_LOSS_LEAST && silent * 100 > all * MASS_LOSS_PERCENT
}
