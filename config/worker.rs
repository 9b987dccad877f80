//! Settings of a worker.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xce_model::limits::check_name;
use xce_model::{Bytes, MilliCpu, Millis};

use crate::client::{check_controllers, default_controllers};
use crate::compatibility::{PROTOCOL_MAX_DOC, WorkerCompatibility};
use crate::fault::Fault;
use crate::home::{Home, identity_dir};
use crate::logging::{self, LogConfig};
use crate::option::{
    CONFIG_VERSION, CONFIG_VERSION_DOC, Kind, LOG_FORMAT_DOC, LOG_LEVEL_DOC, OptionDoc, Settings,
    check_range, check_version,
};

const DAY: Millis = Millis::seconds(86_400);

/// Settings of a worker; each option is described in `reference/worker.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Version of the file's form.
    pub config_version: u32,
    /// Name of the host.
    pub name: String,
    /// Where the spool and the runs lie.
    pub state_dir: PathBuf,
    /// The worker's identity.
    pub identity_dir: PathBuf,
    /// Addresses of controllers, each `address:port`.
    pub controllers: Vec<String>,
    /// Address that services of this host listen on.
    pub address: IpAddr,
    /// The program that guards a run; found beside the daemon's own program when absent.
    pub shim: Option<PathBuf>,
    /// Processors offered; all of the machine when absent.
    pub cpus: Option<MilliCpu>,
    /// Memory offered; all of the machine when absent.
    pub memory: Option<Bytes>,
    /// Labels of the host.
    pub labels: BTreeMap<String, String>,
    /// Ports given to services.
    pub ports: PortRange,
    /// Period of beats until the controller names its own.
    pub beat: Millis,
    /// Directory of the control group below which runs get theirs; found out when absent.
    pub cgroup_parent: Option<PathBuf>,
    /// How long directories of ended runs are kept for their output.
    pub keep_ended: Millis,
    /// Whether facts and exit records are on disk before they are told.
    pub sync: bool,
    /// Held back while versions differ.
    pub compatibility: WorkerCompatibility,
    /// Logs.
    pub log: LogConfig,
}

/// Ports given to services, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// Lowest.
    pub first: u16,
    /// Highest.
    pub last: u16,
}

impl Settings for WorkerConfig {
    const ROLE: &'static str = "worker";

    const OPTIONS: &'static [OptionDoc] = &[
        CONFIG_VERSION_DOC,
        OptionDoc {
            key: "name",
            kind: Kind::Text,
            range: "1 to 128 of a-z, 0-9, `.`, `_`, `-`",
            derived: None,
            text: "Name of the host in the cluster.",
        },
        OptionDoc {
            key: "state_dir",
            kind: Kind::Path,
            range: "a directory that only this worker writes to",
            derived: Some("XCE_HOME/w1"),
            text: "Where the spool of facts and the runs' directories lie.",
        },
        OptionDoc {
            key: "identity_dir",
            kind: Kind::Path,
            range: "a directory with identity.pem, identity.key and ca.pem",
            derived: Some("XCE_HOME/w1/identity"),
            text: "The worker's certificate and key, and the cluster's authority.",
        },
        OptionDoc {
            key: "controllers",
            kind: Kind::List,
            range: "1 to 16 of `address:port`",
            derived: None,
            text: "Addresses of the cluster's controllers.",
        },
        OptionDoc {
            key: "address",
            kind: Kind::Text,
            range: "an IP address",
            derived: None,
            text: "Address under which other machines reach services of this host.",
        },
        OptionDoc {
            key: "shim",
            kind: Kind::Path,
            range: "a program",
            derived: Some("`xce-shim` beside the daemon's own program"),
            text: "The program that guards each run.",
        },
        OptionDoc {
            key: "cpus",
            kind: Kind::Number,
            range: "0.001 to 1000000",
            derived: Some("the processors of the machine"),
            text: "Processors offered to jobs.",
        },
        OptionDoc {
            key: "memory",
            kind: Kind::Size,
            range: "16MiB to 1024TiB",
            derived: Some("the memory of the machine"),
            text: "Memory offered to jobs.",
        },
        OptionDoc {
            key: "labels",
            kind: Kind::Table,
            range: "names of a-z, 0-9, `.`, `_`, `-`; values of at most 128 bytes",
            derived: None,
            text: "Labels that jobs may ask for.",
        },
        OptionDoc {
            key: "beat",
            kind: Kind::Duration,
            range: "100ms to 1m",
            derived: None,
            text: "Period of beats until the controller names its own.",
        },
        OptionDoc {
            key: "cgroup_parent",
            kind: Kind::Path,
            range: "a directory of a mounted control group tree",
            derived: Some("found out at start; none where it cannot be written"),
            text: "Control group below which each run gets its own.",
        },
        OptionDoc {
            key: "keep_ended",
            kind: Kind::Duration,
            range: "1s to 366days",
            derived: None,
            text: "How long the output of ended runs is kept on this host.",
        },
        OptionDoc {
            key: "sync",
            kind: Kind::Boolean,
            range: "true or false",
            derived: None,
            text: "Whether what happened to runs is on disk before the controller hears of it: then a \
                   loss of power loses no exit code.",
        },
        OptionDoc {
            key: "ports.first",
            kind: Kind::Number,
            range: "1 to 65535",
            derived: None,
            text: "Lowest port given to services.",
        },
        OptionDoc {
            key: "ports.last",
            kind: Kind::Number,
            range: "ports.first to 65535",
            derived: None,
            text: "Highest port given to services.",
        },
        PROTOCOL_MAX_DOC,
        LOG_LEVEL_DOC,
        LOG_FORMAT_DOC,
    ];

    const LIVE: &'static [&'static str] = &["log.level"];

    fn defaults(home: &Home) -> Self {
        // Source: chosen, the first worker of `xced dev`.
        let name = "w1";
        let state_dir = home.worker(name);
        Self {
            config_version: CONFIG_VERSION,
            name: name.to_owned(),
            identity_dir: identity_dir(&state_dir),
            state_dir,
            controllers: default_controllers(),
            address: IpAddr::from(Ipv4Addr::LOCALHOST),
            shim: None,
            cpus: None,
            memory: None,
            labels: BTreeMap::new(),
            // Source: below 32768, where Linux takes ephemeral ports from (ip(7)), and above the
            // ports of known services.
            ports: PortRange {
                first: 20_000,
                last: 29_999,
            },
            // Source: design section 8.1.
            beat: Millis::seconds(2),
            cgroup_parent: None,
            // Source: design section 15, as for the records of ended jobs.
            keep_ended: DAY,
            sync: false,
            compatibility: WorkerCompatibility::default(),
            log: LogConfig::default(),
        }
    }

    fn check(&self, faults: &mut Vec<Fault>) {
        check_version(faults, self.config_version);
        if let Err(refusal) = check_name("host", &self.name) {
            faults.push(Fault::placeless(format!("`name`: {refusal}")));
        }
        check_controllers(faults, &self.controllers);
        check_range(
            faults,
            "beat",
            &self.beat,
            &Millis(100),
            &Millis::seconds(60),
        );
        let (second, year) = (Millis::seconds(1), Millis(DAY.0 * 366));
        check_range(faults, "keep_ended", &self.keep_ended, &second, &year);
        if let Some(memory) = &self.memory {
            check_range(faults, "memory", memory, &Bytes(16 << 20), &Bytes(1 << 50));
        }
        if self.ports.first == 0 || self.ports.last < self.ports.first {
            faults.push(Fault::placeless(format!(
                "`ports` are {} to {}; allowed: 1 to 65535, first not above last",
                self.ports.first, self.ports.last
            )));
        }
        for (label, value) in &self.labels {
            if let Err(refusal) = check_name("label", label) {
                faults.push(Fault::placeless(format!("`labels`: {refusal}")));
            }
            if value.len() > xce_model::limits::NAME_BYTES_MAX || value.contains(char::is_control) {
                faults.push(Fault::placeless(format!(
                    "`labels.{}`: a value has at most 128 bytes and no control characters",
                    label.escape_debug()
                )));
            }
        }
        logging::check(&self.log, faults);
    }
}
