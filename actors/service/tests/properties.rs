//! Random histories: what must hold after every step, and what must come true in the end.

use xce_host::HostLife;
use xce_model::spec::{Amount, OnStuck};
use xce_model::{Cause, Millis};

use crate::rules::{Census, Standing};
use crate::tests::world::*;
use crate::*;

/// Histories of one run, unless `XCE_HISTORIES` says another number. Source: measured, a few seconds
/// on one core in a debug build.
const HISTORIES: u64 = 400;
/// Steps of one history. Source: derived, enough for several updates to overlap.
const STEPS: u32 = 25;

/// A small generator (xorshift): the seed alone gives the history.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn number(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).expect("below a small bound")
    }
}

const BEHAVIOURS: [Behaviour; 7] = [
    Behaviour::Ready(0),
    Behaviour::Ready(1_500),
    Behaviour::Ready(20_000),
    Behaviour::NeverReady,
    Behaviour::Crash(700),
    Behaviour::ReadyThenCrash(9_000),
    Behaviour::Unplaceable,
];

fn random_template(dice: &mut Dice, text: &str) -> xce_model::spec::Template {
    match dice.below(2) {
        0 => bare_template(text),
        _ => template(text),
    }
}

fn random_spec(dice: &mut Dice) -> xce_model::spec::ServiceSpec {
    let mut spec = spec(dice.number(8), dice.number(4), dice.number(4));
    spec.template = random_template(dice, "v1");
    let rollout = &mut spec.settings.rollout;
    if dice.below(3) == 0 {
        rollout.max_surge = Amount::Percent(dice.number(101));
        rollout.max_unavailable = Amount::Percent(1 + dice.number(100));
    } else if rollout.max_surge == Amount::Count(0) && rollout.max_unavailable == Amount::Count(0) {
        rollout.max_surge = Amount::Count(1);
    }
    rollout.min_ready = Millis(dice.below(3) * 2_000);
    rollout.progress_deadline = Millis::seconds(10 + dice.below(3) * 60);
    if dice.below(2) == 0 {
        rollout.on_stuck = OnStuck::Rollback;
    }
    rollout.history_limit = 1 + dice.number(10);
    spec
}

fn random_host(dice: &mut Dice, world: &mut World) {
    let host = format!("h{}", 1 + dice.below(4));
    let life = match (world.hosts[&host], dice.below(3)) {
        (HostLife::Up, 0) => HostLife::Away,
        (HostLife::Up, _) => HostLife::Suspect,
        (HostLife::Suspect | HostLife::Away, 0) => HostLife::Lost,
        (HostLife::Suspect | HostLife::Away | HostLife::Lost, _) => HostLife::Up,
    };
    world.host(&host, life);
}

fn random_drain(dice: &mut Dice, world: &mut World) {
    let host = format!("h{}", 1 + dice.below(4));
    let deadline = match dice.below(3) {
        0 => None,
        1 => Some(dice.below(3) * 1_000),
        _ => Some(dice.below(60) * 1_000),
    };
    let drained = (dice.below(3) > 0).then_some(deadline);
    world.drain(&host, drained);
}

fn random_command(dice: &mut Dice, world: &mut World) {
    let number = dice.below(10);
    let command = match number {
        0..=2 => Command::Scale {
            desired: dice.number(9),
            remove: Vec::new(),
        },
        3..=5 => {
            let text = format!("t{}", dice.below(6));
            let behaviour = BEHAVIOURS[usize::try_from(dice.below(7)).expect("small")];
            world.behave(&text, behaviour);
            let template = random_template(dice, &text);
            let mut command = update_to(&world.record, template);
            if let Command::Update { spec, .. } = &mut command
                && dice.below(4) == 0
            {
                spec.replicas = Some(dice.number(9));
                spec.settings = random_spec(dice).settings;
            }
            command
        }
        6 => Command::Pause,
        7 => Command::Resume,
        8 => Command::Rollback {
            to: (dice.below(2) == 0).then(|| dice.number(world.record.current().number) + 1),
        },
        _ => Command::Restart,
    };
    // A refusal changes nothing, which the world checks by going on.
    let before = world.record.clone();
    if world.command(command).is_err() {
        assert_eq!(before, world.record);
    }
}

fn random_replica(dice: &mut Dice, world: &mut World) {
    let live = world.live();
    if live.is_empty() {
        return;
    }
    let place = usize::try_from(dice.below(live.len() as u64)).expect("small");
    let (job, standing) = &live[place];
    let up = job.host.as_deref().and_then(|host| world.hosts.get(host)) == Some(&HostLife::Up);
    match dice.below(3) {
        0 if up && *standing != Standing::Pending => world.flap(job.id.number),
        1 if up && job.state.holds_host() && *standing != Standing::Stopping => {
            world.end(job.id.number, Cause::GaveUp);
        }
        _ => {
            let which = Which::Job(job.id);
            let cause = Cause::TermOwner;
            // What an operator kills is not the rules' doing.
            let answer = world.command(Command::Kill { which, cause });
            assert!(answer.is_ok());
        }
    }
}

fn step(dice: &mut Dice, world: &mut World) {
    match dice.below(10) {
        0..=2 => random_command(dice, world),
        3..=4 => random_replica(dice, world),
        5 => random_host(dice, world),
        6 => world.slots = usize::try_from(1 + dice.below(5)).expect("small"),
        7 => random_drain(dice, world),
        _ => {}
    }
    let time = [0, 5, 300, 2_000, 15_000, 90_000][usize::try_from(dice.below(6)).expect("small")];
    world.run_for(time);
}

/// Faults are over: every host is up, one at least takes jobs, every template works, nothing is paused.
fn heal(world: &mut World) {
    for host in ["h1", "h2", "h3", "h4"] {
        if world.hosts[host] != HostLife::Up {
            world.host(host, HostLife::Up);
        }
    }
    if world.drains.len() == world.hosts.len() {
        world.drain("h1", None);
    }
    world.slots = 100;
    world.behaviours.clear();
    // A template that was bad is well now, for its next processes; running ones are made anew.
    let sick: Vec<u64> = world
        .live()
        .iter()
        .filter(|(job, standing)| {
            job.state == xce_model::JobState::Run
                && matches!(standing, Standing::Running | Standing::Unready)
        })
        .map(|(job, _)| job.id.number)
        .collect();
    sick.into_iter().for_each(|number| world.flap(number));
    world.settle();
    let answer = world.command(Command::Resume);
    assert!(answer.is_ok(), "{answer:?}");
    world.run_for(2_000_000);
}

fn check_converged(world: &World, seed: u64) {
    let view = world.view();
    let told = || format!("seed {seed}: {}\n{}", world.explain(), world.story());
    assert_eq!(view.condition, Condition::Steady, "{}", told());
    let counts = (
        view.live,
        view.ready,
        view.available,
        view.stopping,
        view.updated,
    );
    let desired = world.record.desired;
    assert_eq!(
        counts,
        (desired, desired, desired, 0, desired),
        "{}",
        told()
    );
    let mut indices: Vec<u32> = view.replicas.iter().map(|one| one.index).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), desired as usize, "{}", told());
    assert!(
        world.record.rollout.phase == crate::state::Phase::Complete,
        "{}",
        told()
    );
    let lost = world.with_situation(|situation| {
        Census::take(&world.record, situation)
            .total()
            .of(Standing::Lost)
    });
    assert_eq!(lost, 0, "{}", told());
    let left = world.live().into_iter().find(|(job, _)| {
        let host = job.host.as_deref();
        job.moving || host.is_some_and(|host| world.drains.contains_key(host))
    });
    assert!(left.is_none(), "{left:?} is left, {}", told());
}

fn history(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut world = World::new(&random_spec(&mut dice));
    world.seed = seed;
    let first = BEHAVIOURS[usize::try_from(dice.below(7)).expect("small")];
    world.behave("v1", first);
    world.ends_lost = dice.below(2) == 0;
    world.stop_time = [0, 10, 5_000][usize::try_from(dice.below(3)).expect("small")];
    for _ in 0..STEPS {
        step(&mut dice, &mut world);
    }
    heal(&mut world);
    check_converged(&world, seed);
    assert!(world.command(Command::Delete).is_ok());
    world.run_for(20_000);
    assert!(world.deleted, "seed {seed}");
}

#[test]
fn random_histories_keep_the_bounds_and_converge() {
    let wanted = std::env::var("XCE_HISTORIES").ok();
    let histories = wanted
        .and_then(|text| text.parse().ok())
        .unwrap_or(HISTORIES);
    for seed in 1..=histories {
        history(seed);
    }
}
