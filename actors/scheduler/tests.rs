//! A scheduler and a controller that lose each other at random: pure, over the bytes of the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use xce_deciding::schedule;
use xce_host::HostFact;
use xce_host::facts::Inventory;
use xce_ledger::{Cursor, Fact, Group, Ledger, Outcome, RowWriter, Scope, View, audit};
use xce_model::spec::{
    ArraySpec, JobSpec, Probes, Resources, RestartMode, RestartPolicy, SingleCopy, StopPolicy,
    Template, User,
};
use xce_model::{
    Bytes, Cause, ClusterTime, Exit, Incarnation, JobState, Lsn, MilliCpu, Millis, OperationId,
    WallTime,
};
use xce_placement::Placement;
use xce_replica::JobFact;
use xce_session::feed_wire::{FeedPortion, FromReader, Plan, PlanSettled, ToReader};
use xce_wal::Position;

use crate::core::Core;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

fn spec(cpus: u64, array: Option<ArraySpec>) -> JobSpec {
    JobSpec {
        name: format!("j{cpus}"),
        project: "default".into(),
        queue: "normal".into(),
        template: Template {
            command: vec!["/bin/true".into()],
            env: Vec::new(),
            cwd: None,
            user: User {
                name: "ann".into(),
                uid: 1000,
                gid: 1000,
            },
            resources: Resources {
                cpus: MilliCpu(cpus * 1000),
                memory: Bytes(1 << 20),
            },
            ports: Vec::new(),
            probes: Probes::default(),
            restart: RestartPolicy {
                mode: RestartMode::Never,
                delay: Millis(100),
                delay_max: Millis(60_000),
                max_restarts: 5,
                window: Millis(600_000),
                stable_after: Millis(60_000),
            },
            stop: StopPolicy {
                drain: Millis(0),
                signal: 15,
                grace: Millis(30_000),
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: SingleCopy::None,
        },
        array,
        held: false,
        rerunnable: true,
    }
}

fn exit() -> Exit {
    Exit {
        code: Some(0),
        signal: None,
        cause: Cause::Exited,
        detail: String::new(),
    }
}

/// The controller's side: a ledger, and the feed of one connection.
struct Controller {
    ledger: Ledger,
    lsn: Lsn,
    now: u64,
    views: BTreeMap<Lsn, Arc<View>>,
    cursor: Cursor,
    writer: RowWriter,
    number: u64,
    placed: BTreeMap<(xce_model::JobId, u32), u32>,
    plans: u64,
    refused: u64,
    fulls: u64,
}

impl Controller {
    fn new() -> Self {
        Self {
            ledger: Ledger::new(Box::new(|_, _| {})),
            lsn: 0,
            now: 1000,
            views: BTreeMap::new(),
            cursor: Cursor::new(Scope::Scheduler, 0),
            writer: RowWriter::new(),
            number: 0,
            placed: BTreeMap::new(),
            plans: 0,
            refused: 0,
            fulls: 0,
        }
    }

    fn view(&self) -> Arc<View> {
        self.ledger.reader().view()
    }

    fn commit(&mut self, group: &Group) -> bool {
        self.lsn += 2;
        let at = Position {
            term: 1,
            lsn: self.lsn,
            sub: 0,
        };
        let outcome = self.ledger.commit(at, group);
        self.ledger.publish(self.lsn, 1);
        self.views.insert(self.lsn, self.view());
        matches!(outcome, Outcome::Applied(_))
    }

    fn fact(&mut self, fact: impl Into<Fact>) {
        let group = Group::new(ClusterTime(self.now), WallTime(0), "test").with(fact);
        self.commit(&group);
    }

    fn happen(&mut self, dice: &mut Dice) {
        self.now += dice.roll(50);
        let host = format!("w{}", dice.roll(3));
        match dice.roll(12) {
            0..=3 => {
                let spec = Box::new(spec(1 + dice.roll(3), None));
                let operation = OperationId::default();
                self.fact(JobFact::Submitted { spec, operation });
            }
            4 => {
                let array = ArraySpec {
                    ranges: vec![(1, 4)],
                    slot_limit: Some(2),
                };
                let spec = Box::new(spec(1, Some(array)));
                let operation = OperationId::default();
                self.fact(JobFact::Submitted { spec, operation });
            }
            5 | 6 => self.fact(HostFact::Joined {
                stale: Vec::new(),
                gone: Vec::new(),
                inventory: inventory(&host, 2 + dice.roll(4)),
            }),
            7 => self.fact(HostFact::Suspected { host }),
            8 => self.fact(HostFact::Recovered { host }),
            9 => self.fact(HostFact::Closed {
                host,
                reason: "r".into(),
                by: "ann".into(),
            }),
            10 => self.fact(HostFact::Opened {
                host,
                by: "ann".into(),
            }),
            _ => self.end_one(dice),
        }
    }

    fn end_one(&mut self, dice: &mut Dice) {
        let view = self.view();
        let placed: Vec<_> = view
            .jobs()
            .values()
            .filter(|job| job.state == JobState::Start)
            .collect();
        if placed.is_empty() {
            return;
        }
        let job = placed[dice.roll(placed.len() as u64) as usize];
        let (job, run) = (job.id, job.run);
        if dice.roll(3) == 0 {
            self.fact(JobFact::Requeued {
                job,
                run,
                exit: exit(),
                at: WallTime(1),
                not_before: ClusterTime(self.now + dice.roll(200)),
                avoid: None,
                held: false,
            });
        } else {
            self.fact(JobFact::Ended {
                job,
                run,
                exit: exit(),
                at: WallTime(1),
                stderr: String::new(),
            });
        }
    }

    /// The next portion, or a sign of life.
    fn tell(&mut self, most: usize) -> ToReader {
        let view = self.view();
        let (mut rows, mut count) = (Vec::new(), 0);
        let writer = &mut self.writer;
        let told = self.cursor.next(&view, |change| {
            writer.put(&mut rows, &change);
            count += 1;
            count < most
        });
        self.number += 1;
        let (number, time) = (self.number, ClusterTime(self.now));
        match told {
            None => ToReader::Tick {
                number,
                lsn: self.cursor.lsn(),
                time,
            },
            Some(portion) => {
                self.fulls += u64::from(portion.first);
                ToReader::Portion(FeedPortion {
                    number,
                    full: portion.full,
                    first: portion.first,
                    more: portion.more,
                    lsn: portion.lsn,
                    time,
                    rows,
                })
            }
        }
    }

    fn open(&mut self, words: &FromReader) {
        let FromReader::Open { after } = words else {
            panic!("{words:?}");
        };
        self.cursor = Cursor::new(Scope::Scheduler, *after);
        self.writer = RowWriter::new();
        self.number = 0;
    }

    /// Checks that a plan is what the rules make of the state that it names, and carries it out.
    fn settle(&mut self, plan: Plan) -> PlanSettled {
        let state = self.views.get(&plan.made_at).expect("a state that was");
        let placements: Vec<Placement> = plan
            .placements
            .into_iter()
            .map(|run| Placement {
                job: run.job,
                run: run.run,
                host: Arc::from(run.host),
                ports: run.ports,
                made_at: plan.made_at,
            })
            .collect();
        assert_eq!(placements, schedule::plan(state, plan.time));
        assert!(plan.time.0 <= self.now);
        self.plans += 1;
        let mut settled = PlanSettled {
            number: plan.number,
            ..PlanSettled::default()
        };
        for placement in placements {
            let group = Group::new(plan.time, WallTime(0), "place");
            let group = schedule::placement(&placement).into_group(group);
            if self.commit(&group) {
                settled.placed += 1;
                *self
                    .placed
                    .entry((placement.job, placement.run))
                    .or_default() += 1;
            } else {
                settled.refused += 1;
                self.refused += 1;
            }
        }
        settled.lsn = self.lsn;
        settled
    }
}

fn inventory(name: &str, cpus: u64) -> Inventory {
    Inventory {
        name: name.into(),
        incarnation: Incarnation([1; 16]),
        boot_id: "boot".into(),
        address: "127.0.0.1".into(),
        cpus: MilliCpu(cpus * 1000),
        memory: Bytes(1 << 30),
        port_first: 20_000,
        port_last: 20_009,
        labels: Vec::new(),
        not_enforced: Vec::new(),
    }
}

/// One history; how many plans were made, placements refused, and full states sent.
fn history(seed: u64) -> (u64, u64, u64) {
    let mut dice = Dice(seed);
    let mut controller = Controller::new();
    let mut core = Core::default();
    controller.open(&core.open());
    let mut waiting: Option<Plan> = None;
    for _ in 0..150 {
        controller.happen(&mut dice);
        match dice.roll(14) {
            // The connection is lost, with all that is under way on it.
            0 => {
                waiting = None;
                controller.open(&core.open());
                continue;
            }
            // The scheduler is killed.
            1 if dice.roll(3) == 0 => {
                core = Core::default();
                waiting = None;
                controller.open(&core.open());
                continue;
            }
            // The controller forgets its history.
            2 if dice.roll(3) == 0 => controller.cursor = Cursor::new(Scope::Scheduler, 0),
            _ => {}
        }
        step(&mut controller, &mut core, &mut waiting, &mut dice);
    }
    // Nothing fails any more: all that can run is placed.
    for round in 0.. {
        assert!(round < 500, "seed {seed}: it does not come to rest");
        controller.now += 100;
        let mut quiet = Dice(round);
        step(&mut controller, &mut core, &mut waiting, &mut quiet);
        let now = ClusterTime(controller.now);
        if waiting.is_none() && schedule::plan(&controller.view(), now).is_empty() {
            break;
        }
    }
    assert_eq!(audit(&controller.view()), Vec::new());
    let twice = controller.placed.iter().find(|(_, times)| **times > 1);
    assert_eq!(twice, None, "seed {seed}: a run was placed twice");
    (controller.plans, controller.refused, controller.fulls)
}

/// The scheduler hears something and looks; its plan is settled now or later.
fn step(controller: &mut Controller, core: &mut Core, waiting: &mut Option<Plan>, dice: &mut Dice) {
    if let Some(plan) = waiting.take_if(|_| dice.roll(2) == 0) {
        let settled = controller.settle(plan);
        // The word of it may be lost with the connection.
        if dice.roll(10) == 0 {
            controller.open(&core.open());
            return;
        }
        core.hear(ToReader::Settled(settled), controller.now)
            .expect("it is understood");
    }
    let told = controller.tell(1 + dice.roll(6) as usize);
    core.hear(told, controller.now).expect("it is understood");
    if core.forgets() {
        controller.open(&core.open());
        return;
    }
    for word in core.look(controller.now) {
        match word {
            FromReader::Plan(plan) => {
                assert!(waiting.is_none(), "one plan at a time");
                *waiting = Some(plan);
            }
            FromReader::Taken { number } => assert_eq!(number, controller.number),
            FromReader::Open { .. } => panic!("a connection begins once"),
        }
    }
}

#[test]
fn plans_are_those_of_the_states_they_name_and_no_run_is_placed_twice() {
    let (mut plans, mut refused, mut fulls) = (0, 0, 0);
    for seed in 0..300 {
        let (some, no, full) = history(seed);
        plans += some;
        refused += no;
        fulls += full;
    }
    assert!(plans > 1000, "{plans} plans");
    assert!(refused > 10, "{refused} placements were refused");
    assert!(fulls > 300, "{fulls} full states");
}

#[test]
fn nothing_is_planned_from_a_part_of_the_state() {
    let mut controller = Controller::new();
    controller.fact(HostFact::Joined {
        stale: Vec::new(),
        gone: Vec::new(),
        inventory: inventory("w1", 8),
    });
    for _ in 0..3 {
        let operation = OperationId::default();
        let spec = Box::new(spec(1, None));
        controller.fact(JobFact::Submitted { spec, operation });
    }
    let mut core = Core::default();
    controller.open(&core.open());
    let first = controller.tell(2);
    core.hear(first, 0).expect("it is understood");
    assert_eq!(core.look(0), [FromReader::Taken { number: 1 }]);
    assert_eq!(core.wakes_at(0), None);
    let rest = controller.tell(100);
    core.hear(rest, 0).expect("it is understood");
    let said = core.look(0);
    let [FromReader::Plan(plan), FromReader::Taken { number: 2 }] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(plan.placements.len(), 3);
    // Nothing more before it is known what became of it, nor before that is seen.
    assert_eq!(core.look(0), []);
    let settled = controller.settle(plan.clone());
    core.hear(ToReader::Settled(settled), 0)
        .expect("it is understood");
    assert_eq!(core.look(0), []);
}

#[test]
fn a_plan_that_comes_to_nothing_is_not_made_again_at_once() {
    let mut controller = Controller::new();
    controller.fact(HostFact::Joined {
        stale: Vec::new(),
        gone: Vec::new(),
        inventory: inventory("w1", 8),
    });
    let (spec, operation) = (Box::new(spec(1, None)), OperationId::default());
    controller.fact(JobFact::Submitted { spec, operation });
    let mut core = Core::default();
    controller.open(&core.open());
    let told = controller.tell(100);
    core.hear(told, 0).expect("it is understood");
    let mut now = 0;
    for number in 1..=5 {
        let said = core.look(now);
        assert!(matches!(&said[0], FromReader::Plan(plan) if plan.number == number));
        let settled = PlanSettled {
            number,
            refused: 1,
            ..PlanSettled::default()
        };
        core.hear(ToReader::Settled(settled), now)
            .expect("it is understood");
        assert_eq!(core.forgets(), number == 5);
        if number < 5 {
            assert_eq!(core.look(now), []);
            now = core.wakes_at(now).expect("it tries again");
        }
    }
    // The state is read anew.
    assert_eq!(core.open(), FromReader::Open { after: 0 });
}
