//! Settings of a daemon that runs are read anew: on SIGHUP, and where it is asked for.
//!
//! What may change while it runs is applied, the rest waits for the next start. A file with faults
//! changes nothing. The settings that run are kept beside the state, as a file that means just them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};
use xce_config::changes::{self, Change};
use xce_config::logging::Logs;
use xce_config::option::Settings;
use xce_config::{Faults, Home, Sources};

/// Name of the kept settings within the state directory.
const KEPT: &str = "settings.running.toml";

/// Reads settings anew.
pub struct Reloader<S> {
    home: Home,
    sources: Sources,
    state_dir: PathBuf,
    logs: Logs,
    running: Mutex<S>,
    apply: Box<dyn Fn(&S) + Send + Sync>,
}

impl<S: Settings> Reloader<S> {
    /// Of a daemon that runs with some settings; `apply` makes those hold that may change.
    pub fn new(
        (home, sources): (Home, Sources),
        running: S,
        state_dir: &Path,
        logs: Logs,
        apply: impl Fn(&S) + Send + Sync + 'static,
    ) -> Self {
        let reloader = Self {
            home,
            sources,
            state_dir: state_dir.to_owned(),
            logs,
            running: Mutex::new(running),
            apply: Box::new(apply),
        };
        reloader.keep(
            &reloader
                .running
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        reloader
    }

    /// The file that is read; empty where none is named.
    pub fn file(&self) -> String {
        let file = self.sources.file.as_ref();
        file.map_or_else(String::new, |path| path.display().to_string())
    }

    /// Where the settings that run are kept.
    pub fn kept(&self) -> PathBuf {
        self.state_dir.join(KEPT)
    }

    /// Reads the settings anew and applies what may change; gives what differs.
    ///
    /// # Errors
    /// Every fault; nothing has changed then.
    pub fn reload(&self) -> Result<Vec<Change>, Faults> {
        let read: S = xce_config::load(&self.home, &self.sources)?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let reloaded = changes::reload(&*running, &read);
        *running = reloaded.running;
        if reloaded.changes.iter().any(|change| change.live) {
            self.logs.follow(&changes::to_value(&*running));
            (self.apply)(&running);
            self.keep(&running);
        }
        Ok(reloaded.changes)
    }

    /// Keeps the settings that run; that it fails harms nothing but this.
    fn keep(&self, running: &S) {
        let head = format!(
            "The settings with which this {} runs, from all sources. Written by it; of no effect.",
            S::ROLE
        );
        let text = changes::to_file(running, &head);
        if let Err(error) = xce_link::secret_file::replace(&self.kept(), text.as_bytes()) {
            tracing::warn!(%error, file = %self.kept().display(), "running settings not kept");
        }
    }

    /// Reads them anew on each SIGHUP, for ever, and says in the log what came of it.
    pub async fn on_hangup(&self) -> std::io::Error {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return error,
        };
        while hangup.recv().await.is_some() {
            match self.reload() {
                Ok(changes) => say(&changes),
                Err(faults) => {
                    tracing::error!(%faults, "settings not read anew, the old ones hold");
                }
            }
        }
        std::io::Error::other("signals are not told any more")
    }
}

fn say(changes: &[Change]) {
    if changes.is_empty() {
        tracing::warn!("settings read anew, nothing differs");
    }
    for Change {
        key,
        from,
        to,
        live,
    } in changes
    {
        if *live {
            tracing::warn!(option = key, from, to, "setting changed");
        } else {
            tracing::warn!(
                option = key,
                from,
                to,
                "setting holds from the next start on"
            );
        }
    }
}

/// Adds to the faults of a start where the settings are that ran last, if they were kept there.
pub fn with_kept(faults: Faults, state_dir: &Path) -> anyhow::Error {
    let kept = state_dir.join(KEPT);
    if kept.exists() {
        let text = format!("the settings that ran last are in {}", kept.display());
        return anyhow::anyhow!("{faults}\n{text}");
    }
    anyhow::Error::from(faults)
}
