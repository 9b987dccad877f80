//! The way to the cluster: dial, hello, ask, and try again while no controller answers.
//!
//! A read is simply asked again. A change is asked again under the same operation id, so that it
//! has one effect and gets the first answer, also over a restart of the controller.

mod answers;
mod feed;

use answers::after_of;
pub use answers::kind_of;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep};
use xce_link::{
    CallError, Caller, CloseCode, Dialer, Frame, Hello, HelloAnswer, HelloCode, Opening, Order,
    PeerKind, Settings, Welcome,
};
use xce_model::{ClusterId, Incarnation, Lsn, Millis, OperationId, Refusal, RefusalKind};
use xce_session::wire::{Accepted, Ask, AskCluster, Changes, Reply, Request, WatchFilter};

use super::arguments::Global;
use super::credentials::{self, chain};
use super::failure::{Failure, unexpected};
use super::operation::random_bytes;
use super::print::talk;

pub use feed::{EndpointsFeed, News};

/// How long a change is tried. Source: chosen, longer than a controller takes to start again.
const CHANGE_PATIENCE: Millis = Millis::seconds(30);
/// How long a read is tried. Source: chosen, as long as somebody at a terminal likes to wait.
const READ_PATIENCE: Millis = Millis::seconds(10);
/// Longest wait for one answer. Source: chosen, well above the slowest answer measured.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20);
/// Time of the first attempt to connect; each further one has twice as long.
/// Source: derived; a handshake takes 2 ms, a closed port gives no sign, and what is sent again waits
/// twice as long each time, so that a new attempt reaches a controller that has just started sooner
/// than an old one.
const DIAL_FIRST: Duration = Duration::from_millis(100);
/// Time of the only or last attempt to connect. Source: chosen, a handshake on a busy machine.
const DIAL_LAST: Duration = Duration::from_secs(1);
/// Longest time of one attempt to connect. Source: chosen, a handshake on a busy machine.
const DIAL_MOST: Duration = Duration::from_secs(4);
/// Wait before the second try, doubled for each further one.
/// Source: chosen, a tenth of what a controller takes to start.
const PAUSE_FIRST: Duration = Duration::from_millis(25);
/// Longest wait between two tries. Source: chosen, the delay that a person barely notices.
const PAUSE_MOST: Duration = Duration::from_millis(400);
/// Period of signs of life while nothing is said, so that a restart of the controller is noticed.
/// Source: foundations section 3; a client costs the controller 1/5000 of 13% of a processor.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Silence after which a connection is over and another controller is asked.
/// Source: derived, four signs of life.
const IDLE_MOST: Duration = Duration::from_secs(4);
/// Turns that the transport gets to say goodbye. Source: derived, one each for the reader, the
/// connection and the socket, with room.
const GOODBYE_TURNS: usize = 16;
/// Pushed messages that may wait for this program. Source: chosen, a screen of changes.
const PUSHES_MAX: usize = 64;

/// The way to the cluster.
pub struct Connection {
    order: Order,
    /// Where the last standby that was asked said that the primary is.
    primary: Option<SocketAddr>,
    dialer: Dialer,
    cluster: ClusterId,
    incarnation: Incarnation,
    patience: Option<Millis>,
    /// Whether it reads from any controller, and nothing else.
    stale: bool,
    /// Position of this client's last change, which its reads must see.
    written: Lsn,
    link: Option<Link>,
    /// The sealed token of the session, for resuming it; empty before the first welcome.
    token: Vec<u8>,
    watch: Option<Subscription>,
}

/// A connection on which the session has been opened.
struct Link {
    caller: Caller,
    pushes: Receiver<Frame>,
    /// Position of the cluster when it was opened.
    lsn: Lsn,
}

/// A running watch.
struct Subscription {
    filter: WatchFilter,
    /// Something was pushed while an answer was waited for, or the connection was made anew.
    missed: bool,
}

impl Connection {
    /// Reads settings and identity; does not connect yet.
    ///
    /// # Errors
    /// When there is no client file or identity, or they cannot be used.
    pub fn new(global: &Global) -> Result<Self, Failure> {
        let (config, identity) = credentials::load(global)?;
        let cluster = identity.principal().cluster;
        let settings = Settings {
            keep_alive: Some(KEEP_ALIVE),
            idle_timeout: IDLE_MOST,
            ..Settings::default()
        };
        Ok(Self {
            order: Order::new(&config.addresses()),
            primary: None,
            dialer: Dialer::new(identity, settings),
            cluster,
            incarnation: Incarnation(random_bytes()?),
            patience: global.retry_for,
            stale: global.stale,
            written: 0,
            link: None,
            token: Vec::new(),
            watch: None,
        })
    }

    /// The cluster that is meant.
    pub const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Who the cluster takes this client for.
    pub fn principal(&self) -> String {
        self.dialer.identity().principal().to_string()
    }

    /// Asks without changing anything.
    ///
    /// # Errors
    /// The refusal, or the last reason why no controller answered.
    pub async fn ask(&mut self, ask: Ask) -> Result<Reply, Failure> {
        let mut request = Request {
            operation: None,
            made_at: 0,
            at_least: self.written,
            ask,
        };
        self.request(&mut request, self.patience.unwrap_or(READ_PATIENCE))
            .await
    }

    /// Asks for a change.
    ///
    /// # Errors
    /// As [`Connection::ask`]; an unknown outcome after all tries is said as such.
    pub async fn change(&mut self, ask: Ask, operation: OperationId) -> Result<Accepted, Failure> {
        if self.stale {
            let text = "--stale only reads; a change needs the primary";
            return Err(Refusal::new(RefusalKind::Usage, "needs_primary", text).into());
        }
        let mut request = Request {
            operation: Some(operation),
            made_at: 0,
            at_least: 0,
            ask,
        };
        match self
            .request(&mut request, self.patience.unwrap_or(CHANGE_PATIENCE))
            .await?
        {
            Reply::Accepted(accepted) => {
                self.written = self.written.max(accepted.lsn);
                Ok(accepted)
            }
            other => Err(unexpected(kind_of(&other))),
        }
    }

    /// The last committed position.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub async fn position(&mut self) -> Result<Lsn, Failure> {
        match self.ask(Ask::Cluster(AskCluster::Status)).await? {
            Reply::Cluster(cluster) => Ok(cluster.lsn),
            other => Err(unexpected(kind_of(&other))),
        }
    }

    /// Takes what was pushed already, for readers that ask for the state itself.
    pub fn drain(&mut self) {
        let Some(link) = &mut self.link else { return };
        while let Ok(frame) = link.pushes.try_recv() {
            if let (Some(watch), Ok(changes)) = (&mut self.watch, frame.decode::<Changes>())
                && !(changes.more && changes.full)
            {
                watch.filter.after = after_of(&changes, watch.filter.after);
            }
        }
    }

    /// Begins a watch; there is one at a time.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    pub async fn subscribe(&mut self, filter: WatchFilter) -> Result<(), Failure> {
        if self.watch.is_some() {
            // What the watch before still pushes would be taken for this one's.
            self.link = None;
        }
        self.watch = Some(Subscription {
            filter: filter.clone(),
            missed: false,
        });
        let ask = Ask::Cluster(AskCluster::Watch(filter));
        let mut request = Request {
            operation: None,
            made_at: 0,
            at_least: self.written,
            ask,
        };
        let patience = self.patience.unwrap_or(READ_PATIENCE);
        match self.request(&mut request, patience).await? {
            Reply::Watching { .. } => Ok(()),
            other => Err(unexpected(kind_of(&other))),
        }
    }

    /// Waits for the next change of the watch; nothing when something may have changed that cannot
    /// be told, so that whoever keeps a state must ask for it again.
    ///
    /// Connects again for as long as it takes, and goes on after the last change that was seen.
    ///
    /// # Errors
    /// When the cluster refuses the watch.
    pub async fn next_change(&mut self) -> Result<Option<Changes>, Failure> {
        loop {
            let Some(watch) = &mut self.watch else {
                return Err(Failure::Local("no watch was begun".to_owned()));
            };
            if std::mem::take(&mut watch.missed) {
                return Ok(None);
            }
            let frame = match &mut self.link {
                Some(link) => link.pushes.recv().await,
                None => None,
            };
            let Some(frame) = frame else {
                self.watch_again().await?;
                continue;
            };
            let changes = frame.decode::<Changes>().map_err(|error| {
                Failure::Local(format!("a change is not understood: {}", chain(&error)))
            })?;
            // Between the parts of a full state there is no position to go on from.
            if !changes.more || !changes.full {
                watch.filter.after = after_of(&changes, watch.filter.after);
            }
            return Ok(Some(changes));
        }
    }

    /// Makes a lost connection anew and goes on with the watch.
    async fn watch_again(&mut self) -> Result<(), Failure> {
        self.link = None;
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        let filter = watch.filter.clone();
        let ask = Ask::Cluster(AskCluster::Watch(filter));
        let mut request = Request {
            operation: None,
            made_at: 0,
            at_least: 0,
            ask,
        };
        // A watch has no end of its own: whoever began it stops it.
        let reply = self
            .request(&mut request, xce_model::units::DURATION_MAX)
            .await?;
        match reply {
            Reply::Watching { .. } => {
                if let Some(watch) = &mut self.watch {
                    watch.missed = true;
                }
                Ok(())
            }
            other => Err(unexpected(kind_of(&other))),
        }
    }

    /// Tries until an answer comes that another try could not better, or patience ends.
    async fn request(&mut self, request: &mut Request, patience: Millis) -> Result<Reply, Failure> {
        let deadline = Instant::now() + patience.duration();
        let (mut pause, mut dial, mut told) = (PAUSE_FIRST, DIAL_FIRST, false);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let before = self.primary;
            // The only attempt, or the last one, must not fail because a machine is busy.
            let this = if left > dial { dial } else { DIAL_LAST };
            let refusal = match self.attempt(request, this, left).await {
                Ok(Reply::Refused(refusal)) => refusal,
                Ok(reply) => return Ok(reply),
                Err(refusal) => refusal,
            };
            if !is_passing(&refusal) {
                return Err(refusal.into());
            }
            if Instant::now() + pause >= deadline {
                return Err(self.give_up(refusal));
            }
            if self.primary.is_some() && self.primary != before {
                // A standby said where to ask.
                continue;
            }
            if !told {
                talk(&format!("waiting for the controller ({refusal})"));
                told = true;
            }
            // A random part, since very many may wait for the same controller.
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(PAUSE_MOST);
            dial = (dial * 2).min(DIAL_MOST);
        }
    }

    fn give_up(&self, refusal: Refusal) -> Failure {
        if matches!(
            refusal.code.as_str(),
            "no_answer" | "unreachable" | "turned_away"
        ) && refusal.kind == RefusalKind::Unavailable
        {
            let list: Vec<String> = self
                .order
                .addresses()
                .iter()
                .map(ToString::to_string)
                .collect();
            let text = format!(
                "{}; is a cluster running at {}? `xced dev` starts one",
                refusal.text,
                list.join(", ")
            );
            return Refusal { text, ..refusal }.into();
        }
        refusal.into()
    }

    async fn attempt(
        &mut self,
        request: &mut Request,
        dial: Duration,
        left: Duration,
    ) -> Result<Reply, Refusal> {
        let deadline = ANSWER_DEADLINE.min(left.max(DIAL_LAST));
        let mut link = match self.link.take() {
            Some(link) if link.caller.peer().closed_now().is_none() => link,
            Some(_) | None => self.open(dial, deadline).await?,
        };
        if request.operation.is_some() && request.made_at == 0 {
            // Made now; a repeat after a lost answer keeps it.
            request.made_at = link.lsn;
        }
        let request = &*request;
        let mut missed = false;
        let outcome = {
            let call = link.caller.call::<Request, Reply>(request, deadline);
            tokio::pin!(call);
            loop {
                // Pushes are taken meanwhile, or the answer would wait behind them for ever.
                tokio::select! {
                    biased;
                    outcome = &mut call => break outcome,
                    Some(_) = link.pushes.recv() => missed = true,
                }
            }
        };
        if let Some(watch) = &mut self.watch {
            watch.missed |= missed;
        }
        let keeps = match &outcome {
            // One that may not lead any more is left.
            Err(CallError::Refused(refusal)) => refusal.code != "not_primary",
            Ok(_) => true,
            Err(
                CallError::NotDelivered(_)
                | CallError::Unknown(_)
                | CallError::Timeout { .. }
                | CallError::BadAnswer(_),
            ) => false,
        };
        if keeps {
            self.link = Some(link);
        }
        outcome.map_err(|error| error.refusal())
    }

    /// Connects and opens the session; resumes it where there was one.
    async fn open(&mut self, dial: Duration, deadline: Duration) -> Result<Link, Refusal> {
        let connected = self
            .dialer
            .dial(self.order.addresses(), dial)
            .await
            .map_err(|error| error.refusal())?;
        self.order.reached(connected.peer.remote());
        let (caller, pushes) = Caller::new(connected, PUSHES_MAX);
        let after = self
            .watch
            .as_ref()
            .map_or(self.written, |watch| watch.filter.after);
        let resume = Opening::Resume {
            token: self.token.clone(),
            last_lsn: after,
            last_seq: 0,
        };
        let opening = if self.stale {
            Opening::Look
        } else if self.token.is_empty() {
            Opening::New
        } else {
            resume
        };
        let renewed = !matches!(opening, Opening::Resume { .. });
        let welcome = match self.hello(&caller, opening, deadline).await {
            Ok(welcome) => welcome,
            Err(refusal) if renewed || is_passing(&refusal) => return Err(refusal),
            Err(_) => self.hello(&caller, Opening::New, deadline).await?,
        };
        self.token = welcome.token;
        let lsn = welcome.lsn;
        if self.stale {
            let (remote, term) = (caller.peer().remote(), welcome.term);
            talk(&format!(
                "as of position {lsn} of term {term}, by the controller at {remote}, which may be behind"
            ));
        }
        Ok(Link {
            caller,
            pushes,
            lsn,
        })
    }

    /// Closes the connection, so that the controller need not wait for its silence.
    pub async fn close(&mut self) {
        let Some(link) = self.link.take() else { return };
        link.caller
            .peer()
            .close(CloseCode::Done, "the command is done");
        drop(link);
        for _ in 0..GOODBYE_TURNS {
            tokio::task::yield_now().await;
        }
    }

    async fn hello(
        &mut self,
        caller: &Caller,
        opening: Opening,
        deadline: Duration,
    ) -> Result<Welcome, Refusal> {
        let hello = Hello {
            versions: xce_link::hello::VERSIONS,
            cluster: self.cluster,
            kind: PeerKind::Client,
            incarnation: self.incarnation,
            opening,
        };
        match caller.call(&hello, deadline).await {
            Ok(HelloAnswer::Welcome(welcome)) => Ok(welcome),
            Ok(HelloAnswer::Refused(refusal)) => {
                if refusal.code == HelloCode::NotPrimary {
                    self.primary = refusal.primary_address();
                    if let Some(primary) = self.primary {
                        self.order.named(primary);
                    }
                }
                Err(refusal.refusal())
            }
            // Nothing was asked for yet, so nothing can be unknown.
            Err(error) => {
                let refusal = error.refusal();
                let kind = match refusal.kind {
                    RefusalKind::OutcomeUnknown => RefusalKind::Unavailable,
                    kind => kind,
                };
                Err(Refusal { kind, ..refusal })
            }
        }
    }
}

/// Whether the same request may be answered otherwise in a while.
fn is_passing(refusal: &Refusal) -> bool {
    matches!(
        refusal.kind,
        RefusalKind::Unavailable | RefusalKind::OutcomeUnknown
    ) && !matches!(
        refusal.code.as_str(),
        "unexpected_answer" | "answer_not_understood"
    )
}
