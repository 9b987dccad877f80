//! Starts and stops a controller.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use xce_ledger::Ledger;
use xce_link::{EndpointKeys, Identity, KeyRing, Listener, listen};
use xce_model::Lsn;
use xce_runtime::Task;
use xce_wal::WalConfig;

use crate::door;
use crate::peers::LinkPeers;
use crate::publisher::Touched;
use crate::refusals::Refusals;
use crate::reign::{self, House};
use crate::settings::Settings;

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
    #[error("first write")]
    FirstWrite(#[source] xce_wal::PersistError),
    /// The actors of the only controller.
    #[error("actors: {0}")]
    Reign(String),
    /// The machine's boot id.
    #[error("cannot read the boot id")]
    BootId(#[source] std::io::Error),
    /// Thread of the journal of refusals.
    #[error("cannot start a thread")]
    Refusals(#[source] std::io::Error),
    /// The cluster is ahead of this program.
    #[error(
        "the cluster is at feature level {level}, and this controller supports up to {supported}: use \
         a newer program, or raise `compatibility.level_max`"
    )]
    Level {
        /// Level of the cluster.
        level: u16,
        /// Highest level supported here.
        supported: u16,
    },
    /// Randomness of the system.
    #[error("the system gives no randomness: {0}")]
    Entropy(String),
}

/// A running controller.
pub struct Controller {
    house: Arc<House>,
    address: SocketAddr,
    door: Task,
    rule: tokio::task::JoinHandle<String>,
    closing: watch::Sender<bool>,
}

/// Starts a controller: recovers the ledger, and listens. One that is the only one of its cluster
/// has started its actors by then; any other takes part in finding a primary.
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
    let peers = Arc::new(LinkPeers::new(identity.clone(), settings.protocol));
    let certificate_ends_s = identity.expires_unix_s();
    let (touched, published) = Touched::new();
    let told = Arc::clone(&touched);
    let ledger = Ledger::new(Box::new(move |view, keys| told.add(view, keys)));
    let reader = ledger.reader();
    let config = wal_config(&settings, Arc::clone(&peers));
    let wal = xce_wal::open(config, ledger, on_fatal).await?;
    if reader.view().level() > settings.level_max {
        let (level, supported) = (reader.view().level(), settings.level_max);
        wal.close().await;
        return Err(StartError::Level { level, supported });
    }
    let keys = EndpointKeys::load_or_create(&settings.state_dir)?;
    let ring = ring(&settings)?;
    let refusals = Refusals::start(&settings.state_dir).map_err(StartError::Refusals)?;
    let house = Arc::new(House {
        settings,
        wal,
        reader,
        published,
        touched,
        boot_id,
        refusals: Arc::new(refusals),
        peers,
        certificate_ends_s,
        reign: watch::channel(None).0,
    });
    let (closing, closed) = watch::channel(false);
    let mut rule = tokio::spawn(reign::rule(Arc::clone(&house), closed.clone()));
    if house.wal.role().borrow().primary_term().is_some() {
        // Nobody has to vote: whoever comes through the door finds the actors there.
        let mut begun = house.reign.subscribe();
        tokio::select! {
            biased;
            _ = begun.wait_for(Option::is_some) => {}
            why = &mut rule => {
                let why = why.unwrap_or_else(|error| error.to_string());
                return Err(StartError::Reign(why));
            }
        }
    }
    let link = xce_link::Settings::default();
    let listener = listen(house.settings.listen, &identity, &link, &keys)?;
    let address = listener.address();
    let door = Task::spawn(serve(Arc::clone(&house), Arc::new(ring), listener, closed));
    Ok(Controller {
        house,
        address,
        door,
        rule,
        closing,
    })
}

/// Makes a state directory and leaves it: with an empty ledger for whoever founds a cluster, without
/// anything for whoever joins one.
///
/// # Errors
/// See [`StartError`].
pub async fn initialise(settings: &Settings) -> Result<(), StartError> {
    let identity = Identity::load(&settings.identity_dir)?;
    let ledger = Ledger::new(Box::new(|_, _| {}));
    let fatal = |text: String| tracing::error!(text, "state directory");
    let peers = Arc::new(LinkPeers::new(identity, settings.protocol));
    let wal = xce_wal::open(wal_config(settings, peers), ledger, fatal).await?;
    wal.close().await;
    Ok(())
}

async fn serve(
    house: Arc<House>,
    ring: Arc<KeyRing>,
    listener: Listener,
    mut closed: watch::Receiver<bool>,
) {
    let serving = door::serve(house, ring, listener);
    tokio::pin!(serving);
    tokio::select! {
        biased;
        _ = closed.wait_for(|closed| *closed) => {}
        () = &mut serving => {}
    }
}

/// Randomness for the backoffs of a tree.
///
/// # Errors
/// The system gives none.
pub fn entropy() -> Result<u64, StartError> {
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

/// What a controller would open its log with, for whoever works on its state while it is down.
pub fn offline(settings: &Settings) -> WalConfig {
    WalConfig {
        address: settings.advertise.clone(),
        ..WalConfig::new(
            settings.state_dir.clone(),
            settings.cluster.0,
            settings.node,
        )
    }
}

fn wal_config(settings: &Settings, peers: Arc<LinkPeers>) -> WalConfig {
    WalConfig {
        create: settings.create,
        join: settings.join,
        address: settings.advertise.clone(),
        peers,
        snapshot_every_entries: settings.snapshot_every,
        snapshot_every_bytes: settings.snapshot_bytes,
        ..WalConfig::new(
            settings.state_dir.clone(),
            settings.cluster.0,
            settings.node,
        )
    }
}

impl Controller {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Last committed position.
    pub fn lsn(&self) -> Lsn {
        self.house.reader.lsn()
    }

    /// Waits until it has ended by itself; the text says why.
    pub async fn ended(&mut self) -> String {
        tokio::select! {
            biased;
            why = self.house.peers.fenced() => why,
            ended = &mut self.rule => ended.unwrap_or_else(|error| error.to_string()),
        }
    }

    /// Stops in order: the leadership, the door, the actors, the log.
    pub async fn stop(self) {
        hand_over(&self.house).await;
        self.closing.send_replace(true);
        if !self.rule.is_finished() {
            drop(self.rule.await);
        }
        drop(self.door);
        self.house.wal.clone().close().await;
    }
}

/// Gives the leadership to another controller, if one can take it at once: the cluster does not have
/// to miss this one first.
async fn hand_over(house: &House) {
    let Some(own) = house
        .wal
        .role()
        .borrow()
        .primary_term()
        .map(|_| house.settings.node)
    else {
        return;
    };
    let members = house.wal.members();
    let next = members
        .iter()
        .filter(|state| state.voter && state.member.node != own)
        .max_by_key(|state| state.matched);
    if let Some(next) = next
        && let Err(error) = house.wal.transfer(next.member.node).await
    {
        tracing::warn!(%error, to = next.member.node, "the leadership was not handed over");
    }
}
