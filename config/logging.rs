//! Logs of a daemon: to stderr, as text or JSON.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use crate::fault::Fault;

/// Form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Settings of logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// A level, or directives such as `info,xce_wal=debug`. Default `info`.
    pub level: String,
    /// Form of lines. Default text.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

/// Logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is none.
    #[error("`{level}` is not a log level: {reason}")]
    Level {
        /// What was given.
        level: String,
        /// Why.
        reason: String,
    },
    /// Logs were set up before.
    #[error("logs are set up already")]
    Twice,
}

/// Libraries whose words help only whoever asks for them by name: consensus repeats 20 times a second
/// that a controller is down, which `cluster members` says too.
const QUIET: &str = "openraft=error,ractor=off";

/// Makes another filter hold; whether it does.
type SetFilter = Box<dyn Fn(EnvFilter) -> bool + Send + Sync>;

/// The logs of this process.
pub struct Logs {
    set: Option<SetFilter>,
}

impl Logs {
    /// Follows settings that were read anew; where `XCE_LOG` is set, it wins still.
    pub fn follow(&self, settings: &serde_json::Value) {
        let level = settings
            .pointer("/log/level")
            .and_then(|level| level.as_str());
        let filter = level.and_then(|level| filter(level).ok());
        if let (Some(set), Some(filter)) = (&self.set, filter) {
            set(filter);
        }
    }
}

/// Sets up the logs of this process; `variable` is the value of `XCE_LOG`, which wins.
///
/// # Errors
/// [`LogError::Level`] for directives that are none, [`LogError::Twice`] on a second call.
pub fn start(config: &LogConfig, variable: Option<&str>) -> Result<Logs, LogError> {
    let variable = variable.filter(|text| !text.is_empty());
    let filter = filter(variable.unwrap_or(&config.level))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let (outcome, set): (_, SetFilter) = match config.format {
        LogFormat::Text => {
            let builder = builder.with_ansi(is_coloured()).with_filter_reloading();
            let handle = builder.reload_handle();
            let set = move |filter| handle.reload(filter).is_ok();
            (builder.try_init(), Box::new(set))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            let set = move |filter| handle.reload(filter).is_ok();
            (builder.try_init(), Box::new(set))
        }
    };
    outcome.map_err(|_| LogError::Twice)?;
    Ok(Logs {
        set: variable.is_none().then_some(set),
    })
}

fn is_coloured() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(format!("{QUIET},{level}")).map_err(|error| LogError::Level {
        level: level.to_owned(),
        reason: error.to_string(),
    })
}

/// Notes a level that is none.
pub(crate) fn check(config: &LogConfig, faults: &mut Vec<Fault>) {
    if let Err(error) = filter(&config.level) {
        faults.push(Fault::placeless(format!("`log.level`: {error}")));
    }
}
