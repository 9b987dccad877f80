//! A session's actor: one peer's requests, watches and worker messages while it is connected.
//!
//! The reader takes a frame only when there is room for it, so that a peer that asks faster than it
//! is answered is held back by flow control and nothing grows.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use xce_link::{Connected, Frame, Inbox, Message as _, Peer, PeerKind};
use xce_model::{Refusal, RefusalKind};
use xce_runtime::{Context, Crash, Entity, Task, View};
use xce_session::endpoints_wire::EndpointsUsed;
use xce_session::feed_wire::FromReader;
use xce_session::wire::{Ask, AskCluster, AskService, Reply, Request};
use xce_session::worker_wire::FromWorker;

use crate::connections::Connection;
use crate::control::Control;
use crate::sessions::SessionInfo;
use crate::{endpoints, host, requests, scheduler, watch};

/// Requests of one peer that are in work at once. Source: foundations section 3, 64 in flight
/// saturate a connection.
const IN_FLIGHT_MAX: usize = 64;
/// Watches of one session. Source: derived; one per kind and project of a console, with room.
const WATCHES_MAX: usize = 16;

/// The actor. Its connection can be had once: a session that crashes is over, its peer comes back.
pub struct Session {
    control: Arc<Control>,
    info: Arc<SessionInfo>,
    peer: Peer,
    inbox: Mutex<Option<Inbox>>,
}

impl Session {
    /// A session on a connection that has said hello.
    pub fn new(control: Arc<Control>, info: Arc<SessionInfo>, connected: Connected) -> Self {
        Self {
            control,
            info,
            peer: connected.peer,
            inbox: Mutex::new(Some(connected.inbox)),
        }
    }
}

/// What it is told.
pub enum Message {
    /// A frame came; the permit is its share of what may be in work.
    Frame(Box<Frame>, OwnedSemaphorePermit),
    /// The connection has ended.
    Ended,
}

/// What one incarnation knows.
pub struct State {
    _reader: Task,
    watches: Vec<Task>,
    host: Option<String>,
}

#[derive(serde::Serialize)]
struct Seen {
    session: xce_session::wire::SessionView,
    watches: usize,
    host: Option<String>,
    waiting_bytes: usize,
}

impl Entity for Session {
    type Message = Message;
    type State = State;
    const KIND: &'static str = "session";

    async fn recover(&self, context: &Context<Message>) -> Result<State, Crash> {
        let inbox = self
            .inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let inbox = inbox.ok_or("a session's connection can be had only once")?;
        let address = context.address().clone();
        let reader = Task::spawn(async move {
            read(inbox, &address).await;
            // One that is down already needs no word of the end.
            let _ = address.cast(Message::Ended);
        });
        Ok(State {
            _reader: reader,
            watches: Vec::new(),
            host: None,
        })
    }

    async fn handle(
        &self,
        context: &Context<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), Crash> {
        match message {
            Message::Frame(frame, permit) => {
                self.info.received.fetch_add(1, Ordering::Relaxed);
                self.frame(*frame, permit, state);
            }
            Message::Ended => context.stop(),
        }
        Ok(())
    }

    async fn stopping(&self, _context: &Context<Message>, state: &mut State) {
        if let Some(host) = &state.host {
            self.control.connections.take(host, self.info.id);
        }
        endpoints::closed(&self.control, self.info.id);
        if self.info.kind == PeerKind::Scheduler {
            scheduler::ended(&self.control, &self.info);
        }
    }

    fn view(&self, state: &State) -> View {
        View::of(&Seen {
            session: self.info.view(),
            watches: state
                .watches
                .iter()
                .filter(|watch| !watch.is_finished())
                .count(),
            host: state.host.clone(),
            waiting_bytes: self.peer.waiting_bytes(),
        })
    }
}

async fn read(mut inbox: Inbox, address: &xce_runtime::Address<Message>) {
    let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok(frame) = inbox.receive().await else {
            return;
        };
        if address
            .cast(Message::Frame(Box::new(frame), permit))
            .is_err()
        {
            return;
        }
    }
}

impl Session {
    fn frame(&self, frame: Frame, permit: OwnedSemaphorePermit, state: &mut State) {
        let request = frame.route().request;
        match (self.info.kind, frame.kind()) {
            (PeerKind::Worker, FromWorker::KIND) => match frame.decode::<FromWorker>() {
                Ok(message) => self.worker(message, request, state),
                Err(error) => self.protocol_error(&error.to_string()),
            },
            (PeerKind::Scheduler, FromReader::KIND) => match frame.decode::<FromReader>() {
                Ok(what) => {
                    scheduler::said(&self.control, &self.info, &self.peer, request, what);
                }
                Err(error) => self.protocol_error(&error.to_string()),
            },
            (_, Request::KIND) => match frame.decode::<Request>() {
                Ok(asked) => self.request(asked, request, permit, state),
                Err(error) => {
                    let refusal =
                        Refusal::new(RefusalKind::Usage, "malformed_request", error.to_string());
                    drop(self.peer.refuse(request, &refusal));
                }
            },
            (PeerKind::Client | PeerKind::Apiserver, EndpointsUsed::KIND) => {
                match frame.decode::<EndpointsUsed>() {
                    Ok(used) => {
                        endpoints::used(&self.control, self.info.id, request, used.generation);
                    }
                    Err(error) => self.protocol_error(&error.to_string()),
                }
            }
            (kind, number) => {
                let who = crate::sessions::kind_word(kind);
                self.protocol_error(&format!("a {who} sent a message of kind {number}"));
            }
        }
    }

    fn protocol_error(&self, text: &str) {
        tracing::info!(peer = %self.info.principal, text, "protocol error");
        self.peer.close(xce_link::CloseCode::Protocol, text);
    }

    /// Begins to read endpoints, where that is what was asked; gives back any other request.
    fn endpoints(&self, asked: Request, number: u64) -> Option<Request> {
        let Ask::Service(AskService::Endpoints {
            name,
            watch,
            acknowledges,
        }) = asked.ask
        else {
            return Some(asked);
        };
        let (control, peer) = (Arc::clone(&self.control), self.peer.clone());
        let asked_of = endpoints::Asked {
            info: Arc::clone(&self.info),
            peer: peer.clone(),
            number,
            name,
            acknowledges,
        };
        Task::spawn(async move {
            let opened = match requests::reach(&control, asked.at_least).await {
                Ok(()) if watch => endpoints::open(&control, asked_of),
                Ok(()) => endpoints::once(&control, &asked_of),
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = opened {
                // A peer that is gone hears nothing.
                drop(peer.refuse(number, &refusal));
            }
        })
        .detach();
        None
    }

    /// Answers beside the actor, so that a slow answer holds up nothing else of this peer.
    fn request(
        &self,
        asked: Request,
        number: u64,
        permit: OwnedSemaphorePermit,
        state: &mut State,
    ) {
        let asked = match self.endpoints(asked, number) {
            Some(asked) => asked,
            None => return,
        };
        if let Ask::Cluster(AskCluster::Watch(filter)) = asked.ask {
            state.watches.retain(|watch| !watch.is_finished());
            if state.watches.len() >= WATCHES_MAX {
                let text = format!("a session has at most {WATCHES_MAX} watches");
                drop(
                    self.peer
                        .refuse(number, &Refusal::refused("too_many_watches", text)),
                );
                return;
            }
            let watch = watch::run(
                Arc::clone(&self.control),
                Arc::clone(&self.info),
                self.peer.clone(),
                number,
                filter,
            );
            state.watches.push(Task::spawn(watch));
            return;
        }
        let (control, peer) = (Arc::clone(&self.control), self.peer.clone());
        let info = Arc::clone(&self.info);
        Task::spawn(async move {
            let principal = peer.principal().clone();
            let reply = requests::answer(&control, &principal, asked).await;
            info.sent.fetch_add(1, Ordering::Relaxed);
            let sent = match reply {
                Reply::Refused(refusal) => peer.refuse(number, &refusal),
                reply => peer.reply(number, &reply),
            };
            if let Err(error) = sent {
                // An answer that does not fit is refused in words; a peer that is gone hears nothing.
                drop(peer.refuse(number, &error.refusal()));
            }
            drop(permit);
        })
        .detach();
    }

    fn worker(&self, message: FromWorker, request: u64, state: &mut State) {
        let message = match message {
            FromWorker::Join(join) => return self.join(*join, state),
            FromWorker::Beat(beat) => host::Message::Beat(beat),
            FromWorker::Reports(reports) => host::Message::Reports(reports),
            FromWorker::Output(output) => host::Message::Output(request, output),
            FromWorker::Leaving(_) => host::Message::Leaving,
        };
        let Some(name) = &state.host else {
            return self.protocol_error("a worker has to join before it says anything else");
        };
        // A host actor that is down goes on with this connection and asks for what was missed; one
        // that is overloaded cannot, so the worker joins again.
        let told = host::address(&self.control, name).map(|host| host.cast(message));
        if let Some(Err(xce_runtime::NotDelivered::Overloaded)) = told {
            self.peer
                .close(xce_link::CloseCode::SlowPeer, "overloaded; join again");
        }
    }

    fn join(&self, join: xce_host::wire::Join, state: &mut State) {
        let name = join.inventory.name.clone();
        if self.peer.principal().name != name {
            return self.protocol_error(&format!(
                "the certificate is of host {}, not of {name}",
                self.peer.principal().name
            ));
        }
        if let Err(refusal) = xce_model::limits::check_name("host", &name) {
            return self.protocol_error(&refusal.text);
        }
        state.host = Some(name.clone());
        let connection = Arc::new(Connection {
            session: self.info.id,
            peer: self.peer.clone(),
            join,
        });
        host::connect(&self.control, &name, connection);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.info.connected.store(false, Ordering::Relaxed);
        self.peer.close(
            xce_link::CloseCode::Dropped,
            "the session's actor ended; resume it",
        );
    }
}
