//! Decisions as the shells of the controller make them: from a view, to a group under conditions,
//! with the event and the position that they were made from.

use xce_deciding::{Decided, ServiceStep, Times};
use xce_ledger::{Group, GroupEvent, View};
use xce_model::{ClusterTime, Refusal, ServiceId, WallTime};
use xce_service::rules::{Answer, Draining, Effect, Event, Situation};

/// What a service decided.
pub enum Step {
    /// Nothing is to be written: when to look again, and the answer.
    Nothing(Option<ClusterTime>, String),
    /// A group, and the answer for when it is committed.
    Group(Box<Group>, String),
}

/// Looks at a service as rules see it.
pub fn with_situation<T>(
    view: &View,
    id: ServiceId,
    now: u64,
    look: impl FnOnce(&Situation<'_>) -> T,
) -> Option<T> {
    let service = view.service(id)?;
    let life = |host: &str| view.host(host).map(|host| host.life);
    let draining = |host: &str| view.host(host).and_then(|host| Draining::of(host));
    Some(look(&Situation {
        service,
        replicas: view.replicas_of(id),
        life: &life,
        draining: &draining,
        now: ClusterTime(now),
        wall: wall(now),
    }))
}

/// Decides as the actor of a service does.
pub fn service(
    view: &View,
    id: ServiceId,
    times: Times,
    event: Event,
    cause: &str,
) -> Result<Step, Refusal> {
    let recorded = xce_deciding::event_of(id, &event);
    match xce_deciding::service(view, id, event, times)? {
        ServiceStep::Nothing(effects, answer) => {
            let wake = effects.into_iter().map(|Effect::WakeAt(at)| at).min();
            let text = match answer {
                Answer::Nothing => String::new(),
                Answer::NoChange { text } | Answer::Accepted { text } => text,
            };
            Ok(Step::Nothing(wake, text))
        }
        // Only a receipt releases the answer; its words are enough here.
        ServiceStep::Decided(decided, pending) => {
            let group = group(cause, (view, times), recorded, decided);
            Ok(Step::Group(Box::new(group), format!("{pending:?}")))
        }
    }
}

/// A group as decided from a view, on an event.
pub fn group(cause: &str, from: (&View, Times), event: GroupEvent, decided: Decided) -> Group {
    let (view, (at, wall)) = from;
    let group = Group::new(at, wall, cause).decided_on(view.lsn(), event);
    decided.into_group(group)
}

pub fn times(now: u64) -> Times {
    (ClusterTime(now), wall(now))
}

pub fn wall(now: u64) -> WallTime {
    WallTime(i64::try_from(now).expect("a time of this century"))
}
