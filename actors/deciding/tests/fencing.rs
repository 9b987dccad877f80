//! Strict single copies: another copy waits until the first is surely over.

use xce_host::rules::lease::MARGIN;
use xce_host::rules::{Command as HostCommand, Patience};
use xce_host::{HostFact, HostLife};
use xce_ledger::{Fact, Joining};
use xce_model::spec::{JobSpec, SingleCopy};
use xce_model::*;
use xce_placement::why;
use xce_replica::{JobFact, JobRecord};
use xce_service::ServiceFact;

use super::blame::{Site, inventory, spec};
use crate::host;

const PATIENCE: Patience = Patience {
    beat: Millis(2_000),
    grace: Millis(20_000),
    away_max: Millis(600_000),
};

/// One strict job that runs again, and one that does not mind, both on `h1`; then comes `h2`.
fn site() -> Site {
    let mut site = Site::new(&["h1"], 2);
    for (name, single_copy) in [("strict", SingleCopy::Strict), ("loose", SingleCopy::None)] {
        let mut template = spec(name, 1).template;
        template.single_copy = single_copy;
        let spec = JobSpec {
            name: name.into(),
            project: "default".into(),
            queue: "normal".into(),
            template,
            array: None,
            held: false,
            rerunnable: true,
        };
        let operation = OperationId::default();
        let spec = Box::new(spec);
        site.apply(vec![JobFact::Submitted { spec, operation }.into()]);
    }
    site.run_for(2);
    let second = HostFact::Joined {
        inventory: inventory("h2", 2),
        stale: Vec::new(),
        gone: Vec::new(),
    };
    site.apply(vec![second.into()]);
    site
}

fn named(site: &Site, name: &str) -> JobRecord {
    let mut jobs = site.view().jobs().values();
    let job = jobs.find(|job| job.spec.name == name);
    (**job.expect("there is one")).clone()
}

fn silent(site: &mut Site, silent: Millis) -> bool {
    let times = (site.now, WallTime(0));
    let step = host::silence(site.view(), "h1", silent, PATIENCE, times);
    let Some(step) = step else {
        return false;
    };
    site.decided(step.decided);
    true
}

fn leave(site: &mut Site) {
    let decided = host::left(site.view(), "h1").expect("it was up");
    site.decided(decided);
}

#[test]
fn a_strict_job_runs_again_a_margin_after_the_loss() {
    let mut site = site();
    assert!(silent(&mut site, PATIENCE.grace));
    assert_eq!(site.host("h1").life, HostLife::Lost);
    site.settle();
    assert_eq!(named(&site, "loose").state, JobState::Run);
    let waits = named(&site, "strict");
    assert_eq!(waits.state, JobState::Pend);
    assert_eq!(waits.not_before, site.now.after(MARGIN));
    site.run_for(MARGIN.0 / 1_000);
    assert_eq!(named(&site, "strict").run, 2);
}

#[test]
fn who_confirms_a_death_waits_for_nothing() {
    let mut site = site();
    assert!(silent(&mut site, Millis(6_000)));
    let times = (site.now, WallTime(0));
    let step = host::command(site.view(), "h1", &HostCommand::ConfirmDead, "ann", times);
    let (step, _) = step.expect("it is silent");
    site.decided(step.decided);
    site.settle();
    assert_eq!(named(&site, "strict").run, 2);
}

#[test]
fn a_host_that_is_away_keeps_all_but_its_strict_copies() {
    let mut site = site();
    leave(&mut site);
    let over = Millis(PATIENCE.grace.0 + MARGIN.0);
    assert!(!silent(&mut site, Millis(over.0 - 1)));
    assert!(silent(&mut site, over));
    site.settle();
    assert_eq!(site.host("h1").life, HostLife::Away);
    let loose = named(&site, "loose");
    assert_eq!((loose.run, loose.host.as_deref()), (1, Some("h1")));
    let strict = named(&site, "strict");
    assert_eq!((strict.run, strict.host.as_deref()), (2, Some("h2")));
    assert!(!silent(&mut site, over), "there is nothing left to lose");
}

#[test]
fn a_name_is_not_taken_over_while_a_strict_copy_may_live_under_it() {
    let mut site = site();
    leave(&mut site);
    let mut inventory = inventory("h1", 2);
    inventory.incarnation = Incarnation([9; 16]);
    let joining = Joining {
        inventory,
        connected: None,
        spool: (0, 0),
        runs: Vec::new(),
    };
    let times = (site.now, WallTime(0));
    let refusal = host::join(site.view(), &joining, times).expect_err("it is refused");
    assert_eq!(refusal.code, "single_copy_runs");
    assert!(refusal.text.contains("hosts confirm-dead h1"), "{refusal}");
    assert!(silent(&mut site, Millis(PATIENCE.grace.0 + MARGIN.0)));
    assert!(host::join(site.view(), &joining, times).is_ok());
}

#[test]
fn a_lost_strict_replica_is_replaced_a_margin_after_its_host_was_lost() {
    let mut site = Site::new(&["h1"], 2);
    let mut spec = spec("db", 1);
    spec.template.single_copy = SingleCopy::Strict;
    let created = ServiceFact::Created {
        spec: Box::new(spec),
        author: "ann".into(),
        operation: OperationId::default(),
    };
    site.apply(vec![created.into()]);
    site.run_for(2);
    let second: Fact = HostFact::Joined {
        inventory: inventory("h2", 2),
        stale: Vec::new(),
        gone: Vec::new(),
    }
    .into();
    site.apply(vec![second]);
    assert!(silent(&mut site, PATIENCE.grace));
    site.settle();
    let waiting = |site: &Site| {
        let mut jobs = site.view().jobs().values();
        jobs.find(|job| job.state == JobState::Pend).cloned()
    };
    let waits = waiting(&site).expect("its replacement");
    let reason = why(
        site.view(),
        &crate::schedule::queues(site.view()),
        waits.id,
        site.now,
    );
    let reason = reason.expect("it waits");
    assert_eq!(reason.code, "single_copy");
    assert_eq!(
        xce_placement::next_wake(site.view(), site.now),
        Some(site.now.after(MARGIN))
    );
    site.run_for(MARGIN.0 / 1_000);
    assert!(waiting(&site).is_none());
    let holds = site.view().jobs().values();
    let hosts: Vec<_> = holds
        .filter(|job| job.state.holds_host())
        .map(|job| job.host.as_deref().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(hosts, ["h2"]);
}
