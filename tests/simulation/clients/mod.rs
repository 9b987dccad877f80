//! Clients of several controllers: they ask one thing at a time, turn to another controller when they
//! are not answered, and ask again under the same operation until they know.

mod asking;
mod door;
mod history;
mod linear;
mod positions;
mod watch;

use std::collections::BTreeMap;

use xce_ledger::Operation;
use xce_model::OperationId;
use xce_service::rules::Command;

use crate::seats::End;
use crate::world::{Event, World};

pub use asking::{KEYS, OTHERS, TEMPLATES};
pub use history::{Answered, Asking, State};
pub use watch::{Part, Watch};

/// How long a client waits for an answer. Source: chosen, some commits of a slow disk.
const ANSWER_MS: u64 = 2_500;
/// Pause before it turns to another controller.
const TURN_MS: u64 = 40;

/// What a client asks.
#[derive(Debug, Clone)]
pub enum Op {
    /// A service of this name with so many replicas.
    Create(String, u32),
    /// A change of the service of this name.
    Change(String, Command),
    /// A batch job.
    Submit,
    /// What the service of this name is; the primary answers.
    Read(String),
    /// The same, of whichever controller is asked, as of a position that it says.
    Stale(String),
}

/// What a client hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It was carried out at this position.
    Done { lsn: u64, created: Option<u64> },
    /// What there is as of a position.
    Found { lsn: u64, state: Option<State> },
    /// It was certainly not carried out, and will not be.
    Refused(String),
    /// Ask again; the primary may be there.
    Again(Option<usize>),
}

/// What happens to a client.
#[derive(Debug, Clone)]
pub enum ClientEvent {
    /// A request arrives at a controller.
    Arrives { seat: usize, attempt: u64 },
    /// An answer arrives.
    Hears { attempt: u64, answer: Box<Answer> },
    /// It has waited long enough.
    Late { attempt: u64 },
    /// It asks the next thing.
    Asks,
    /// It tries once more.
    Turns { attempt: u64 },
    /// It opens its watch at a controller.
    Opens { seat: usize, number: u64 },
    /// A part of its watch arrives.
    Sees { number: u64, part: Box<Part> },
    /// Its watch has ended.
    Blind { number: u64 },
}

#[derive(Debug, Clone)]
pub struct Doing {
    pub op: Op,
    pub operation: Operation,
    /// Its place in the history.
    pub record: usize,
}

#[derive(Debug, Default)]
pub struct Client {
    pub doing: Option<Doing>,
    attempt: u64,
    hint: Option<usize>,
    tried: usize,
    /// The highest position that it knows to be committed.
    seen: u64,
    pub watch: Watch,
}

#[derive(Debug, Default)]
pub struct Clients {
    pub all: Vec<Client>,
    operations: u64,
    /// How much is still asked without being told to.
    pub lively: u32,
    /// Who waits at the door of which controller: client, attempt, seat.
    waiting: BTreeMap<u64, (usize, u64, usize)>,
    tickets: u64,
    pub asked: Vec<Asking>,
    /// Where operations were carried out.
    pub carried_out: BTreeMap<OperationId, u64>,
    /// What services were, by name and since which position.
    pub states: BTreeMap<String, Vec<(u64, Option<State>)>>,
}

impl Clients {
    /// The controller that an event of a client concerns, if it is one's.
    pub fn concerns(&self, _client: usize, event: &ClientEvent) -> Option<usize> {
        match event {
            ClientEvent::Arrives { seat, .. } | ClientEvent::Opens { seat, .. } => Some(*seat),
            ClientEvent::Hears { .. }
            | ClientEvent::Late { .. }
            | ClientEvent::Asks
            | ClientEvent::Turns { .. }
            | ClientEvent::Sees { .. }
            | ClientEvent::Blind { .. } => None,
        }
    }
}

impl World {
    fn client(&mut self, client: usize) -> &mut Client {
        &mut self.clients.all[client]
    }

    fn client_after(&mut self, wait: u64, client: usize, event: ClientEvent) {
        self.after(wait, Event::Client(client, event));
    }

    /// Whether a client waits for nothing.
    pub fn is_free(&self, client: usize) -> bool {
        self.clients.all[client].doing.is_none()
    }

    /// A client begins to ask.
    pub fn begin(&mut self, client: usize, op: Op) {
        self.clients.operations += 1;
        let made_at = self.client(client).seen;
        let operation = crate::controller::operation(self.clients.operations, made_at);
        self.tell(|| format!("client {client} asks {op:?}"));
        let record = self.clients.asked.len();
        self.clients.asked.push(Asking {
            op: op.clone(),
            operation: operation.id,
            begun: self.now,
            answered: None,
        });
        self.client(client).doing = Some(Doing {
            op,
            operation,
            record,
        });
        self.attempt(client);
    }

    /// Asks one controller: the one that is said to lead, or the next.
    fn attempt(&mut self, client: usize) {
        let count = self.house().count();
        let one = self.client(client);
        one.attempt += 1;
        one.tried = (one.tried + 1) % count;
        let seat = one.hint.take().unwrap_or(one.tried);
        let attempt = one.attempt;
        let (here, there) = (End::Client(client), End::Seat(seat));
        let lost = self.house().weather.lost_permille;
        if self.reaches(here, there) && self.dice.below(1_000) >= lost {
            let bound = self.house().weather.delay_ms;
            let wait = self.some(bound);
            self.client_after(wait, client, ClientEvent::Arrives { seat, attempt });
        }
        self.client_after(ANSWER_MS, client, ClientEvent::Late { attempt });
    }

    pub fn client_happens(&mut self, client: usize, event: ClientEvent) {
        let current = self.client(client).attempt;
        match event {
            ClientEvent::Arrives { seat, attempt } => self.arrives(client, (seat, attempt)),
            ClientEvent::Hears { attempt, answer } if attempt == current => {
                self.hears(client, *answer);
            }
            ClientEvent::Late { attempt } if attempt == current => {
                if self.client(client).doing.is_some() {
                    self.meet("an answer that did not come");
                    self.attempt(client);
                }
            }
            ClientEvent::Turns { attempt } if attempt == current => {
                if self.client(client).doing.is_some() {
                    self.attempt(client);
                }
            }
            ClientEvent::Hears { .. } | ClientEvent::Late { .. } | ClientEvent::Turns { .. } => {}
            ClientEvent::Asks => self.asks(client),
            ClientEvent::Opens { seat, number } => self.watch_opens(client, (seat, number)),
            ClientEvent::Sees { number, part } => self.watch_sees(client, number, *part),
            ClientEvent::Blind { number } => self.watch_is_blind(client, number),
        }
    }

    fn hears(&mut self, client: usize, answer: Answer) {
        let Some(doing) = self.client(client).doing.clone() else {
            return;
        };
        if let Answer::Again(hint) = answer {
            let bound = 2 * TURN_MS;
            let wait = match hint {
                Some(_) => 0,
                None => TURN_MS + self.some(bound),
            };
            let one = self.client(client);
            one.hint = hint;
            let attempt = one.attempt;
            return self.client_after(wait, client, ClientEvent::Turns { attempt });
        }
        self.tell(|| format!("client {client} hears {answer:?}"));
        let fresh = !matches!(doing.op, Op::Stale(_));
        if let Answer::Done { lsn, .. } | Answer::Found { lsn, .. } = &answer
            && fresh
        {
            let lsn = *lsn;
            let one = self.client(client);
            one.seen = one.seen.max(lsn);
        }
        self.client(client).doing = None;
        let now = self.now;
        self.clients.asked[doing.record].answered = Some(Answered { at: now, answer });
        self.ask_later(client);
    }
}
