//! Settings that may change while the controller runs, and how they are read anew.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use xce_model::{Millis, Refusal};
use xce_session::config_wire::ReloadView;

/// Settings whose change holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveSettings {
    /// How long a host may be away before it counts as lost. Default 10 min.
    pub away_max: Millis,
    /// Share of the hosts that may go silent within one grace before the controller doubts its own
    /// network, in hundredths. Default 50.
    pub mass_loss: u32,
    /// How long ended jobs answer by id. Default 24 h.
    pub keep_ended: Millis,
    /// Whether actors may be killed on request.
    pub chaos: bool,
}

/// Those of one controller, shared by all that reads them.
#[derive(Debug, Clone)]
pub struct Live(Arc<RwLock<LiveSettings>>);

impl Live {
    /// As they are at the start.
    pub fn new(settings: LiveSettings) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// As they are now.
    pub fn get(&self) -> LiveSettings {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on.
    pub fn set(&self, settings: LiveSettings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

/// Reads the daemon's settings anew and applies what may change while it runs.
type Read = dyn Fn() -> Result<ReloadView, Refusal> + Send + Sync;

/// How the daemon reads its settings anew; none where it cannot.
#[derive(Clone, Default)]
pub struct Reload(Option<Arc<Read>>);

impl Reload {
    /// By a function of the daemon.
    pub fn by(read: impl Fn() -> Result<ReloadView, Refusal> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// Reads them anew.
    ///
    /// # Errors
    /// `bad_config` with every fault, and then nothing changes; `no_reload` where the daemon cannot.
    pub fn run(&self) -> Result<ReloadView, Refusal> {
        match &self.0 {
            Some(read) => read(),
            None => Err(Refusal::refused(
                "no_reload",
                "this controller was started without a way to read its settings anew",
            )),
        }
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reload").field(&self.0.is_some()).finish()
    }
}
