//! Rollouts, plans, histories and events: how they look and when they end.

use xce_model::{ClusterTime, Lsn, Millis};
use xce_service::VersionReason;
use xce_service::state::Outcome;
use xce_service::view::{Condition, EventView, ServiceView, VersionView};
use xce_session::plan::{PlanChange, PlanOutcome, PlanStep, PlanTime, PlanTimes, PlanView};

use super::views::{replica, service, steady};
use crate::cli::arguments::Form;
use crate::cli::events::Follower;
use crate::cli::plan::verdict as verdict_of_plan;
use crate::cli::present::plan::{details, summary};
use crate::cli::present::rollout::{Rollout, line, live_view};
use crate::cli::print::Look;
use crate::cli::rollout::{Verdict, verdict};

fn look() -> Look {
    Look {
        coloured: false,
        ..Look::of(Form::Table)
    }
}

fn in_phase(phase: &str, condition: Condition) -> ServiceView {
    let mut service = steady();
    service.condition = condition;
    service.reason = "the reason".to_owned();
    service.rollout.phase = phase.to_owned();
    service
}

fn version(number: u32, reason: VersionReason) -> VersionView {
    VersionView {
        number,
        reason,
        author: "ada".to_owned(),
        time: "2026-05-01T10:00:00.000Z".to_owned(),
        outcome: Outcome::Rolling,
        want: 2,
    }
}

#[test]
fn a_rollout_ends_complete_or_with_its_reason() {
    let complete = in_phase("complete", Condition::Steady);
    assert_eq!(verdict(&complete, 1), Verdict::Complete);
    // Complete, and short of a replica since: the rollout itself is over.
    let short = in_phase("complete", Condition::Short);
    assert_eq!(verdict(&short, 1), Verdict::Complete);
    for phase in ["rolling", "paused"] {
        let under_way = in_phase(phase, Condition::Rolling);
        assert_eq!(verdict(&under_way, 1), Verdict::UnderWay);
    }
    for (condition, said) in [
        (Condition::Stuck, "web is stuck: the reason"),
        (Condition::CrashLoop, "web is in a crash loop: the reason"),
        (Condition::Deleting, "web is being deleted: the reason"),
    ] {
        let failed = in_phase("stuck", condition);
        assert_eq!(verdict(&failed, 1), Verdict::Failed(said.to_owned()));
    }
}

#[test]
fn an_automatic_rollback_is_no_success_of_the_version_that_was_followed() {
    let mut service = in_phase("complete", Condition::Steady);
    service.version = 3;
    service.history = vec![
        version(1, VersionReason::Create),
        version(2, VersionReason::Update),
        version(3, VersionReason::AutomaticRollbackOf(1)),
    ];
    assert_eq!(
        verdict(&service, 2),
        Verdict::Failed("web was rolled back from version 2: version 3 is a copy of 1".to_owned())
    );
    assert_eq!(verdict(&service, 3), Verdict::Complete);
    service.history[2].reason = VersionReason::Update;
    assert_eq!(verdict(&service, 2), Verdict::Complete);
}

#[test]
fn a_status_has_a_bar_a_version_and_what_holds_it_back() {
    let mut service = service();
    service.desired = 4;
    service.version = 3;
    service.history = vec![
        version(1, VersionReason::Create),
        version(2, VersionReason::Update),
        version(3, VersionReason::RollbackOf(1)),
    ];
    // Those of version 1 are taken over by its copy.
    let mut replicas = vec![replica(0, true), replica(1, true), replica(2, false)];
    replicas.push(replica(3, true));
    replicas[0].version = 1;
    replicas[1].version = 1;
    replicas[2].version = 3;
    replicas[3].version = 2;
    service.replicas = replicas;
    let rollout = Rollout::of(&service);
    let text = live_view(&rollout, &look());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "web: version 3 is rolling, stuck in 9m 50s",
            "  version 3  [############------......]  2 of 4 available, 3 live",
            "  version 2  [######..................]  1 of 4 available, 1 live",
            "  held back: waiting for job 11",
        ]
    );
    assert_eq!(
        line(&rollout),
        "web: version 3 is rolling: 2 of 4 updated, 1 available, 0 old; waiting for job 11"
    );
}

fn event(lsn: Lsn, text: &str) -> EventView {
    EventView {
        time: "2026-05-01T10:00:00.000Z".to_owned(),
        at: ClusterTime(lsn),
        lsn,
        kind: "step".to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn followed_events_come_once_and_without_a_gap() {
    let with = |events: &[EventView]| {
        let mut service = service();
        service.events = events.to_vec();
        Follower::of(service)
    };
    let all = [event(5, "a"), event(5, "b"), event(5, "b"), event(9, "c")];
    let news = |last: Option<&EventView>, events: &[EventView]| {
        with(events)
            .news(last)
            .iter()
            .map(|one| one.text.clone())
            .collect::<String>()
    };
    assert_eq!(news(None, &all), "abbc");
    // Several of one position, two of them alike: the last one is where it goes on.
    assert_eq!(news(Some(&all[2]), &all), "c");
    assert_eq!(news(Some(&all[3]), &all), "");
    // Meanwhile so much happened that the last one is kept no longer.
    assert_eq!(news(Some(&event(7, "gone")), &all), "c");
    assert_eq!(news(Some(&event(2, "gone")), &all), "abbc");
}

fn plan(outcome: PlanOutcome) -> PlanView {
    let time = |millis, measured_on| PlanTime {
        takes: Millis(millis),
        measured_on,
    };
    let step = |at_ms, changes: &[(u32, u32, u32)], live, ready| PlanStep {
        at_ms,
        steps: 1,
        changes: changes
            .iter()
            .map(|(version, started, stopped)| PlanChange {
                version: *version,
                started: *started,
                stopped: *stopped,
            })
            .collect(),
        live,
        ready,
        available: ready,
    };
    PlanView {
        service: "web".to_owned(),
        change: "update".to_owned(),
        outcome,
        text: "version 2 would roll out".to_owned(),
        version: 2,
        desired: 4,
        steps: vec![
            step(0, &[(2, 3, 0)], 7, 4),
            step(12_340, &[(1, 0, 1)], 7, 6),
        ],
        steps_total: 2,
        takes_ms: 40_120,
        extrapolated_ms: None,
        ready_min: 4,
        available_min: 4,
        available_bound: 4,
        live_max: 7,
        live_bound: 7,
        blocker: String::new(),
        then: String::new(),
        bound: String::new(),
        times: vec![PlanTimes {
            version: 2,
            start: time(40, Some(1)),
            ready: time(12_300, Some(1)),
            stop: time(100, None),
        }],
        notes: Vec::new(),
        as_of: 17,
    }
}

#[test]
fn a_plan_is_a_table_of_steps_and_a_summary() {
    let text = details(&plan(PlanOutcome::Completes), &look());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "AT     STEP   LIVE  READY",
            "0s     +3 v2  7     4",
            "12.3s  -1 v1  7     6",
            "",
            "web: version 2 would roll out",
            "2 steps, about 40.1s; ready never below 4 (minimum 4); at most 7 live (limit 7); \
             blocker: none",
            "times: version 2 starts in 40ms (measured on version 1), is ready after 12.3s \
             (measured on version 1), stops in 100ms (assumed)",
        ]
    );
}

#[test]
fn a_blocked_plan_fails_with_the_blocker() {
    assert!(verdict_of_plan(&plan(PlanOutcome::Completes)).is_ok());
    assert!(verdict_of_plan(&plan(PlanOutcome::Bounded)).is_ok());
    let mut blocked = plan(PlanOutcome::Blocked);
    blocked.blocker = "cannot stop version 1: available 4 - 1 < minimum 4".to_owned();
    let failure = verdict_of_plan(&blocked).unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    assert!(failure.to_string().ends_with("available 4 - 1 < minimum 4"));
    assert!(summary(&blocked).contains("then none; "));
    let mut bounded = plan(PlanOutcome::Bounded);
    bounded.extrapolated_ms = Some(3_600_000);
    assert!(summary(&bounded).starts_with("2 steps imagined, about 1h in all; "));
}
