//! Settings of a scheduler.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::client::{check_controllers, default_controllers};
use crate::fault::Fault;
use crate::home::{Home, identity_dir};
use crate::logging::{self, LogConfig};
use crate::option::{
    CONFIG_VERSION, CONFIG_VERSION_DOC, Kind, LOG_FORMAT_DOC, LOG_LEVEL_DOC, OptionDoc, Settings,
    check_version,
};

/// Settings of a scheduler; each option is described in `reference/scheduler.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Version of the file's form.
    pub config_version: u32,
    /// The scheduler's identity.
    pub identity_dir: PathBuf,
    /// Addresses of controllers, each `address:port`.
    pub controllers: Vec<String>,
    /// Logs.
    pub log: LogConfig,
}

impl Settings for SchedulerConfig {
    const ROLE: &'static str = "scheduler";

    const OPTIONS: &'static [OptionDoc] = &[
        CONFIG_VERSION_DOC,
        OptionDoc {
            key: "identity_dir",
            kind: Kind::Path,
            range: "a directory with identity.pem, identity.key and ca.pem",
            derived: Some("XCE_HOME/scheduler/identity"),
            text: "The scheduler's certificate and key, and the cluster's authority.",
        },
        OptionDoc {
            key: "controllers",
            kind: Kind::List,
            range: "1 to 16 of `address:port`",
            derived: None,
            text: "Addresses of the cluster's controllers.",
        },
        LOG_LEVEL_DOC,
        LOG_FORMAT_DOC,
    ];

    fn defaults(home: &Home) -> Self {
        Self {
            config_version: CONFIG_VERSION,
            identity_dir: identity_dir(&home.scheduler()),
            controllers: default_controllers(),
            log: LogConfig::default(),
        }
    }

    fn check(&self, faults: &mut Vec<Fault>) {
        check_version(faults, self.config_version);
        check_controllers(faults, &self.controllers);
        logging::check(&self.log, faults);
    }
}
