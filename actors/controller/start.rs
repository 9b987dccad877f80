//! Starts and stops a controller.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use xce_ledger::{Anchor, ClockFact, Group, Ledger, Reader};
use xce_link::{CloseCode, EndpointKeys, Identity, KeyRing, Listener, listen};
use xce_model::Lsn;
use xce_runtime::{Limits, Node, Policy, RealClock, Root, Shards, Task};
use xce_wal::{Wal, WalConfig};

use crate::connections::Connections;
use crate::control::{Control, here};
use crate::endpoints::Readers;
use crate::publisher::{Publisher, Touched};
use crate::refusals::Refusals;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::{door, janitor, log, publisher, scheduler};

/// Longest wait for the tree to end. Source: derived; twice the bound of an entity's end.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Why a controller did not start; each names what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state directory.
    #[error("state directory")]
    Wal(#[from] xce_wal::OpenError),
    /// Certificate and key.
    #[error("identity")]
    Identity(#[from] xce_link::IdentityError),
    /// Keys of the endpoint.
    #[error("endpoint keys")]
    Keys(#[from] xce_link::keys::KeysError),
    /// Key of the session tokens.
    #[error("session token key")]
    Ring(#[from] xce_link::token::RingError),
    /// The address.
    #[error("listening")]
    Listen(#[from] xce_link::ListenError),
    /// The actor tree.
    #[error("actor tree")]
    Tree(#[from] xce_runtime::Refusal),
    /// The first write.
    #[error("first write: {0}")]
    FirstWrite(String),
    /// The machine's boot id.
    #[error("cannot read the boot id")]
    BootId(#[source] std::io::Error),
    /// Thread of the journal of refusals.
    #[error("cannot start a thread")]
    Refusals(#[source] std::io::Error),
    /// Randomness of the system.
    #[error("the system gives no randomness: {0}")]
    Entropy(String),
}

/// A running controller.
pub struct Controller {
    control: Arc<Control>,
    root: Root,
    address: SocketAddr,
    door: Task,
    closing: tokio::sync::watch::Sender<bool>,
}

/// Starts a controller: recovers the ledger, starts the actors, and listens last.
///
/// # Errors
/// See [`StartError`].
pub async fn start(
    settings: Settings,
    on_fatal: impl Fn(String) + Send + Sync + 'static,
) -> Result<Controller, StartError> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(StartError::BootId)?
        .trim()
        .to_owned();
    let identity = Identity::load(&settings.identity_dir)?;
    let node = Node::new(Arc::new(RealClock), entropy()?);
    let (touched, published) = Touched::new();
    let told = Arc::clone(&touched);
    let ledger = Ledger::new(Box::new(move |view, keys| told.add(view, keys)));
    let reader = ledger.reader();
    let wal = xce_wal::open(wal_config(&settings), ledger, on_fatal).await?;
    let keys = EndpointKeys::load_or_create(&settings.state_dir)?;
    let ring = ring(&settings)?;
    let anchor = anchor(&node, &wal, &reader, &boot_id).await?;
    let root = Root::start(&node, Limits::ROOT).await?;
    let parts = Parts {
        settings,
        node,
        wal,
        reader,
        anchor,
        published,
    };
    let control = control(&root, parts)?;
    start_actors(&root, &control, &touched)?;
    let link = xce_link::Settings::default();
    let listener = listen(control.settings.listen, &identity, &link, &keys)?;
    let address = listener.address();
    let (closing, closed) = tokio::sync::watch::channel(false);
    let door = Task::spawn(serve(
        Arc::clone(&control),
        Arc::new(ring),
        listener,
        closed,
    ));
    Ok(Controller {
        control,
        root,
        address,
        door,
        closing,
    })
}

async fn serve(
    control: Arc<Control>,
    ring: Arc<KeyRing>,
    listener: Listener,
    mut closed: tokio::sync::watch::Receiver<bool>,
) {
    let serving = door::serve(control, ring, listener);
    tokio::pin!(serving);
    tokio::select! {
        biased;
        _ = closed.wait_for(|closed| *closed) => {}
        () = &mut serving => {}
    }
}

fn entropy() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Entropy(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

fn ring(settings: &Settings) -> Result<KeyRing, StartError> {
    let mut entropy = [0; 32];
    getrandom::fill(&mut entropy).map_err(|error| StartError::Entropy(error.to_string()))?;
    let path = settings.state_dir.join("session.key");
    Ok(KeyRing::load_or_create(&path, settings.cluster, entropy)?)
}

fn wal_config(settings: &Settings) -> WalConfig {
    WalConfig {
        create: settings.create,
        snapshot_every_entries: settings.snapshot_every,
        snapshot_every_bytes: settings.snapshot_bytes,
        ..WalConfig::new(
            settings.state_dir.clone(),
            settings.cluster.0,
            settings.node,
        )
    }
}

/// Ties cluster time to this machine's clocks, by a committed fact.
async fn anchor(
    node: &Node,
    wal: &Wal<Ledger>,
    reader: &Reader,
    boot_id: &str,
) -> Result<Anchor, StartError> {
    let here = here(node, boot_id);
    let at = reader.view().clock().resume(&here);
    let fact = ClockFact::Anchored {
        boot_id: here.boot_id.clone(),
        boot_ms: here.boot_ms,
        wall: here.wall,
    };
    let group = Group::new(at, here.wall, "start").with(fact);
    let receipt = wal.persist(group.encode()).await;
    receipt.map_err(|error| StartError::FirstWrite(error.to_string()))?;
    Ok(Anchor {
        at,
        boot_id: here.boot_id,
        boot_ms: here.boot_ms,
        wall: here.wall,
    })
}

struct Parts {
    settings: Settings,
    node: Arc<Node>,
    wal: Wal<Ledger>,
    reader: Reader,
    anchor: Anchor,
    published: tokio::sync::watch::Receiver<Lsn>,
}

fn control(root: &Root, parts: Parts) -> Result<Arc<Control>, StartError> {
    let above = root.supervisor();
    let term = parts.wal.status().term;
    let refusals = Refusals::start(&parts.settings.state_dir).map_err(StartError::Refusals)?;
    Ok(Arc::new(Control {
        services: Shards::new(above, "service", Policy::ENTITY)?,
        jobs: Shards::new(above, "job", Policy::ENTITY)?,
        hosts: Shards::new(above, "host", Policy::ENTITY)?,
        endpoints: Shards::new(above, "endpoints", Policy::ENTITY)?,
        session_family: Shards::new(above, "session", Policy::TEMPORARY)?,
        settings: parts.settings,
        node: parts.node,
        wal: parts.wal,
        reader: parts.reader,
        anchor: parts.anchor,
        published: parts.published,
        connections: Connections::default(),
        sessions: Sessions::of_term(term),
        readers: Readers::default(),
        refusals,
        scheduler: OnceLock::new(),
        scheduler_told: AtomicBool::new(false),
    }))
}

fn start_actors(
    root: &Root,
    control: &Arc<Control>,
    touched: &Arc<Touched>,
) -> Result<(), StartError> {
    let above = root.supervisor();
    let log = log::Log {
        control: Arc::clone(control),
    };
    above.spawn(log::key(), None, log, Policy::WAL)?;
    let plans = scheduler::Scheduler {
        control: Arc::clone(control),
    };
    let address = above.spawn(scheduler::key(), None, plans, Policy::ENTITY)?;
    // Set once: this function runs once a controller.
    drop(control.scheduler.set(address));
    let publisher = Publisher {
        control: Arc::clone(control),
        touched: Arc::clone(touched),
    };
    above.spawn(publisher::key(), None, publisher, Policy::ENTITY)?;
    let janitor = janitor::Janitor {
        control: Arc::clone(control),
    };
    above.spawn(janitor::key(), None, janitor, Policy::ENTITY)?;
    Ok(())
}

impl Controller {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Last committed position.
    pub fn lsn(&self) -> Lsn {
        self.control.view().lsn()
    }

    /// Waits until the actor tree has ended; the text says why.
    pub async fn ended(&self) -> String {
        self.root
            .ended()
            .await
            .unwrap_or_else(|| "the actor tree was stopped".to_owned())
    }

    /// Stops in order: the door, the actors, the log.
    pub async fn stop(self) {
        self.closing.send_replace(true);
        for connection in self.control.connections.all() {
            connection
                .peer
                .close(CloseCode::Shutdown, "the controller stops");
        }
        let stopped = tokio::time::timeout(STOP_WITHIN, self.root.shutdown()).await;
        if stopped.is_err() {
            tracing::warn!("actors did not end in time");
        }
        drop(self.door);
        self.control.wal.clone().close().await;
    }
}
