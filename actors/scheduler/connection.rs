//! The connection to the cluster: made again for ever, wherever the primary is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use xce_model::chain;

use futures::FutureExt;
use xce_ledger::DecodeError as RowError;
use xce_link::hello::VERSIONS;
use xce_link::{
    Connected, DecodeError, Dialer, Hello, HelloAnswer, HelloCode, Inbox, Opening, Order, Peer,
    PeerKind, Route, RouteRole, SendError,
};
use xce_model::{Incarnation, Refusal};
use xce_session::feed_wire::ToReader;

use crate::core::Core;
use crate::settings::Settings;

/// Delays between attempts to connect. Source: as for workers; a controller that starts again is back
/// within a second.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LONGEST: Duration = Duration::from_secs(2);
/// How long connecting and the hello may take each. Source: as for workers.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Number of the request that the feed answers. Source: counted; the hello is 1.
const FEED: u64 = 2;
/// Messages taken in before the state is looked at. Source: derived; as many as the controller sends
/// ahead, with room.
const HEARD_MAX: usize = 16;

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
    #[error("plans came to nothing again and again; the state is read anew")]
    Doubtful,
    #[error("a row cannot be read")]
    Row(#[from] RowError),
}

/// What is kept of the connections so far.
#[derive(Default)]
struct Known {
    token: Option<Vec<u8>>,
    order: Order,
    /// Where a standby said that the primary is.
    primary: Option<SocketAddr>,
    connected: bool,
}

/// Connects and plans, again and again, for as long as it is polled.
///
/// # Errors
/// Rows of a newer program: this one cannot hold the state, and says so.
pub async fn run(settings: Settings, incarnation: Incarnation) -> Result<(), RowError> {
    let dialer = Dialer::new(settings.identity.clone(), xce_link::Settings::default());
    let mut core = Core::default();
    let mut known = Known {
        order: Order::new(&settings.controllers),
        ..Known::default()
    };
    let clock = Instant::now();
    let mut delay = RETRY_FIRST;
    loop {
        let before = known.primary;
        known.connected = false;
        let connection = Connection {
            dialer: &dialer,
            incarnation,
            clock,
        };
        let Err(ended) = connection.once(&mut core, &mut known).await;
        if let Ended::Row(error) = ended {
            return Err(error);
        }
        tracing::info!(error = %chain(&ended), lsn = core.lsn(), "not connected to the cluster");
        if known.connected {
            delay = RETRY_FIRST;
        }
        if known.primary.is_some() && known.primary != before {
            continue;
        }
        let half = delay / 2;
        tokio::time::sleep(half + half.mul_f64(fastrand::f64())).await;
        delay = (delay * 2).min(RETRY_LONGEST);
    }
}

struct Connection<'a> {
    dialer: &'a Dialer,
    incarnation: Incarnation,
    clock: Instant,
}

impl Connection<'_> {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn once(
        &self,
        core: &mut Core,
        known: &mut Known,
    ) -> Result<std::convert::Infallible, Ended> {
        let Connected { peer, mut inbox } = self
            .dialer
            .dial(known.order.addresses(), ANSWER_WITHIN)
            .await?;
        known.order.reached(peer.remote());
        let answer =
            tokio::time::timeout(ANSWER_WITHIN, self.hello(&peer, &mut inbox, core, known));
        answer.await.map_err(|_| Ended::Late)??;
        peer.send(Route::request(FEED), &core.open())?;
        self.serve(&peer, inbox, core, known).await
    }

    async fn hello(
        &self,
        peer: &Peer,
        inbox: &mut Inbox,
        core: &Core,
        known: &mut Known,
    ) -> Result<(), Ended> {
        let opening = match known.token.clone() {
            None => Opening::New,
            Some(token) => Opening::Resume {
                token,
                last_lsn: core.lsn(),
                last_seq: 0,
            },
        };
        let hello = Hello {
            versions: VERSIONS,
            cluster: self.dialer.identity().principal().cluster,
            kind: PeerKind::Scheduler,
            incarnation: self.incarnation,
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
                Ok(())
            }
            HelloAnswer::Refused(refusal) => {
                if matches!(refusal.code, HelloCode::Token | HelloCode::Fenced) {
                    // The next attempt asks for a new session.
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
        peer: &Peer,
        mut inbox: Inbox,
        core: &mut Core,
        known: &mut Known,
    ) -> Result<std::convert::Infallible, Ended> {
        loop {
            let now_ms = self.now_ms();
            let wait = core
                .wakes_at(now_ms)
                .map(|at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
            tokio::select! {
                frame = inbox.receive() => self.hear(&frame?, core, known)?,
                () = pause(wait), if wait.is_some() => {}
            }
            // What came meanwhile is looked at together.
            for _ in 0..HEARD_MAX {
                let Some(frame) = inbox.receive().now_or_never() else {
                    break;
                };
                self.hear(&frame?, core, known)?;
            }
            if core.forgets() {
                return Err(Ended::Doubtful);
            }
            for word in core.look(self.now_ms()) {
                peer.send(Route::request(FEED), &word)?;
            }
        }
    }

    fn hear(
        &self,
        frame: &xce_link::Frame,
        core: &mut Core,
        known: &mut Known,
    ) -> Result<(), Ended> {
        if frame.route().role == RouteRole::Refusal {
            return Err(Ended::Refused(frame.decode::<Refusal>()?));
        }
        let what: ToReader = frame.decode()?;
        if let ToReader::Waits { behind } = &what {
            tracing::info!(%behind, "another scheduler plans; this one waits");
        }
        if !std::mem::replace(&mut known.connected, true) {
            tracing::info!(after = core.lsn(), "connected to the cluster");
        }
        Ok(core.hear(what, self.now_ms())?)
    }
}

async fn pause(wait: Option<Duration>) {
    if let Some(wait) = wait {
        tokio::time::sleep(wait).await;
    }
}
