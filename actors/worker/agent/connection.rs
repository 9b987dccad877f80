//! The connection to the cluster: made again for ever, and the way of facts to the controller.
//!
//! ```text
//!   dial ─► hello ─► join ─► joined(mark) ─► facts after the mark, in order, as they come
//!    ▲                                             │ committed(mark): they leave the spool
//!    └────────────── after 50 ms to 2 s ◄──────────┘ the connection ends
//! ```

use std::sync::Arc;
use std::time::Duration;
use xce_model::chain;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use xce_failpoint::Point;
use xce_host::wire::Join;
use xce_link::{
    CloseCode, Connected, DecodeError, Dialer, Frame, Hello, HelloAnswer, HelloCode, Inbox,
    Opening, Order, Peer, PeerKind, Route, RouteRole, SendError,
};
use xce_model::Refusal;
use xce_replica::wire::{Output, ReadOutput, Reports};
use xce_runtime::{Address, NotDelivered};
use xce_session::worker_wire::{FromWorker, ToWorker};

use super::AgentMessage;
use crate::output;
use crate::spool::Haste;
use crate::station::Station;

/// Delays between attempts to connect.
///
/// Source: chosen; a controller that starts again is back within a second, and a thousand workers
/// that retry every 2 s are 500 packets a second.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LONGEST: Duration = Duration::from_secs(2);

/// Longest time over which coming back is spread, whatever the cluster says.
///
/// Source: derived; a host is suspect after three missed beats of 2 s.
const SPREAD_LONGEST: Duration = Duration::from_secs(5);

/// How long connecting, the hello, and the join may take each.
///
/// Source: derived; a herd of 5 000 took 3.4 s (foundations section 3).
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Most facts and bytes in one message.
///
/// Source: derived; the controller commits a message as one group, and a group of this size is
/// written in about a millisecond.
const BATCH_FACTS_MAX: usize = 1_024;
const BATCH_BYTES_MAX: usize = 512 * 1024;

/// Most facts sent and not committed.
///
/// Source: derived; ten full messages keep the wire busy, and bound what is sent twice after a
/// lost connection.
const IN_FLIGHT_MAX: u64 = 10 * 1_024;

/// Answers to requests for output that are made at once.
///
/// Source: derived; 16 MiB of memory at most.
const READS_MAX: usize = 16;

/// How long the fact that a run has started may wait for more to be sent with it.
///
/// Source: derived; a shim whose job does nothing says that it has ended 2 ms after the start, on a
/// busy machine 5 ms, and then both cost one message and one commit. Whoever looks at a job sees its
/// start so much later, with the time at which it was.
const STARTED_WAITS: Duration = Duration::from_millis(5);

/// Pause before the inbox of a busy agent, or the queue of a slow peer, is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("cannot connect")]
    Dial(#[from] xce_link::DialError),
    #[error("the connection ended")]
    Receive(#[from] xce_link::ReceiveError),
    #[error("cannot send")]
    Send(#[from] SendError),
    #[error("the controller said what is not understood")]
    Decode(#[from] DecodeError),
    #[error("the controller did not answer in time")]
    Late,
    #[error("the controller refused: {}", .0.text)]
    Refused(Refusal),
    #[error("the spool cannot be used")]
    Spool(#[from] std::io::Error),
}

/// Connects and serves, again and again; never returns.
pub(super) struct Connection {
    pub station: Arc<Station>,
    pub agent: Address<AgentMessage>,
    pub dialer: Dialer,
}

/// What is kept of the connections so far.
#[derive(Default)]
struct Known {
    /// The sealed token of the session, for resuming it.
    token: Option<Vec<u8>>,
    /// Where the last standby that was asked said that the primary is.
    primary: Option<std::net::SocketAddr>,
    order: Order,
    /// Over how long all peers spread their coming back, as the cluster said.
    spread: Duration,
}

struct Session {
    peer: Peer,
    number: u64,
    joined: bool,
    /// Epoch that `cursor` belongs to.
    epoch: u64,
    /// Facts up to here were sent on this connection.
    cursor: u64,
    reads: Arc<Semaphore>,
}

impl Connection {
    pub(super) async fn run(self) {
        let mut known = Known {
            order: Order::new(&self.station.settings.controllers),
            ..Known::default()
        };
        let mut delay = RETRY_FIRST;
        for number in 1.. {
            let mut joined = false;
            let before = known.primary;
            let ended = self.once(number, &mut known, &mut joined).await;
            let Err(ended) = ended;
            let error = chain(&ended);
            tracing::info!(error = %error, "not connected to the cluster");
            self.tell(AgentMessage::Disconnected {
                number,
                text: error,
            })
            .await;
            if joined {
                delay = RETRY_FIRST;
            }
            if known.primary.is_some() && known.primary != before {
                // A standby said where the primary is.
                continue;
            }
            // The first attempt is one of very many in a large cluster.
            let (least, over) = match joined {
                true => (Duration::ZERO, RETRY_FIRST.max(known.spread)),
                false => (delay / 2, delay / 2),
            };
            tokio::time::sleep(least + over.mul_f64(fastrand::f64())).await;
            delay = (delay * 2).min(RETRY_LONGEST);
        }
    }

    async fn once(
        &self,
        number: u64,
        known: &mut Known,
        joined: &mut bool,
    ) -> Result<std::convert::Infallible, Ended> {
        let Connected { peer, mut inbox } = self
            .dialer
            .dial(known.order.addresses(), ANSWER_WITHIN)
            .await?;
        known.order.reached(peer.remote());
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.hello(&peer, &mut inbox, known));
        answer.await.map_err(|_| Ended::Late)??;
        let join = {
            let spool = self.station.spool.lock();
            Join {
                inventory: self.station.inventory.clone(),
                epoch: spool.epoch(),
                committed: spool.committed(),
                runs: self.station.roster.held(),
            }
        };
        peer.push(0, &FromWorker::Join(Box::new(join)))?;
        let reads = Arc::new(Semaphore::new(READS_MAX));
        let session = Session {
            peer,
            number,
            joined: false,
            epoch: 0,
            cursor: 0,
            reads,
        };
        self.serve(session, inbox, joined).await
    }

    async fn hello(&self, peer: &Peer, inbox: &mut Inbox, known: &mut Known) -> Result<(), Ended> {
        let opening = match known.token.clone() {
            None => Opening::New,
            Some(token) => Opening::Resume {
                token,
                last_lsn: 0,
                last_seq: 0,
            },
        };
        let hello = Hello {
            versions: self.station.settings.protocol,
            cluster: self.dialer.identity().principal().cluster,
            kind: PeerKind::Worker,
            incarnation: self.station.inventory.incarnation,
            opening,
        };
        peer.send(Route::request(1), &hello)?;
        let frame = inbox.receive().await?;
        if frame.route().role == RouteRole::Refusal {
            return Err(Ended::Refused(frame.decode::<Refusal>()?));
        }
        match frame.decode::<HelloAnswer>()? {
            HelloAnswer::Welcome(welcome) => {
                known.token = Some(welcome.token);
                known.spread = Duration::from_millis(welcome.spread_ms).min(SPREAD_LONGEST);
                Ok(())
            }
            HelloAnswer::Refused(refusal) => {
                // The next attempt asks for a new session.
                if matches!(refusal.code, HelloCode::Token | HelloCode::Fenced) {
                    known.token = None;
                }
                if refusal.code == HelloCode::NotPrimary {
                    known.primary = refusal.primary_address();
                    if let Some(primary) = known.primary {
                        known.order.named(primary);
                    }
                }
                Err(Ended::Refused(refusal.refusal()))
            }
        }
    }

    async fn serve(
        &self,
        mut session: Session,
        mut inbox: Inbox,
        joined: &mut bool,
    ) -> Result<std::convert::Infallible, Ended> {
        let join_due = tokio::time::sleep(ANSWER_WITHIN);
        tokio::pin!(join_due);
        let mut send_due: Option<Instant> = None;
        loop {
            let due = send_due;
            tokio::select! {
                frame = inbox.receive() => {
                    self.received(&mut session, frame?).await?;
                    if session.joined && !*joined {
                        *joined = true;
                        let (number, peer) = (session.number, session.peer.clone());
                        self.tell(AgentMessage::Joined { number, peer }).await;
                    }
                }
                () = self.station.spool.changed.notified(), if session.joined => {}
                () = until(due), if due.is_some() => {}
                () = &mut join_due, if !session.joined => return Err(Ended::Late),
            }
            if session.joined && self.is_due(&session, &mut send_due) {
                self.send_facts(&mut session).await?;
            }
        }
    }

    /// Whether facts are to be sent now; notes when those that may wait are.
    fn is_due(&self, session: &Session, send_due: &mut Option<Instant>) -> bool {
        let spool = self.station.spool.lock();
        let is_same = spool.epoch() == session.epoch;
        let haste = spool.haste(if is_same { session.cursor } else { 0 });
        drop(spool);
        match haste {
            Haste::Nothing => *send_due = None,
            Haste::AtOnce => {
                *send_due = None;
                return true;
            }
            Haste::Soon => {
                let now = Instant::now();
                let due = *send_due.get_or_insert(now + STARTED_WAITS);
                if due <= now {
                    *send_due = None;
                    return true;
                }
            }
        }
        false
    }

    async fn received(&self, session: &mut Session, frame: Frame) -> Result<(), Ended> {
        if frame.route().role == RouteRole::Refusal {
            return Err(Ended::Refused(frame.decode::<Refusal>()?));
        }
        let number = session.number;
        match frame.decode::<ToWorker>()? {
            ToWorker::Joined(mark) => {
                self.station.spool.committed(&mark)?;
                session.epoch = self.station.spool.lock().epoch();
                session.cursor = self.station.spool.lock().committed();
                session.joined = true;
                xce_failpoint::hit(Point::WorkerJoined);
            }
            // Behind the orders that came before it: they must still find the ends that they are
            // older than.
            ToWorker::Committed(mark) => self.tell(AgentMessage::Committed { mark }).await,
            ToWorker::Orders(orders) => {
                self.tell(AgentMessage::Orders {
                    number,
                    orders: Box::new(orders),
                })
                .await;
            }
            ToWorker::BeatAck(ack) => self.tell(AgentMessage::Acknowledged { number, ack }).await,
            ToWorker::ReadOutput(question) => {
                self.read_output(session, frame.route().request, question);
            }
            ToWorker::Refused(refusal) => {
                session.peer.close(CloseCode::Done, "the join was refused");
                return Err(Ended::Refused(refusal));
            }
        }
        Ok(())
    }

    /// Sends what is there and was not sent; nothing waits for more to come.
    async fn send_facts(&self, session: &mut Session) -> Result<(), Ended> {
        loop {
            let (epoch, after, reports, dirty) = {
                let mut spool = self.station.spool.lock();
                if spool.epoch() != session.epoch {
                    tracing::warn!("the spool was behind the controller; a new epoch begins");
                    (session.epoch, session.cursor) = (spool.epoch(), 0);
                }
                if session.cursor.saturating_sub(spool.committed()) >= IN_FLIGHT_MAX {
                    return Ok(());
                }
                let reports = spool.batch(session.cursor, BATCH_FACTS_MAX, BATCH_BYTES_MAX);
                let dirty = if self.station.settings.sync {
                    spool.take_dirty()?
                } else {
                    None
                };
                (spool.epoch(), session.cursor, reports, dirty)
            };
            let Some(last) = reports.last().map(|report| report.sequence) else {
                return Ok(());
            };
            if let Some(file) = dirty {
                xce_failpoint::check(Point::SpoolSyncBefore)?;
                let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
                synced.unwrap_or_else(|error| Err(std::io::Error::other(error)))?;
                xce_failpoint::hit(Point::SpoolSynced);
            }
            let message = FromWorker::Reports(Reports {
                epoch,
                after,
                reports,
            });
            loop {
                match session.peer.push(0, &message) {
                    Ok(()) => break,
                    Err(SendError::SlowPeer { .. }) => tokio::time::sleep(PAUSE).await,
                    Err(error) => return Err(error.into()),
                }
            }
            session.cursor = last;
            xce_failpoint::hit(Point::SpoolSent);
        }
    }

    fn read_output(&self, session: &Session, request: u64, question: ReadOutput) {
        let peer = session.peer.clone();
        let Ok(permit) = session.reads.clone().try_acquire_owned() else {
            let busy = Output {
                offset: question.offset,
                data: Vec::new(),
                complete: false,
                problem: "the worker is busy reading other output".to_owned(),
            };
            // An error says that nobody waits any more.
            let _ = peer.reply(request, &FromWorker::Output(busy));
            return;
        };
        let station = self.station.clone();
        let _reading = tokio::task::spawn_blocking(move || {
            let answer = FromWorker::Output(output::read(&station.dir, &question));
            let _ = peer.reply(request, &answer);
            drop(permit);
        });
    }

    async fn tell(&self, message: AgentMessage) {
        let mut message = message;
        loop {
            message = match self.agent.cast(message.clone()) {
                // Where the agent is down it will start anew, and this connection ends with it.
                Ok(()) | Err(NotDelivered::Down) => return,
                Err(NotDelivered::Overloaded) => message,
            };
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}
