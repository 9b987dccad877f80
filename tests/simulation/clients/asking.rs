//! What clients ask, at random, one thing after the other.

use xce_model::{MilliCpu, Millis};
use xce_service::rules::{Command, Which};

use super::{ClientEvent, Op};
use crate::histories::random_template;
use crate::users::{scale, spec_of, update};
use crate::world::{Event, World};

/// Services whose counts clients set and read, and whose answers are searched for an order.
pub const KEYS: [&str; 2] = ["k1", "k2"];
/// Services that are changed in every way.
pub const OTHERS: [&str; 2] = ["w1", "w2"];
/// Other commands of services.
pub const TEMPLATES: u64 = 4;

impl World {
    /// A client asks something after a while.
    pub fn ask_later(&mut self, client: usize) {
        let bound = self.dice.pick(&[2, 30, 200, 2_000]);
        let wait = 1 + self.some(bound);
        self.after(wait, Event::Client(client, ClientEvent::Asks));
    }

    pub fn asks(&mut self, client: usize) {
        if self.clients.lively == 0 || !self.is_free(client) {
            return;
        }
        self.clients.lively -= 1;
        let op = self.any_op();
        self.begin(client, op);
    }

    fn any_op(&mut self) -> Op {
        let key = self.dice.pick(&KEYS).to_owned();
        match self.dice.below(20) {
            0 => Op::Create(key, self.dice.number(4)),
            1..=6 => Op::Change(key, scale(self.dice.number(4))),
            7..=14 => Op::Read(key),
            15 => Op::Stale(key),
            16 => Op::Submit,
            17 => Op::Create(self.dice.pick(&OTHERS).to_owned(), self.dice.number(4)),
            _ => self.change_of_other(),
        }
    }

    fn change_of_other(&mut self) -> Op {
        let name = self.dice.pick(&OTHERS).to_owned();
        self.see_all();
        let view = self.view();
        let Some(record) = view.service_named("default", &name).cloned() else {
            return Op::Create(name, 1 + self.dice.number(4));
        };
        let command = match self.dice.below(12) {
            0..=1 => scale(self.dice.number(6)),
            2..=6 => {
                let mut spec = spec_of(&record);
                let text = format!("t{}", self.dice.below(TEMPLATES));
                spec.template = random_template(&mut self.dice, spec.template.clone(), &text);
                spec.template.resources.cpus = MilliCpu(100);
                spec.settings.rollout.progress_deadline = Millis::seconds(20);
                update(spec)
            }
            7 => Command::Pause,
            8 => Command::Resume,
            9 => Command::Rollback { to: None },
            10 => Command::Restart,
            _ => match view.live_replicas(record.id).next() {
                Some(job) => Command::Kill {
                    which: Which::Job(job.id),
                    cause: xce_model::Cause::TermOwner,
                },
                None => Command::Restart,
            },
        };
        Op::Change(name, command)
    }
}
