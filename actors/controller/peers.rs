//! The way to the other controllers: consensus over QUIC, a connection for each lane, so that a beat
//! never waits behind a snapshot.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use xce_link::hello::{ABOUT_SINCE, VersionRange};
use xce_link::{
    Caller, Connected, Dialer, Hello, HelloAnswer, HelloCode, HelloRefusal, Identity, Opening,
    PeerKind, Role, Route,
};
use xce_model::{ClusterId, Incarnation};
use xce_session::peer_wire::{PeerAbout, PeerAsk, PeerCall, PeerReply};
use xce_wal::{Lane, Member, PeerError, Peers};

/// Signs of life while nothing is said. Source: derived; a beat of consensus comes far more often.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Silence after which a connection is over.
/// Source: derived; several elections, and short enough that a peer that is back is found soon.
const IDLE_MOST: Duration = Duration::from_secs(3);
/// How long a connection may take. Source: derived; a handshake on a busy machine, below an election.
const DIAL_WITHIN: Duration = Duration::from_secs(1);
/// Pushed messages that may wait; peers push none. Source: the least.
const PUSHES_MAX: usize = 1;

pub use xce_ledger::FOUNDER;
use xce_ledger::level::LEVEL_MIN;

/// Name of a controller in its certificate.
pub fn name_of(node: u64) -> String {
    format!("c{node}")
}

/// Number of the controller of a name.
pub fn node_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('c')?;
    digits.parse().ok().filter(|node| *node > 0)
}

/// Connections to the other controllers, made when they are needed.
pub struct LinkPeers {
    inner: Arc<Inner>,
}

struct Inner {
    dialer: Dialer,
    cluster: ClusterId,
    incarnation: Incarnation,
    versions: VersionRange,
    /// Why this controller's state can never be used again, once another one said so.
    fenced: watch::Sender<Option<String>>,
    lines: Mutex<HashMap<(u64, Lane), Arc<Line>>>,
}

/// One connection, or the place for it; whoever makes it holds the lock.
#[derive(Default)]
struct Line(tokio::sync::Mutex<Option<Connection>>);

/// A connection that was made.
#[derive(Clone)]
struct Connection {
    address: String,
    caller: Caller,
    /// Protocol version that is spoken on it.
    version: u16,
}

impl LinkPeers {
    /// A way to the others under this controller's identity.
    pub fn new(identity: Identity, versions: VersionRange) -> Self {
        let cluster = identity.principal().cluster;
        let settings = xce_link::Settings {
            keep_alive: Some(KEEP_ALIVE),
            idle_timeout: IDLE_MOST,
            ..xce_link::Settings::default()
        };
        Self {
            inner: Arc::new(Inner {
                dialer: Dialer::new(identity, settings),
                cluster,
                incarnation: Incarnation::default(),
                versions,
                fenced: watch::Sender::new(None),
                lines: Mutex::default(),
            }),
        }
    }
}

impl LinkPeers {
    /// Asks a controller what it is. One that speaks an earlier protocol cannot say it, and supports
    /// the lowest feature level.
    ///
    /// # Errors
    /// It is not reached, or does not answer in time.
    pub async fn about(
        &self,
        member: &Member,
        epoch: u32,
        within: Duration,
    ) -> Result<PeerAbout, PeerError> {
        let node = member.node;
        let asked = self.inner.about(member, epoch, within);
        tokio::time::timeout(within, asked)
            .await
            .unwrap_or_else(|_| Err(no_answer(node, "it took too long")))
    }

    /// Waits until another controller says that this one's state belongs to an epoch that has ended;
    /// the text says so.
    pub async fn fenced(&self) -> String {
        let mut fenced = self.inner.fenced.subscribe();
        match fenced.wait_for(Option::is_some).await {
            Ok(text) => text.clone().unwrap_or_default(),
            // The sender lives as long as this.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Peers for LinkPeers {
    fn call(
        &self,
        to: Member,
        lane: Lane,
        request: Vec<u8>,
        within: Duration,
    ) -> BoxFuture<'static, Result<Vec<u8>, PeerError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let node = to.node;
            let called = inner.call(to, lane, request, within);
            tokio::time::timeout(within, called)
                .await
                .unwrap_or_else(|_| Err(no_answer(node, "it took too long")))
        })
    }
}

fn no_answer(node: u64, detail: impl std::fmt::Display) -> PeerError {
    PeerError::NoAnswer {
        node,
        detail: detail.to_string(),
    }
}

fn unreachable(node: u64, detail: impl std::fmt::Display) -> PeerError {
    PeerError::Unreachable {
        node,
        detail: detail.to_string(),
    }
}

impl Inner {
    async fn call(
        &self,
        to: Member,
        lane: Lane,
        request: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, PeerError> {
        let node = to.node;
        let deadline = Instant::now() + within;
        let line = self.line(node, lane);
        let caller = self.connected(&line, &to).await?.caller;
        let question = PeerCall { bytes: request };
        let left = deadline.saturating_duration_since(Instant::now());
        match caller.call::<PeerCall, PeerReply>(&question, left).await {
            Ok(reply) => Ok(reply.bytes),
            Err(error) => {
                line.forget_closed().await;
                Err(no_answer(node, error))
            }
        }
    }

    async fn about(
        &self,
        to: &Member,
        epoch: u32,
        within: Duration,
    ) -> Result<PeerAbout, PeerError> {
        let line = self.line(to.node, Lane::Control);
        let Connection {
            caller, version, ..
        } = self.connected(&line, to).await?;
        if version < ABOUT_SINCE {
            return Ok(PeerAbout {
                version: format!("of protocol {version}"),
                level: LEVEL_MIN,
                certificate_ends_s: 0,
                epoch,
            });
        }
        let question = PeerAsk { epoch };
        match caller.call::<PeerAsk, PeerAbout>(&question, within).await {
            Ok(about) => Ok(about),
            Err(error) => {
                line.forget_closed().await;
                Err(no_answer(to.node, error))
            }
        }
    }

    fn line(&self, node: u64, lane: Lane) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry((node, lane)).or_default())
    }

    async fn connected(&self, line: &Line, to: &Member) -> Result<Connection, PeerError> {
        let mut known = line.0.lock().await;
        if let Some(known) = known.as_ref()
            && known.address == to.address
            && known.caller.peer().closed_now().is_none()
        {
            return Ok(known.clone());
        }
        *known = None;
        let (caller, version) = self.connect(to).await?;
        let connection = Connection {
            address: to.address.clone(),
            caller,
            version,
        };
        *known = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self, to: &Member) -> Result<(Caller, u16), PeerError> {
        let node = to.node;
        let addresses = resolve(&to.address)
            .await
            .map_err(|error| unreachable(node, error))?;
        let mut connected = self
            .dialer
            .dial(&addresses, DIAL_WITHIN)
            .await
            .map_err(|error| unreachable(node, error))?;
        let who = connected.peer.principal().clone();
        if who.role != Role::Controller {
            let text = format!("{who} answers at {}", to.address);
            return Err(unreachable(node, text));
        }
        // Another controller than the one that was there may know that its epoch has ended.
        let answer = tokio::time::timeout(DIAL_WITHIN, self.hello(&mut connected)).await;
        let version = match answer {
            Ok(Ok(version)) => version,
            Ok(Err(text)) => return Err(unreachable(node, text)),
            Err(_) => return Err(unreachable(node, "it says nothing")),
        };
        if who.name != name_of(node) {
            let text = format!("{who} answers at {}", to.address);
            return Err(unreachable(node, text));
        }
        Ok((Caller::new(connected, PUSHES_MAX).0, version))
    }

    fn refused(&self, refusal: HelloRefusal) -> String {
        if refusal.code == HelloCode::Fenced {
            let text = refusal.text.clone();
            self.fenced.send_if_modified(|fenced| {
                let is_news = fenced.is_none();
                fenced.get_or_insert(text);
                is_news
            });
        }
        refusal.text
    }

    /// Says who this is; the protocol version to speak.
    async fn hello(&self, connected: &mut Connected) -> Result<u16, String> {
        let hello = Hello {
            versions: self.versions,
            cluster: self.cluster,
            kind: PeerKind::Controller,
            incarnation: self.incarnation,
            opening: Opening::New,
        };
        let sent = connected.peer.send(Route::request(1), &hello);
        sent.map_err(|error| error.to_string())?;
        let frame = connected.inbox.receive().await;
        let frame = frame.map_err(|error| error.to_string())?;
        match frame.decode::<HelloAnswer>() {
            Ok(HelloAnswer::Welcome(welcome)) => Ok(welcome.version),
            Ok(HelloAnswer::Refused(refusal)) => Err(self.refused(refusal)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Line {
    /// Forgets a connection that has ended; another caller may have made a new one meanwhile.
    async fn forget_closed(&self) {
        let mut known = self.0.lock().await;
        let is_closed = |known: &Connection| known.caller.peer().closed_now().is_some();
        if known.as_ref().is_some_and(is_closed) {
            *known = None;
        }
    }
}

/// The addresses of `host:port`; a number needs no name service.
async fn resolve(text: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let found = tokio::net::lookup_host(text)
        .await
        .map_err(|error| format!("{text} is not found: {error}"))?;
    Ok(found.collect())
}
