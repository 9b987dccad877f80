//! Makes a recorded decision again.

use std::collections::{BTreeMap, VecDeque};

use xce_deciding::{Author, Decided, ServiceStep, host, schedule};
use xce_ledger::{Group, GroupEvent, Precondition, View};
use xce_model::{ClusterTime, Lsn, OperationId, ServiceId};
use xce_placement::Placement;
use xce_service::rules::Event;

/// What comes out of an event now.
pub(crate) enum Again {
    /// A decision.
    Decided(Decided),
    /// None: it is refused, or nothing is to be done. Why, in words.
    Nothing(String),
    /// It cannot be made again from what was read of the log.
    OutOfReach,
}

/// Plans that are kept, since each of their placements is a group of its own.
/// Source: derived; as many hosts as may report while a scheduler's plan commits.
const PLANS_KEPT: usize = 64;

/// Which plan: position of the view, cluster time, and the host whose facts it was planned ahead of.
type PlanKey = (Lsn, ClusterTime, Option<String>);

/// Decides again; remembers what several groups share.
#[derive(Default)]
pub(crate) struct Decider {
    plans: VecDeque<(PlanKey, Vec<Placement>)>,
    /// The last facts of each worker, which plans were made ahead of.
    reports: BTreeMap<String, Group>,
}

impl Decider {
    /// Takes note of a group once it was compared.
    pub fn note(&mut self, group: Group) {
        if group.event.is_some() || group.decided == 0 {
            return;
        }
        let host = group.preconditions.iter().find_map(|condition| {
            if let Precondition::HostMark { host, .. } = condition {
                Some(host.clone())
            } else {
                None
            }
        });
        if let Some(host) = host {
            self.reports.insert(host, group);
        }
    }

    /// Makes the decision of a group again from the view that it was made from.
    pub fn decide(&mut self, view: &View, group: &Group, event: &GroupEvent) -> Again {
        let times = (group.at, group.wall);
        match event {
            GroupEvent::ServiceChanged(id) => service(view, *id, Event::Changed, group),
            GroupEvent::ServiceDue(id) => service(view, *id, Event::Timer, group),
            GroupEvent::ServiceCommand {
                service: id,
                command,
            } => {
                let author = Author {
                    user: group.principal.clone(),
                    operation: group
                        .operation
                        .map_or_else(OperationId::default, |operation| operation.id),
                };
                service(view, *id, Event::Command(command.clone(), author), group)
            }
            GroupEvent::JobCommand { job, command } => {
                of_result(xce_deciding::job(view, *job, *command, times))
            }
            GroupEvent::Planned { nth } => self.planned(view, group, *nth, None),
            GroupEvent::PlannedAhead { nth, host } => self.planned(view, group, *nth, Some(host)),
            GroupEvent::HostSilent {
                host,
                silent,
                patience,
            } => {
                let step = host::silence(view, host, *silent, **patience, times);
                of_option(step.map(|step| step.decided))
            }
            GroupEvent::HostBeat { host, disk_full } => {
                of_option(host::beat(view, host, *disk_full, times))
            }
            GroupEvent::HostLeft { host } => of_option(host::left(view, host)),
            GroupEvent::HostJoined(joining) => match host::join(view, joining, times) {
                Ok(step) => of_option(step.map(|step| step.decided)),
                Err(refusal) => Again::Nothing(refusal.to_string()),
            },
            GroupEvent::HostCommand { host, command } => {
                let decided = host::command(view, host, command, &group.principal, times);
                of_result(decided.map(|(step, _text)| step.decided))
            }
            GroupEvent::HostDrainDue { host } => {
                let step = xce_deciding::draining::due(view, host, times);
                of_option(step.map(|step| step.decided))
            }
            GroupEvent::CleanUp { keep } => {
                Again::Decided(xce_deciding::clean_up(view, *keep, group.at))
            }
        }
    }

    fn planned(&mut self, view: &View, group: &Group, nth: u32, ahead: Option<&String>) -> Again {
        let key: PlanKey = (group.decided, group.at, ahead.cloned());
        if !self.plans.iter().any(|(known, _)| *known == key) {
            let plan = match ahead {
                None => schedule::plan(view, group.at),
                Some(host) => {
                    let reports = self.reports.get(host).filter(|reports| {
                        (reports.decided, reports.at) == (group.decided, group.at)
                    });
                    let Some(reports) = reports else {
                        return Again::OutOfReach;
                    };
                    schedule::plan_ahead(view, reports, group.at)
                }
            };
            if self.plans.len() == PLANS_KEPT {
                self.plans.pop_front();
            }
            self.plans.push_back((key.clone(), plan));
        }
        let plan = self.plans.iter().find(|(known, _)| *known == key);
        let placement = plan.and_then(|(_, plan)| plan.get(usize::try_from(nth).ok()?));
        match placement {
            Some(placement) => Again::Decided(schedule::placement(placement)),
            None => Again::Nothing(format!("the plan has no placement {nth}")),
        }
    }
}

fn service(view: &View, id: ServiceId, event: Event, group: &Group) -> Again {
    match xce_deciding::service(view, id, event, (group.at, group.wall)) {
        Ok(ServiceStep::Decided(decided, _pending)) => Again::Decided(decided),
        Ok(ServiceStep::Nothing(_, answer)) => {
            Again::Nothing(format!("nothing is to be done ({answer:?})"))
        }
        Err(refusal) => Again::Nothing(refusal.to_string()),
    }
}

fn of_option(decided: Option<Decided>) -> Again {
    match decided {
        Some(decided) => Again::Decided(decided),
        None => Again::Nothing("nothing is to be done".to_owned()),
    }
}

fn of_result(decided: Result<Decided, xce_model::Refusal>) -> Again {
    match decided {
        Ok(decided) => Again::Decided(decided),
        Err(refusal) => Again::Nothing(refusal.to_string()),
    }
}
