//! Built-in defaults of services and jobs; every value of a specification that nobody gave.

use std::collections::BTreeMap;

use xce_model::spec::{
    Amount, OnStuck, ReplacementSettings, Resources, RestartMode, RestartPolicy, RolloutSettings,
    StopPolicy, User,
};
use xce_model::{Bytes, MilliCpu, Millis};

/// Project of whatever names none. Source: chosen.
pub const PROJECT: &str = "default";
/// Queue of whatever names none. Source: chosen.
pub const QUEUE: &str = "default";
/// Profile of a service that names none. Source: chosen, the kind of profile that services have.
pub const SERVICE_PROFILE: &str = "service";
/// Profile of a batch job that names none. Source: chosen, the kind of profile that jobs have.
pub const BATCH_PROFILE: &str = "batch";
/// Replicas of a service that is created without a count. Source: chosen, the least that serves.
pub const REPLICAS: u32 = 1;

/// Resources of a replica.
///
/// Source: derived; a small idle server uses few processor cycles, so a machine of two processors
/// takes twenty of them; 128 MiB hold an interpreter with a web server (about 20 MiB resident) and
/// its file pages without being killed for them.
pub const SERVICE_RESOURCES: Resources = Resources {
    cpus: MilliCpu(100),
    memory: Bytes(128 << 20),
};

/// Resources of a batch job.
///
/// Source: derived; a batch program computes, so it gets a processor of its own: a machine of two
/// runs two; 256 MiB fit thirty-two times into the 8 GiB of a small laptop.
pub const JOB_RESOURCES: Resources = Resources {
    cpus: MilliCpu(1000),
    memory: Bytes(256 << 20),
};

/// Search path of a job that brings none. Source: Debian's default of login shells for root.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A login account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name and ids.
    pub user: User,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// Environment of a service before the file's own variables: what a login would set, and nothing
/// of the caller's, so that a file means the same whoever uses it.
pub fn service_environment(account: &Account) -> BTreeMap<String, String> {
    let pairs = [
        ("HOME", account.home.as_str()),
        ("LOGNAME", &account.user.name),
        ("PATH", SEARCH_PATH),
        ("USER", &account.user.name),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Restart in place. Source: design section 7.5; a batch job ends when its program ends.
pub const fn restart(mode: RestartMode) -> RestartPolicy {
    RestartPolicy {
        mode,
        delay: Millis(100),
        delay_max: Millis::seconds(60),
        max_restarts: 5,
        window: Millis::seconds(600),
        stable_after: Millis::seconds(60),
    }
}

/// How a job is stopped. Source: design section 7.1; 15 is TERM.
pub const STOP: StopPolicy = StopPolicy {
    drain: Millis(0),
    signal: 15,
    grace: Millis::seconds(30),
};

/// Rollout. Source: design section 6.1.
pub const ROLLOUT: RolloutSettings = RolloutSettings {
    max_surge: Amount::Percent(25),
    max_unavailable: Amount::Percent(25),
    min_ready: Millis(0),
    progress_deadline: Millis::seconds(600),
    on_stuck: OnStuck::Stop,
    history_limit: 10,
};

/// Backoff of replacements. Source: design section 6.5.
pub const REPLACEMENT: ReplacementSettings = ReplacementSettings {
    stable_after: Millis::seconds(60),
    delay: Millis::seconds(1),
    delay_max: Millis::seconds(300),
    crash_limit: 5,
    crash_window: Millis::seconds(600),
};

/// Period of a probe. Source: design section 7.3.
pub const PROBE_PERIOD: Millis = Millis::seconds(10);
/// Longest duration of one probe. Source: design section 7.3.
pub const PROBE_TIMEOUT: Millis = Millis::seconds(1);
/// Successes in a row that make a probe good. Source: design section 7.3.
pub const PROBE_SUCCESSES: u32 = 1;
/// Failures in a row that make a probe bad. Source: design section 7.3.
pub const PROBE_FAILURES: u32 = 3;
/// Host that probes connect to. Source: design section 7.3, the replica's own machine.
pub const PROBE_HOST: &str = "127.0.0.1";
