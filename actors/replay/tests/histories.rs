use xce_ledger::{Fact, Group, GroupEvent, Outcome, View};
use xce_model::spec::JobSpec;
use xce_model::{Cause, ClusterTime, JobId, Millis, OperationId};
use xce_replica::JobFact;
use xce_replica::rules::Command as JobCommand;
use xce_service::ServiceFact;
use xce_service::rules::{Command, Event};

use super::world::{World, ended, spec, template};
use crate::{Report, VIEWS_KEPT, replay};

/// A service that is created, scaled, updated, rolled back, loses a host, and is deleted.
pub fn eventful() -> World {
    let mut world = World::new();
    world.join("h1", 1);
    world.join("h2", 2);
    let id = world.create(4);
    world.run(id);
    let scale = Command::Scale {
        desired: 6,
        remove: Vec::new(),
    };
    world.command(id, scale);
    world.run(id);
    let mut changed = spec(6);
    changed.replicas = None;
    changed.template.command = vec!["/bin/false".into()];
    let update = Command::Update {
        spec: Box::new(changed),
        take_count: false,
    };
    world.command(id, update);
    world.run(id);
    world.command(id, Command::Rollback { to: None });
    world.run(id);
    world.silent("h1", 7000);
    world.silent("h1", 25_000);
    world.now += 25_000;
    world.run(id);
    world.join("h1", 9);
    world.close("h2");
    world.command(id, Command::Restart);
    world.run(id);
    world.command(id, Command::Delete);
    world.run(id);
    let (view, keep) = (world.view(), Millis(10));
    let decided = xce_deciding::clean_up(&view, keep, ClusterTime(world.now));
    assert!(!decided.facts.is_empty());
    let group = Group::new(ClusterTime(world.now), Default::default(), "clean up");
    let group = group.decided_on(view.lsn(), GroupEvent::CleanUp { keep });
    world.commit(vec![decided.into_group(group)]);
    world
}

fn replayed(world: &World) -> Report {
    replay(View::default(), world.log.clone())
}

#[track_caller]
fn assert_same(report: &Report) {
    let first = report.first.as_ref().map(ToString::to_string);
    assert_eq!(first, None);
    assert_eq!((report.differing, report.out_of_reach), (0, 0));
}

#[test]
fn an_eventful_life_is_decided_again_alike() {
    let world = eventful();
    let report = replayed(&world);
    assert_same(&report);
    assert_eq!(report.groups, world.log.len() as u64);
    assert_eq!(report.groups, report.decisions + report.inputs);
    assert!(report.decisions > 60, "{report:?}");
    let causes = |cause: &str| world.log.iter().any(|(_, group)| group.cause == cause);
    for cause in ["step", "place", "join", "silent", "close", "clean up"] {
        assert!(causes(cause), "{cause}");
    }
}

#[test]
fn a_replay_may_begin_in_the_middle() {
    let world = eventful();
    let entries: Vec<u64> = world.log.iter().map(|(at, _)| at.lsn).collect();
    for middle in [entries.len() / 3, entries.len() / 2] {
        let lsn = entries[middle];
        let (before, after): (Vec<_>, Vec<_>) =
            world.log.iter().cloned().partition(|(at, _)| at.lsn <= lsn);
        let mut first = crate::Replay::new(xce_ledger::Ledger::new(Box::new(|_, _| ())));
        let mut last = before[0].0;
        for (at, group) in before {
            if at.lsn != last.lsn {
                first.end_entry(last.lsn, last.term);
            }
            first.group(at, group);
            last = at;
        }
        first.end_entry(last.lsn, last.term);
        let report = replay((*first.view()).clone(), after);
        assert_same(&report);
        assert_eq!((report.from, report.to), (lsn, *entries.last().unwrap()));
    }
}

/// Changes one group of a log and gives what replay finds.
fn tampered(world: &World, change: impl Fn(&mut Group) -> bool) -> (u64, Report) {
    let mut log = world.log.clone();
    let changed = log
        .iter_mut()
        .find_map(|(at, group)| change(group).then_some(at.lsn));
    (changed.unwrap(), replay(View::default(), log))
}

#[test]
fn a_fact_that_was_not_decided_is_found_at_its_position() {
    let world = eventful();
    let (lsn, report) = tampered(&world, |group| {
        let scaled = group.facts.iter_mut().find_map(|fact| match fact {
            Fact::Service(ServiceFact::Scaled { desired, .. }) => Some(desired),
            _ => None,
        });
        scaled.map(|desired| *desired = 7).is_some()
    });
    let first = report.first.unwrap();
    assert_eq!(first.lsn, lsn);
    assert!(first.part.starts_with("fact 1 of "), "{first}");
    let text = first.to_string();
    assert!(text.contains("\"desired\":7"), "{text}");
    assert!(text.contains("\"desired\":6"), "{text}");
    assert!(text.contains("service_command"), "{text}");
    assert!(!text.contains("rules "), "the same rules: {text}");
}

#[test]
fn a_condition_a_cut_decision_and_a_false_event_are_found() {
    let world = eventful();
    let placed = |group: &Group| matches!(group.event, Some(GroupEvent::Planned { nth: 1 }));
    let (lsn, report) = tampered(&world, |group| {
        placed(group) && {
            group.preconditions.clear();
            true
        }
    });
    let first = report.first.unwrap();
    assert_eq!((first.lsn, first.now.is_some()), (lsn, true));
    assert_eq!(first.part, "condition 1 of 1");
    assert_eq!(first.recorded, None);

    let (lsn, report) = tampered(&world, |group| {
        group.facts.len() > 1 && group.facts.pop().is_some() && group.event.is_some()
    });
    assert_eq!(report.first.unwrap().lsn, lsn);

    let (lsn, report) = tampered(&world, |group| {
        placed(group) && {
            group.event = Some(GroupEvent::Planned { nth: 400 });
            group.rules += 1;
            true
        }
    });
    let first = report.first.unwrap();
    assert_eq!(
        (first.lsn, first.part.as_str()),
        (lsn, "the whole decision")
    );
    let text = first.to_string();
    assert!(text.contains("no placement 400"), "{text}");
    assert!(
        text.contains("rules     version 2 then, version 1 here"),
        "{text}"
    );
}

#[test]
fn a_group_that_came_too_late_is_compared_and_changes_nothing() {
    let mut world = World::new();
    world.join("h1", 1);
    let id = world.create(2);
    world.run(id);
    // Two decide from the same view; the second is refused in log order.
    let view = world.view();
    let scale = |desired| {
        let author = xce_deciding::Author {
            user: "ann".into(),
            operation: OperationId::default(),
        };
        let remove = Vec::new();
        Event::Command(Box::new(Command::Scale { desired, remove }), author)
    };
    let first = world.step(&view, id, scale(3), "ann").unwrap();
    let second = world.step(&view, id, scale(5), "ann").unwrap();
    let mut outcomes = world.commit(vec![first]);
    outcomes.extend(world.commit(vec![second]));
    assert!(matches!(outcomes[0], Outcome::Applied(_)));
    assert!(matches!(outcomes[1], Outcome::Refused(_)));
    world.run(id);
    assert_eq!(world.view().service(id).unwrap().desired, 3);
    assert_same(&replayed(&world));
    // It is compared all the same.
    let (_, report) = tampered(&world, |group| match group.facts.first_mut() {
        Some(Fact::Service(ServiceFact::Scaled { desired, .. })) if *desired == 5 => {
            *desired = 4;
            true
        }
        _ => false,
    });
    assert_eq!(report.differing, 1);
}

#[test]
fn batch_jobs_are_planned_ahead_of_the_end_of_others() {
    let mut world = World::new();
    world.join("h1", 1);
    for number in 0..20_u8 {
        let spec = JobSpec {
            name: "job".into(),
            project: "default".into(),
            queue: "normal".into(),
            template: template(),
            array: None,
            held: false,
            rerunnable: true,
        };
        let fact = JobFact::Submitted {
            spec: Box::new(spec),
            operation: OperationId([number; 16]),
        };
        let group = Group::new(ClusterTime(world.now), Default::default(), "submit").with(fact);
        world.commit(vec![group]);
    }
    assert_eq!(world.schedule(), 8);
    world.work("h1");
    for number in 1..=8 {
        world.end_and_place("h1", JobId::single(number));
        world.work("h1");
    }
    let ahead = world
        .log
        .iter()
        .filter(|(_, group)| matches!(group.event, Some(GroupEvent::PlannedAhead { nth: 0, .. })));
    assert_eq!(ahead.count(), 8);
    let view = world.view();
    let (id, command) = (JobId::single(20), JobCommand::Kill(Cause::TermOwner));
    let times = (ClusterTime(world.now), Default::default());
    let decided = xce_deciding::job(&view, id, command, times).unwrap();
    let event = GroupEvent::JobCommand { job: id, command };
    let group = Group::new(times.0, times.1, "kill").decided_on(view.lsn(), event);
    world.commit(vec![decided.into_group(group)]);
    let report = replayed(&world);
    assert_same(&report);
    assert_eq!(report.decisions, 1 + 8 + 8 + 1);
}

#[test]
fn a_decision_from_too_far_back_is_counted_and_not_judged() {
    let mut world = World::new();
    world.join("h1", 1);
    let id = world.create(1);
    let old = world.step(&world.view(), id, Event::Changed, "").unwrap();
    for _ in 0..VIEWS_KEPT {
        let group = Group::new(ClusterTime(world.now), Default::default(), "reports");
        world.commit(vec![group.with(ended(JobId::single(99), 1, Cause::Exited))]);
    }
    world.commit(vec![old]);
    let report = replayed(&world);
    assert_eq!((report.out_of_reach, report.differing), (1, 0));
}
