//! A host is lost with what runs there, and comes back or not.

use xce_host::rules::{Command as HostCommand, Patience};
use xce_host::{HostFact, HostLife, Remnant};
use xce_ledger::{Joining, Precondition, audit};
use xce_model::spec::{JobSpec, PortSpec};
use xce_model::*;
use xce_replica::rules::Command as JobCommand;
use xce_replica::{JobFact, JobRecord};
use xce_service::rules::{Census, Command, Standing};

use super::blame::{Site, inventory, spec};
use crate::{host, job, schedule};

const PATIENCE: Patience = Patience {
    beat: Millis(2_000),
    grace: Millis(20_000),
    away_max: Millis(600_000),
};

impl Site {
    fn lose(&mut self, name: &str) {
        let silent = PATIENCE.grace;
        loop {
            let times = (self.now, WallTime(0));
            let step = host::silence(self.view(), name, silent, PATIENCE, times);
            let step = step.expect("it is a loss");
            self.decided(step.decided);
            if !step.more {
                return;
            }
        }
    }

    fn joining(&self, name: &str, incarnation: u8, runs: &[Remnant]) -> Joining {
        let mut inventory = inventory(name, self.host(name).inventory.cpus.0 / 1000);
        inventory.incarnation = Incarnation([incarnation; 16]);
        Joining {
            inventory,
            connected: None,
            spool: (0, 0),
            runs: host::uncounted(self.view(), name, runs),
        }
    }

    fn join(&mut self, name: &str, incarnation: u8, runs: &[Remnant]) {
        loop {
            let joining = self.joining(name, incarnation, runs);
            let times = (self.now, WallTime(0));
            let step = host::join(self.view(), &joining, times).expect("it may join");
            let step = step.expect("it is news");
            self.decided(step.decided);
            if !step.more {
                return;
            }
        }
    }

    fn operate(&mut self, name: &str, command: &HostCommand) -> Result<String, Refusal> {
        let mut told = String::new();
        loop {
            let times = (self.now, WallTime(0));
            let decided = host::command(self.view(), name, command, "ann", times);
            let (step, text) = decided?;
            self.decided(step.decided);
            told.push_str(&text);
            if !step.more {
                return Ok(told);
            }
        }
    }

    fn jobs(&self) -> Vec<JobRecord> {
        let jobs = self.view().jobs().values();
        jobs.map(|job| (**job).clone()).collect()
    }

    /// Runs on a host, as its worker would report them.
    fn runs(&self, name: &str) -> Vec<Remnant> {
        let there = |job: &JobRecord| job.state.holds_host() && job.host.as_deref() == Some(name);
        let jobs = self.jobs().into_iter().filter(there);
        jobs.map(|job| Remnant {
            job: job.id,
            run: job.run,
            ports: job.ports.iter().map(|(_, port)| *port).collect(),
            cpus: job.spec.template.resources.cpus,
            memory: job.spec.template.resources.memory,
            name: job.spec.name.clone(),
            quarantined: false,
        })
        .collect()
    }

    fn standings(&self, id: ServiceId, standing: Standing) -> u32 {
        self.with(id, |situation| {
            Census::take(situation.service, situation)
                .total()
                .of(standing)
        })
    }

    fn submit(&mut self, name: &str, rerunnable: bool, count: u32) {
        for _ in 0..count {
            let spec = JobSpec {
                name: name.into(),
                project: "default".into(),
                queue: "normal".into(),
                template: spec(name, 1).template,
                array: None,
                held: false,
                rerunnable,
            };
            let operation = OperationId::default();
            let spec = Box::new(spec);
            self.apply(vec![JobFact::Submitted { spec, operation }.into()]);
        }
    }

    fn named(&self, name: &str) -> JobRecord {
        let mut jobs = self.jobs().into_iter().filter(|job| job.spec.name == name);
        jobs.next().expect("there is one")
    }

    fn is_sound(&self) {
        assert_eq!(audit(self.view()), Vec::new());
    }
}

/// A service of four on two hosts that are full with them.
fn full() -> (Site, ServiceId) {
    let mut site = Site::new(&["h1", "h2"], 2);
    let id = site.create("web", 4);
    site.run_for(10);
    assert_eq!(site.available(id), 4);
    (site, id)
}

#[test]
fn a_replica_that_nobody_replaced_is_kept_and_its_replacement_goes() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    site.lose("h2");
    site.settle();
    assert_eq!(site.standings(id, Standing::Lost), 2);
    assert_eq!(site.standings(id, Standing::Pending), 2);
    let lost = site.view().job(there[0].job).expect("it is there").clone();
    assert!(site.view().is_lost(&lost) && lost.state == JobState::Run);
    site.run_for(60);
    assert_eq!(
        site.jobs().len(),
        6,
        "one replacement each, however long it takes"
    );
    site.join("h2", 1, &there);
    site.is_sound();
    assert!(site.host("h2").remnants.is_empty());
    site.run_for(10);
    assert_eq!(site.available(id), 4);
    assert_eq!(site.runs("h2"), there, "the same runs");
    let cancelled = site
        .jobs()
        .into_iter()
        .filter(|job| job.state == JobState::Exit);
    let causes: Vec<Cause> = cancelled.map(|job| job.exit.expect("why").cause).collect();
    assert_eq!(causes, [Cause::TermScaleDown; 2]);
}

#[test]
fn a_replica_ends_when_its_replacement_is_dispatched_and_holds_its_ports_until_it_is_gone() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    site.lose("h2");
    site.settle();
    site.apply(vec![joined("h3", 2)]);
    site.run_for(10);
    assert_eq!(
        (site.available(id), site.standings(id, Standing::Lost)),
        (4, 0)
    );
    let ended = site.view().job(there[0].job).expect("it is there");
    assert_eq!(
        ended.exit.as_ref().map(|exit| exit.cause),
        Some(Cause::HostLost)
    );
    assert_eq!(site.host("h2").remnants, there);
    // It is back with both: they are to be stopped, and nobody is given what they hold.
    let (jobs, counted) = (site.jobs().len(), site.runs("h2"));
    assert!(counted.is_empty());
    site.join("h2", 1, &there);
    site.is_sound();
    site.submit("batch", true, 1);
    site.settle();
    assert_eq!(
        site.named("batch").state,
        JobState::Pend,
        "h2 is full with what is left there"
    );
    let gone = |one: &Remnant| HostFact::RunGone {
        host: "h2".into(),
        job: one.job,
        run: one.run,
    };
    site.apply(vec![gone(&there[0]).into()]);
    site.settle();
    assert_eq!(site.named("batch").state, JobState::Run);
    assert_eq!(site.jobs().len(), jobs + 1);
    // The other one is not there any more, says its worker.
    site.lose("h2");
    site.settle();
    site.join("h2", 1, &[]);
    site.is_sound();
    assert!(site.host("h2").remnants.is_empty());
}

fn joined(name: &str, cpus: u64) -> xce_ledger::Fact {
    HostFact::Joined {
        inventory: inventory(name, cpus),
        stale: Vec::new(),
        gone: Vec::new(),
    }
    .into()
}

#[test]
fn a_host_that_is_back_before_the_service_knew_of_the_replacement_gives_its_replica_up() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    site.lose("h2");
    site.settle();
    site.apply(vec![joined("h3", 2)]);
    // Placed, and the service did not look yet.
    for placement in schedule::plan(site.view(), site.now) {
        site.decided(schedule::placement(&placement));
    }
    assert_eq!(site.standings(id, Standing::Lost), 2);
    site.join("h2", 1, &there);
    site.is_sound();
    assert_eq!(site.host("h2").remnants, there);
    site.run_for(10);
    assert_eq!((site.available(id), site.runs("h2").len()), (4, 0));
}

#[test]
fn a_service_ends_no_replica_of_a_host_that_is_back() {
    let (mut site, id) = full();
    site.lose("h2");
    site.settle();
    site.apply(vec![joined("h3", 2)]);
    for placement in schedule::plan(site.view(), site.now) {
        site.decided(schedule::placement(&placement));
    }
    let event = xce_service::rules::Event::Changed;
    let times = (site.now, WallTime(0));
    let step = crate::service(site.view(), id, event, times).expect("not refused");
    let crate::ServiceStep::Decided(decided, _) = step else {
        panic!("{step:?}");
    };
    let gone = Precondition::HostGone { host: "h2".into() };
    assert!(
        decided.conditions.contains(&gone),
        "{:?}",
        decided.conditions
    );
}

#[test]
fn batch_jobs_run_again_in_their_place_or_end() {
    let mut site = Site::new(&["h1"], 2);
    site.submit("again", true, 1);
    site.submit("once", false, 1);
    site.settle();
    let runs = site.runs("h1");
    site.lose("h1");
    site.is_sound();
    let (again, once) = (site.named("again"), site.named("once"));
    assert_eq!((again.state, again.run), (JobState::Pend, 1));
    assert_eq!(once.state, JobState::Exit);
    assert_eq!(once.exit.expect("why").cause, Cause::HostLost);
    site.apply(vec![joined("h2", 2)]);
    site.settle();
    assert_eq!(site.named("again").run, 2);
    site.join("h1", 1, &runs);
    assert_eq!(site.host("h1").remnants, runs, "both are stale");
}

#[test]
fn what_is_killed_while_its_host_is_lost_ends_at_once() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    site.lose("h2");
    site.settle();
    let kill = JobCommand::Kill(Cause::TermOwner);
    let times = (site.now, WallTime(0));
    let decided = job(site.view(), there[0].job, kill, times).expect("it may be killed");
    site.decided(decided);
    site.settle();
    let killed = site.view().job(there[0].job).expect("it is there");
    assert_eq!(
        killed.exit.as_ref().map(|exit| exit.cause),
        Some(Cause::TermOwner)
    );
    assert_eq!(site.host("h2").remnants, [there[0].clone()], "it may live");
    // A service that is deleted does not wait for the host either.
    let delete = Command::Delete;
    site.command(id, delete).expect("it may be deleted");
    site.run_for(40);
    let stopping = |job: &JobRecord| job.state == JobState::Stopping;
    for job in site.jobs().into_iter().filter(stopping) {
        let (job, run) = (job.id, job.run);
        let exit = Exit::of(Cause::TermServiceDeleted);
        let (at, stderr) = (WallTime(0), String::new());
        let ended = JobFact::Ended {
            job,
            run,
            exit,
            at,
            stderr,
        };
        site.apply(vec![ended.into()]);
    }
    site.settle();
    assert!(site.view().service(id).is_none());
    assert_eq!(site.host("h2").remnants, there);
}

#[test]
fn an_operator_knows_that_a_host_or_a_run_is_dead() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    let refusal = site.operate("h2", &HostCommand::ConfirmDead).unwrap_err();
    assert_eq!(refusal.code, "host_answers");
    let times = (site.now, WallTime(0));
    let dead =
        |site: &Site, one: &Remnant| job(site.view(), one.job, JobCommand::ConfirmDead, times);
    let refusal = dead(&site, &there[0]).unwrap_err();
    assert!(
        refusal.text.contains("answers; kill the job"),
        "{}",
        refusal.text
    );
    let suspected = HostFact::Suspected { host: "h2".into() };
    site.apply(vec![suspected.into()]);
    let decided = dead(&site, &there[0]).expect("nobody answers there");
    site.decided(decided);
    site.decide_services();
    assert_eq!(site.host("h2").remnants, [there[0].clone()]);
    assert_eq!(site.standings(id, Standing::Unreachable), 1);
    assert_eq!(site.standings(id, Standing::Pending), 1);
    let refusal = site.operate("h2", &HostCommand::Remove).unwrap_err();
    assert!(
        refusal.text.contains("hosts confirm-dead h2"),
        "{}",
        refusal.text
    );
    let told = site
        .operate("h2", &HostCommand::ConfirmDead)
        .expect("it is silent");
    assert!(
        told.contains("the job that it held was recovered"),
        "{told}"
    );
    site.settle();
    assert_eq!(site.standings(id, Standing::Pending), 2);
    let h2 = site.host("h2");
    assert!(h2.life == HostLife::Lost && h2.remnants.is_empty() && h2.dead.is_some());
    site.operate("h2", &HostCommand::Remove)
        .expect("it is lost");
    assert!(site.view().host("h2").is_none());
    site.is_sound();
    // It comes back all the same, as a host that is new, and has runs that nobody knows there.
    let mut again = Joining {
        inventory: inventory("h2", 2),
        connected: None,
        spool: (0, 0),
        runs: host::uncounted(site.view(), "h2", &there),
    };
    again.inventory.address = "10.0.0.2".into();
    let step = host::join(site.view(), &again, times).expect("it may join");
    site.decided(step.expect("it is new").decided);
    site.is_sound();
    assert_eq!(site.host("h2").remnants, there);
    site.settle();
    assert_eq!(site.runs("h2"), [], "full with what is to be stopped there");
}

#[test]
fn removing_a_lost_host_ends_what_it_held() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    site.lose("h2");
    site.settle();
    site.operate("h2", &HostCommand::Remove)
        .expect("it is lost");
    site.settle();
    assert_eq!(site.standings(id, Standing::Lost), 0);
    for run in there {
        let job = site.view().job(run.job).expect("it is there");
        assert_eq!(job.state, JobState::Exit);
    }
}

#[test]
fn a_worker_that_was_installed_anew_takes_the_name_over() {
    let (mut site, id) = full();
    let there = site.runs("h2");
    let suspected = HostFact::Suspected { host: "h2".into() };
    site.apply(vec![suspected.into()]);
    site.join("h2", 2, &[]);
    site.is_sound();
    let h2 = site.host("h2");
    assert_eq!((h2.life, h2.remnants.len()), (HostLife::Up, there.len()));
    site.run_for(10);
    assert_eq!(site.available(id), 4, "they run again, there");
    assert_eq!(site.view().hosts().len(), 2, "one entry by name");
}

#[test]
fn ports_of_what_may_still_live_are_given_to_nobody() {
    let mut site = Site::new(&["h1"], 8);
    let mut asked = spec("web", 1);
    asked.template.ports = vec![PortSpec {
        name: "http".into(),
        port: None,
    }];
    let created = xce_service::ServiceFact::Created {
        spec: Box::new(asked),
        author: "ann".into(),
        operation: OperationId::default(),
    };
    site.apply(vec![created.into()]);
    site.run_for(3);
    let there = site.runs("h1");
    assert_eq!(there[0].ports, [20_000]);
    let suspected = HostFact::Suspected { host: "h1".into() };
    site.apply(vec![suspected.into()]);
    site.join("h1", 2, &[]);
    site.run_for(3);
    assert_eq!(site.runs("h1")[0].ports, [20_001]);
    // The machine booted: nothing of it is left.
    site.lose("h1");
    let mut joining = site.joining("h1", 2, &[]);
    joining.inventory.boot_id = "another".into();
    let times = (site.now, WallTime(0));
    let step = host::join(site.view(), &joining, times).expect("it may join");
    site.decided(step.expect("it is back").decided);
    site.is_sound();
    assert!(site.host("h1").remnants.is_empty());
}

#[test]
fn the_loss_of_very_many_jobs_is_several_groups_and_the_loss_comes_last() {
    let mut site = Site::new(&["h1"], 2_500);
    site.submit("batch", true, 2_500);
    while site.runs("h1").len() < 2_500 {
        for placement in schedule::plan(site.view(), site.now) {
            site.decided(schedule::placement(&placement));
        }
    }
    site.start_what_is_placed();
    let runs = site.runs("h1");
    let times = (site.now, WallTime(0));
    let step = host::silence(site.view(), "h1", PATIENCE.grace, PATIENCE, times);
    let step = step.expect("it is a loss");
    assert!(step.more && step.jobs == 2_000);
    site.lose("h1");
    assert_eq!(site.host("h1").remnants.len(), 2_500);
    site.join("h1", 1, &runs);
    site.is_sound();
}
