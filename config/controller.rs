//! Settings of a controller.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xce_model::limits::check_name;
use xce_model::{Bytes, Millis};

use crate::compatibility::{ControllerCompatibility, LEVEL_MAX_DOC, PROTOCOL_MAX_DOC};
use crate::fault::Fault;
use crate::forms::Renamed;
use crate::home::{Home, identity_dir};
use crate::logging::{self, LogConfig};
use crate::option::{
    CONFIG_VERSION, CONFIG_VERSION_DOC, Kind, LOG_FORMAT_DOC, LOG_LEVEL_DOC, OptionDoc, Settings,
    check_range, check_version,
};

/// Port of a controller. Source: chosen, not registered with IANA for another service.
pub const PORT: u16 = 7477;

/// Settings of a controller; each option is described in `reference/controller.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// Version of the file's form.
    pub config_version: u32,
    /// Name of the cluster, for display.
    pub cluster: String,
    /// Where the log and the snapshots lie.
    pub state_dir: PathBuf,
    /// The controller's identity.
    pub identity_dir: PathBuf,
    /// UDP address that peers connect to.
    pub listen: SocketAddr,
    /// Where the other controllers reach this one; empty for `listen`.
    pub advertise: String,
    /// The authority that signs for whoever joins.
    pub authority_dir: PathBuf,
    /// How the silence of hosts is judged.
    pub hosts: HostsConfig,
    /// How long ended jobs are kept.
    pub keep_ended: Millis,
    /// Breaking things on purpose.
    pub chaos: ChaosConfig,
    /// Where the scheduler runs.
    pub scheduler: SchedulerPlace,
    /// How long a scheduler that is a daemon may not respond.
    pub scheduler_grace: Millis,
    /// Snapshots of the ledger.
    pub snapshot: SnapshotConfig,
    /// Held back while versions differ.
    pub compatibility: ControllerCompatibility,
    /// Logs.
    pub log: LogConfig,
}

/// How the silence of hosts is judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostsConfig {
    /// Period of the beats of hosts.
    pub beat: Millis,
    /// Silence after which a host is lost.
    pub grace: Millis,
    /// How long a host may be away after its worker was stopped.
    pub away_max: Millis,
    /// Share of the hosts that may go silent at once, in hundredths.
    pub mass_loss: u32,
    /// How long before the grace is over strict single copies are killed.
    pub kill_budget: Millis,
}

/// Breaking things on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChaosConfig {
    /// Whether administrators may kill actors.
    pub enabled: bool,
}

/// Where the scheduler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerPlace {
    /// In the controller.
    Embedded,
    /// As a daemon of its own, `xced scheduler`.
    Daemon,
}

/// When snapshots are taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotConfig {
    /// After so many log entries.
    pub every_entries: u64,
    /// After so many bytes of log.
    pub every_bytes: Bytes,
}

impl ControllerConfig {
    /// Where the other controllers reach this one, `host:port`.
    pub fn advertised(&self) -> String {
        if self.advertise.is_empty() {
            self.listen.to_string()
        } else {
            self.advertise.clone()
        }
    }
}

/// Whether a text names a host and a port.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let plain = |symbol: char| !symbol.is_whitespace() && !symbol.is_control();
    !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// An option that has its new name since version 2.
const fn renamed(old: &'static str, new: &'static str) -> Renamed {
    Renamed {
        old,
        new,
        since: 2,
        convert: None,
    }
}

/// Where the scheduler runs, by what version 1 said of it.
fn scheduler_place(embedded: &toml::Value) -> Option<toml::Value> {
    let word = match embedded.as_bool()? {
        true => "embedded",
        false => "daemon",
    };
    Some(toml::Value::from(word))
}

/// Fewest beats within the grace of a host. Source: design 8.1, suspect after 3 missed.
const BEATS_IN_GRACE: u64 = 4;

const DAY: Millis = Millis::seconds(86_400);

impl Settings for ControllerConfig {
    const ROLE: &'static str = "controller";

    const OPTIONS: &'static [OptionDoc] = &[
        CONFIG_VERSION_DOC,
        OptionDoc {
            key: "cluster",
            kind: Kind::Text,
            range: "1 to 128 of a-z, 0-9, `.`, `_`, `-`",
            derived: None,
            text: "Name of the cluster, for display.",
        },
        OptionDoc {
            key: "state_dir",
            kind: Kind::Path,
            range: "a directory that only the controller writes to",
            derived: Some("XCE_HOME/controller"),
            text: "Where the log and the snapshots lie.",
        },
        OptionDoc {
            key: "identity_dir",
            kind: Kind::Path,
            range: "a directory with identity.pem, identity.key and ca.pem",
            derived: Some("state_dir/identity of the default state_dir"),
            text: "The controller's certificate and key, and the cluster's authority.",
        },
        OptionDoc {
            key: "listen",
            kind: Kind::Address,
            range: "an address of this machine; port 0 takes any free one",
            derived: None,
            text: "UDP address that clients and workers connect to.",
        },
        OptionDoc {
            key: "advertise",
            kind: Kind::Text,
            range: "host:port, or empty for the address of `listen`",
            derived: None,
            text: "Where the other controllers, and whoever is led here, reach this one.",
        },
        OptionDoc {
            key: "authority_dir",
            kind: Kind::Path,
            range: "a directory with ca.pem and ca.key",
            derived: Some("XCE_HOME/authority"),
            text: "The cluster's authority, which signs for whoever joins.",
        },
        OptionDoc {
            key: "keep_ended",
            kind: Kind::Duration,
            range: "1m to 366days",
            derived: None,
            text: "How long ended jobs are kept before they are cleaned up.",
        },
        OptionDoc {
            key: "scheduler",
            kind: Kind::Text,
            range: "embedded or daemon",
            derived: None,
            text: "Whether the scheduler runs in the controller, or as `xced scheduler`.",
        },
        OptionDoc {
            key: "scheduler_grace",
            kind: Kind::Duration,
            range: "200ms to 10m",
            derived: None,
            text: "How long a scheduler that is a daemon may not respond before users are told.",
        },
        OptionDoc {
            key: "hosts.beat",
            kind: Kind::Duration,
            range: "100ms to 1m",
            derived: None,
            text: "Period in which every host says that its worker works.",
        },
        OptionDoc {
            key: "hosts.grace",
            kind: Kind::Duration,
            range: "four beats to 1day",
            derived: None,
            text: "Silence after which a host is lost and its jobs are recovered.",
        },
        OptionDoc {
            key: "hosts.away_max",
            kind: Kind::Duration,
            range: "1s to 30days",
            derived: None,
            text: "How long a host may be away after its worker was stopped cleanly, before it is lost.",
        },
        OptionDoc {
            key: "hosts.mass_loss",
            kind: Kind::Number,
            range: "1 to 100",
            derived: None,
            text: "Percentage of the hosts: when more go silent at once, and at least 3, the controller \
                   doubts its own network, and declares none lost for another grace.",
        },
        OptionDoc {
            key: "hosts.kill_budget",
            kind: Kind::Duration,
            range: "100ms to 1day",
            derived: None,
            text: "How long before grace is over jobs with `single_copy = strict` are killed where the \
                   controller is out of reach; with three missed beats it must fit into grace, else \
                   such jobs are refused.",
        },
        OptionDoc {
            key: "chaos.enabled",
            kind: Kind::Boolean,
            range: "true or false",
            derived: None,
            text: "Whether administrators may kill actors with `xcecli actors kill`.",
        },
        OptionDoc {
            key: "snapshot.every_entries",
            kind: Kind::Number,
            range: "100 to 100000000",
            derived: None,
            text: "A snapshot is taken after so many entries of the log.",
        },
        OptionDoc {
            key: "snapshot.every_bytes",
            kind: Kind::Size,
            range: "1MiB to 1TiB",
            derived: None,
            text: "A snapshot is taken after so many bytes of the log.",
        },
        PROTOCOL_MAX_DOC,
        LEVEL_MAX_DOC,
        LOG_LEVEL_DOC,
        LOG_FORMAT_DOC,
    ];

    const RENAMED: &'static [Renamed] = &[
        renamed("beat", "hosts.beat"),
        renamed("host_grace", "hosts.grace"),
        renamed("away_max", "hosts.away_max"),
        renamed("mass_loss", "hosts.mass_loss"),
        renamed("kill_budget", "hosts.kill_budget"),
        Renamed {
            convert: Some(scheduler_place),
            ..renamed("scheduler.embedded", "scheduler")
        },
    ];

    const LIVE: &'static [&'static str] = &[
        // Not beat, grace and kill budget: workers were told of them, and leases rest on them.
        "hosts.away_max",
        "hosts.mass_loss",
        "keep_ended",
        "chaos.enabled",
        "log.level",
    ];

    fn defaults(home: &Home) -> Self {
        let state_dir = home.controller();
        Self {
            config_version: CONFIG_VERSION,
            cluster: "xce".to_owned(),
            identity_dir: identity_dir(&state_dir),
            state_dir,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            advertise: String::new(),
            authority_dir: home.authority(),
            // Source: design section 8.1, silences of hosts; section 15, ended jobs.
            hosts: HostsConfig {
                beat: Millis::seconds(2),
                grace: Millis::seconds(20),
                away_max: Millis::seconds(600),
                mass_loss: 50,
                kill_budget: Millis::seconds(5),
            },
            keep_ended: DAY,
            chaos: ChaosConfig { enabled: false },
            scheduler: SchedulerPlace::Embedded,
            // Source: chosen; as long as a person waits before asking why.
            scheduler_grace: Millis::seconds(5),
            // Source: the defaults of the WAL, whose settings say how they were chosen.
            snapshot: SnapshotConfig {
                every_entries: 50_000,
                every_bytes: Bytes(128 << 20),
            },
            compatibility: ControllerCompatibility::default(),
            log: LogConfig::default(),
        }
    }

    fn check(&self, faults: &mut Vec<Fault>) {
        check_version(faults, self.config_version);
        if let Err(refusal) = check_name("cluster", &self.cluster) {
            faults.push(Fault::placeless(refusal.text));
        }
        if !self.advertise.is_empty() && !is_host_and_port(&self.advertise) {
            let shown = &self.advertise;
            let text = format!("`advertise`: `{shown}` is not host:port, such as c1.site:7477");
            faults.push(Fault::placeless(text));
        }
        let minute = Millis::seconds(60);
        check_hosts(faults, &self.hosts);
        let year = Millis(DAY.0 * 366);
        check_range(faults, "keep_ended", &self.keep_ended, &minute, &year);
        let (grace, most) = (&self.scheduler_grace, Millis::seconds(600));
        check_range(faults, "scheduler_grace", grace, &Millis(200), &most);
        let entries = &self.snapshot.every_entries;
        check_range(
            faults,
            "snapshot.every_entries",
            entries,
            &100,
            &100_000_000,
        );
        let bytes = &self.snapshot.every_bytes;
        check_range(
            faults,
            "snapshot.every_bytes",
            bytes,
            &Bytes(1 << 20),
            &Bytes(1 << 40),
        );
        logging::check(&self.log, faults);
    }
}

fn check_hosts(faults: &mut Vec<Fault>, hosts: &HostsConfig) {
    let minute = Millis::seconds(60);
    check_range(faults, "hosts.beat", &hosts.beat, &Millis(100), &minute);
    let least = Millis(hosts.beat.0.saturating_mul(BEATS_IN_GRACE));
    check_range(faults, "hosts.grace", &hosts.grace, &least, &DAY);
    let (away, month) = (&hosts.away_max, Millis(DAY.0 * 30));
    check_range(faults, "hosts.away_max", away, &Millis(1000), &month);
    check_range(faults, "hosts.mass_loss", &hosts.mass_loss, &1, &100);
    let budget = &hosts.kill_budget;
    check_range(faults, "hosts.kill_budget", budget, &Millis(100), &DAY);
}
