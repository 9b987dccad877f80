//! The world: time, events, faults, and what scenarios ask of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use xce_host::rules::Patience;
use xce_ledger::View;
use xce_model::Millis;

use crate::behaviour::Behaviour;
use crate::clients::{ClientEvent, Clients};
use crate::consensus::Envelope;
use crate::controller::{ActorKey, Controller};
use crate::dice::Dice;
use crate::invariants::Checks;
use crate::log::Log;
use crate::machine::{Machine, MachineEvent};
use crate::network::Links;
use crate::seats::{SeatEvent, Seats};
use crate::users::Users;

/// When the world begins, in milliseconds of all its clocks.
const BEGIN: u64 = 1_000_000;
/// Most events without any time passing: more are a loop. Source: derived; a rollout of some dozen
/// replicas takes a few thousand.
const EVENTS_MAX: u32 = 200_000;
/// Lines of the story that are kept. Source: derived, what a person reads of a failure.
const STORY_MAX: usize = 400;

/// What becomes of the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// It is not even made, which is quicker.
    Nothing,
    /// Its end is kept.
    Keeps,
    /// It is printed as it happens.
    Aloud,
}

/// How long things take, and how patient the controller is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Most time from a proposal to its commit.
    pub commit_ms: u64,
    /// Most time from being told to acting.
    pub think_ms: u64,
    /// Most time of a message on the network.
    pub network_ms: u64,
    pub patience: Patience,
    /// How long ended jobs stay.
    pub keep_ended: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commit_ms: 1,
            think_ms: 0,
            network_ms: 1,
            patience: Patience {
                beat: Millis::seconds(2),
                grace: Millis::seconds(20),
                away_max: Millis::seconds(600),
            },
            keep_ended: Millis::seconds(86_400),
        }
    }
}

/// What happens at a time.
#[derive(Debug, Clone)]
pub enum Event {
    /// The next entry of the log is committed.
    Commit,
    /// An actor of this incarnation handles what it has been told.
    Act(ActorKey, u64),
    /// The timer of an actor of this incarnation runs out.
    Due(ActorKey, u64, u64),
    /// An actor that died starts again.
    Recover(ActorKey, u64),
    /// The controller starts.
    StartController(u64),
    /// The oldest message of a link to the controller arrives.
    Up(u64),
    /// The oldest message of a link to the worker arrives.
    Down(u64),
    Machine(usize, MachineEvent),
    /// Something of one controller's process.
    Seat(usize, u64, SeatEvent),
    /// A message of one controller to another.
    Packet(usize, Box<Envelope>),
    /// Something of a client.
    Client(usize, ClientEvent),
}

pub struct World {
    pub now: u64,
    pub seed: u64,
    pub dice: Dice,
    pub settings: Settings,
    /// Of the controller that is entered; the only one where there are not several.
    pub log: Log,
    pub controller: Controller,
    /// Which one that is.
    pub seat: usize,
    pub seats: Option<Box<Seats>>,
    pub clients: Clients,
    pub links: Links,
    pub machines: Vec<Machine>,
    pub behaviours: BTreeMap<String, Behaviour>,
    /// Behaviours on one machine.
    pub behaviours_on: BTreeMap<(usize, String), Behaviour>,
    pub users: Users,
    pub checks: Checks,
    pub story: VecDeque<String>,
    pub tells: Tells,
    /// What is planned, with the controller of which it was.
    events: BTreeMap<(u64, u64), (usize, Event)>,
    sequence: u64,
    /// Kinds of what happened, counted: a run that never meets something proves nothing of it.
    pub met: BTreeMap<&'static str, u64>,
    pub unready: BTreeSet<u64>,
}

impl World {
    /// Hosts with room for a hundred small jobs each, all joined.
    pub fn new(hosts: usize) -> Self {
        Self::custom(hosts, 0, Settings::default(), 10_000)
    }

    pub fn custom(hosts: usize, seed: u64, settings: Settings, milli_cpus: u64) -> Self {
        Self::telling(Tells::Keeps, (hosts, milli_cpus), seed, settings)
    }

    /// A world of so many hosts with so many processors each.
    pub fn telling(tells: Tells, size: (usize, u64), seed: u64, settings: Settings) -> Self {
        let (hosts, milli_cpus) = size;
        let mut world = Self {
            now: BEGIN,
            seed,
            dice: Dice::new(seed),
            settings,
            log: Log::new(),
            controller: Controller::default(),
            seat: 0,
            seats: None,
            clients: Clients::default(),
            links: Links::default(),
            machines: Vec::new(),
            behaviours: BTreeMap::new(),
            behaviours_on: BTreeMap::new(),
            users: Users::default(),
            checks: Checks::default(),
            story: VecDeque::new(),
            tells,
            events: BTreeMap::new(),
            sequence: 0,
            met: BTreeMap::new(),
            unready: BTreeSet::new(),
        };
        world.machines = (0..hosts)
            .map(|place| Machine::new(place, milli_cpus))
            .collect();
        world.start_controller();
        for place in 0..hosts {
            world.start_daemon(place);
        }
        world.run_for(1_000);
        for machine in &world.machines {
            assert!(
                world.view().host(&machine.name).is_some(),
                "{} has joined",
                machine.name
            );
        }
        world
    }

    /// A world of several controllers, of which none has started.
    pub fn seated(
        tells: Tells,
        size: (usize, usize),
        seed: u64,
        settings: Settings,
        seats: Seats,
    ) -> Self {
        let (hosts, count) = size;
        let mut world = Self {
            now: BEGIN,
            seed,
            dice: Dice::new(seed),
            settings,
            log: Log::new(),
            controller: Controller::default(),
            seat: count,
            seats: Some(Box::new(seats)),
            clients: Clients::default(),
            links: Links::default(),
            machines: Vec::new(),
            behaviours: BTreeMap::new(),
            behaviours_on: BTreeMap::new(),
            users: Users::default(),
            checks: Checks::default(),
            story: VecDeque::new(),
            tells,
            events: BTreeMap::new(),
            sequence: 0,
            met: BTreeMap::new(),
            unready: BTreeSet::new(),
        };
        world.seat_at(count).parked = None;
        world.machines = (0..hosts)
            .map(|place| Machine::new(place, 10_000))
            .collect();
        world
    }

    pub fn view(&self) -> Arc<View> {
        self.log.view()
    }

    /// Plans an event; those of one time happen in the order in which they were planned.
    pub fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events
            .insert((time.max(self.now), self.sequence), (self.seat, event));
    }

    pub fn after(&mut self, wait: u64, event: Event) {
        self.at(self.now.saturating_add(wait), event);
    }

    /// A time up to a bound; none where the bound is none.
    pub fn some(&mut self, bound: u64) -> u64 {
        match bound {
            0 => 0,
            bound => self.dice.below(bound + 1),
        }
    }

    /// Notes a line of the story; made only where it may be read.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.tells == Tells::Nothing {
            return;
        }
        let line = format!("{:>9.3} {}", self.now as f64 / 1000.0, line());
        if self.tells == Tells::Aloud {
            println!("{line}");
        }
        if self.story.len() >= STORY_MAX {
            self.story.pop_front();
        }
        self.story.push_back(line);
    }

    pub fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    /// The end of the story, for a message.
    pub fn told(&self) -> String {
        let lines: Vec<&str> = self.story.iter().map(String::as_str).collect();
        format!("seed {}\n{}", self.seed, lines.join("\n"))
    }

    /// Fails with the story.
    #[track_caller]
    pub fn fail(&self, text: &str) -> ! {
        panic!("{text}\n{}", self.told());
    }

    /// Lets something happen at the controller that it concerns, or before the observer's eyes.
    fn happen_at(&mut self, seat: usize, event: Event) {
        let Some(seats) = &self.seats else {
            return self.happen(event);
        };
        let seat = match &event {
            Event::Commit
            | Event::Act(..)
            | Event::Due(..)
            | Event::Recover(..)
            | Event::StartController(_) => seat,
            Event::Up(link) => self.links.all.get(link).map_or(seat, |link| link.seat),
            Event::Seat(seat, ..) | Event::Packet(seat, _) => *seat,
            Event::Client(client, event) => self
                .clients
                .concerns(*client, event)
                .unwrap_or(seats.count()),
            Event::Down(_) | Event::Machine(..) => seats.count(),
        };
        let paused = seats.all[seat].paused_until;
        if paused > self.now {
            // Its process stands still.
            self.sequence += 1;
            self.events.insert((paused, self.sequence), (seat, event));
            return;
        }
        self.enter(seat);
        self.happen(event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Commit => self.commit_entry(),
            Event::Act(key, incarnation) => self.act(&key, incarnation),
            Event::Due(key, incarnation, at) => self.due(&key, incarnation, at),
            Event::Recover(key, incarnation) => self.recover(&key, incarnation),
            Event::StartController(number) if number == self.controller.number => {
                self.start_controller();
            }
            Event::StartController(_) => {}
            Event::Up(link) => self.deliver_up(link),
            Event::Down(link) => self.deliver_down(link),
            Event::Machine(place, event) => self.machine_event(place, event),
            Event::Seat(seat, process, event) => self.seat_happens(seat, process, &event),
            Event::Packet(seat, envelope) => self.packet_arrives(seat, *envelope),
            Event::Client(client, event) => self.client_happens(client, event),
        }
    }

    /// Lets time pass and things happen, while `go_on` says so.
    pub fn run_while(&mut self, millis: u64, mut go_on: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now.saturating_add(millis);
        let mut here = 0;
        while go_on(self) {
            let Some((&(time, sequence), _)) = self.events.first_key_value() else {
                break;
            };
            if time > end {
                break;
            }
            if time > self.now {
                self.check_deadlines(time);
                here = 0;
            }
            here += 1;
            if here > EVENTS_MAX {
                self.fail("things happen without end and no time passes");
            }
            self.now = time;
            if let Some(seats) = &mut self.seats {
                seats.note(time);
                seats.note(sequence);
            }
            let (seat, event) = self
                .events
                .remove(&(time, sequence))
                .expect("it was the first");
            self.happen_at(seat, event);
        }
        let stopped = !go_on(self);
        if !stopped {
            self.now = end;
        }
        stopped
    }

    pub fn run_for(&mut self, millis: u64) {
        self.run_while(millis, |_| true);
    }

    /// Runs until something holds; fails when it does not within the time.
    #[track_caller]
    pub fn until(&mut self, millis: u64, what: &str, mut holds: impl FnMut(&Self) -> bool) -> u64 {
        let begin = self.now;
        let looks = |world: &mut Self| {
            world.see_all();
            !holds(world)
        };
        if !self.run_while(millis, looks) {
            self.see_all();
            let state = self.describe();
            self.fail(&format!("not within {millis} ms: {what}\n{state}"));
        }
        self.now - begin
    }

    /// Behaviour of processes of a command that begin from now on.
    pub fn behave(&mut self, command: &str, behaviour: Behaviour) {
        self.behaviours.insert(command.to_owned(), behaviour);
    }

    pub fn behaviour(&self, place: usize, command: &str) -> Behaviour {
        self.behaviours_on
            .get(&(place, command.to_owned()))
            .or_else(|| self.behaviours.get(command))
            .cloned()
            .unwrap_or_default()
    }
}
