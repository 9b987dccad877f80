//! The way to the other controllers: consensus over QUIC, a connection for each lane, so that a beat
//! never waits behind a snapshot.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use xce_link::hello::VERSIONS;
use xce_link::{
    Caller, Connected, Dialer, Hello, HelloAnswer, Identity, Opening, PeerKind, Role, Route,
};
use xce_model::{ClusterId, Incarnation};
use xce_session::peer_wire::{PeerCall, PeerReply};
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
    lines: Mutex<HashMap<(u64, Lane), Arc<Line>>>,
}

/// One connection, or the place for it; whoever makes it holds the lock.
#[derive(Default)]
struct Line(tokio::sync::Mutex<Option<(String, Caller)>>);

impl LinkPeers {
    /// A way to the others under this controller's identity.
    pub fn new(identity: Identity) -> Self {
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
                lines: Mutex::default(),
            }),
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
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lines.entry((node, lane)).or_default())
        };
        let caller = self.connected(&line, &to).await?;
        let question = PeerCall { bytes: request };
        let left = deadline.saturating_duration_since(Instant::now());
        match caller.call::<PeerCall, PeerReply>(&question, left).await {
            Ok(reply) => Ok(reply.bytes),
            Err(error) => {
                let mut known = line.0.lock().await;
                // Another caller may have made a new one meanwhile.
                if known
                    .as_ref()
                    .is_some_and(|(_, known)| known.peer().closed_now().is_some())
                {
                    *known = None;
                }
                Err(no_answer(node, error))
            }
        }
    }

    async fn connected(&self, line: &Line, to: &Member) -> Result<Caller, PeerError> {
        let mut known = line.0.lock().await;
        if let Some((address, caller)) = known.as_ref()
            && *address == to.address
            && caller.peer().closed_now().is_none()
        {
            return Ok(caller.clone());
        }
        *known = None;
        let caller = self.connect(to).await?;
        *known = Some((to.address.clone(), caller.clone()));
        Ok(caller)
    }

    async fn connect(&self, to: &Member) -> Result<Caller, PeerError> {
        let node = to.node;
        let addresses = resolve(&to.address)
            .await
            .map_err(|error| unreachable(node, error))?;
        let mut connected = self
            .dialer
            .dial(&addresses, DIAL_WITHIN)
            .await
            .map_err(|error| unreachable(node, error))?;
        let who = connected.peer.principal();
        if who.role != Role::Controller || who.name != name_of(node) {
            return Err(unreachable(
                node,
                format!("{who} answers at {}", to.address),
            ));
        }
        let answer = tokio::time::timeout(DIAL_WITHIN, self.hello(&mut connected)).await;
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(text)) => return Err(unreachable(node, text)),
            Err(_) => return Err(unreachable(node, "it says nothing")),
        }
        Ok(Caller::new(connected, PUSHES_MAX).0)
    }

    async fn hello(&self, connected: &mut Connected) -> Result<(), String> {
        let hello = Hello {
            versions: VERSIONS,
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
            Ok(HelloAnswer::Welcome(_)) => Ok(()),
            Ok(HelloAnswer::Refused(refusal)) => Err(refusal.text),
            Err(error) => Err(error.to_string()),
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
