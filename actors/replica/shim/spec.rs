//! What to run: the file `spec` in the run directory, written by the worker, read once.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::record::{self, RecordError};

/// Newest form of the spec this build reads and writes.
pub const SPEC_VERSION: u32 = 1;

/// Largest spec file in bytes.
/// Source: derived; the kernel takes at most 6 MiB of arguments and environment (execve(2): 3/4 of
/// `_STK_LIM`), and JSON escapes rarely add a third.
pub const SPEC_BYTES_MAX: u64 = 8 * 1024 * 1024;

const SPEC_FILE: &str = "spec";

/// One run of a job, resolved by the worker: the shim decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Form of this record; [`SPEC_VERSION`].
    pub version: u32,
    /// Drawn by the worker for this run and start, never used twice; repeated in every record.
    pub nonce: String,
    /// Program and arguments; never given to a shell. Without a slash the program is looked up
    /// in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited or added.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Working directory, absolute; entered as the job's user.
    pub work_dir: String,
    /// Whom to run as; `None` is the shim's own user.
    #[serde(default)]
    pub user: Option<User>,
    /// File mode creation mask; `None` is inherited.
    #[serde(default)]
    pub umask: Option<u32>,
    /// Standard output.
    #[serde(default)]
    pub stdout: Output,
    /// Standard error.
    #[serde(default)]
    pub stderr: Output,
    /// Rotates an output file when it is larger; bytes; `None` is never.
    #[serde(default)]
    pub output_bytes_max: Option<u64>,
    /// Control group of this run alone, relative to the mount; `None` uses no control group.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Whether the run fails (the host's fault) when the control group cannot be made.
    #[serde(default)]
    pub cgroup_required: bool,
    /// Resource limits of the whole tree; need a control group.
    #[serde(default)]
    pub limits: Limits,
    /// Longest run in milliseconds by the boot-time clock, time in suspension not counted.
    #[serde(default)]
    pub run_limit_ms: Option<u64>,
    /// First signal of a stop that the shim itself begins (run limit, or TERM to the shim).
    pub stop_signal: i32,
    /// Time from that signal to the kill, milliseconds.
    pub stop_grace_ms: u64,
    /// Kills the tree at once at this boot time in milliseconds, unless extended by `lease`.
    #[serde(default)]
    pub lease_boot_ms: Option<u64>,
    /// Whether the exit record is synced to disk (0.4 ms on a quiet disk, 18 ms on a busy one).
    #[serde(default)]
    pub sync_exit: bool,
}

/// Whom a job runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Resolved by the worker.
    Ids {
        /// User id.
        uid: u32,
        /// Primary group id.
        gid: u32,
        /// Supplementary group ids.
        groups: Vec<u32>,
    },
    /// Resolved by the shim on this host, with all groups of the user.
    Name(String),
}

/// Where a stream of the job goes. Files are opened for appending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// `/dev/null`.
    #[default]
    Null,
    /// A file of this name in the run directory, opened by the shim: a failure is the host's.
    Spool(String),
    /// A path (relative to the working directory), opened as the job's user: a failure is the
    /// job's.
    File(String),
    /// Standard error only: the same open file as standard output.
    Stdout,
}

/// Resource limits; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of the whole tree in bytes.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the whole tree.
    #[serde(default)]
    pub pids: Option<u64>,
    /// CPU in thousandths of one CPU.
    #[serde(default)]
    pub cpu_milli: Option<u64>,
}

/// Why a spec cannot be run at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    /// No program is given.
    #[error("the command is empty")]
    EmptyCommand,
    /// A text holds a NUL byte, which no process can be given.
    #[error("{0} holds a NUL byte")]
    Nul(&'static str),
    /// A name in the environment is empty or holds `=`.
    #[error("the environment name {0:?} is empty or holds '='")]
    EnvironmentName(String),
    /// The working directory is not absolute.
    #[error("the working directory {0:?} is not absolute")]
    WorkDir(String),
    /// The name of a spool file is empty, has a slash, or starts with a dot.
    #[error("the output name {0:?} is not a plain file name")]
    OutputName(String),
    /// The control group is absolute, empty, or climbs.
    #[error("the control group {0:?} is not a plain relative path")]
    Cgroup(String),
    /// The signal number is unknown.
    #[error("the stop signal {0} is unknown")]
    StopSignal(i32),
}

impl Spec {
    /// A spec with the given command and defaults: own user, no files, no limits, TERM, 30 s.
    pub fn new(nonce: &str, argv: Vec<String>, work_dir: &str) -> Self {
        Self {
            version: SPEC_VERSION,
            nonce: nonce.to_owned(),
            argv,
            env: Vec::new(),
            work_dir: work_dir.to_owned(),
            user: None,
            umask: None,
            stdout: Output::Null,
            stderr: Output::Null,
            output_bytes_max: None,
            cgroup: None,
            cgroup_required: false,
            limits: Limits::default(),
            run_limit_ms: None,
            stop_signal: rustix::process::Signal::TERM.as_raw(),
            // Source: the default of `stop_grace`, design 7.1.
            stop_grace_ms: 30_000,
            lease_boot_ms: None,
            sync_exit: false,
        }
    }

    /// Reads `spec` of a run directory.
    ///
    /// # Errors
    /// As [`RecordError`] says.
    pub fn load(run_dir: &Path) -> Result<Self, RecordError> {
        record::load(run_dir, SPEC_FILE, SPEC_VERSION, SPEC_BYTES_MAX)
    }

    /// Writes `spec` of a run directory in one step.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn store(&self, run_dir: &Path) -> std::io::Result<()> {
        record::store(run_dir, SPEC_FILE, self, false)
    }

    /// Writes `spec` of a run directory that was just made, where nobody can look yet: one step
    /// less than [`Spec::store`].
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn store_first(&self, run_dir: &Path) -> std::io::Result<()> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        std::fs::write(run_dir.join(SPEC_FILE), bytes)
    }

    /// Finds the first thing that no host could run.
    ///
    /// # Errors
    /// The fault found.
    pub fn check(&self) -> Result<(), SpecFault> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(SpecFault::EmptyCommand);
        }
        if self.argv.iter().any(|text| text.contains('\0')) {
            return Err(SpecFault::Nul("the command"));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains('=') {
                return Err(SpecFault::EnvironmentName(name.clone()));
            }
            if name.contains('\0') || value.contains('\0') {
                return Err(SpecFault::Nul("the environment"));
            }
        }
        if !self.work_dir.starts_with('/') {
            return Err(SpecFault::WorkDir(self.work_dir.clone()));
        }
        if self.work_dir.contains('\0') {
            return Err(SpecFault::Nul("the working directory"));
        }
        check_output(&self.stdout)?;
        check_output(&self.stderr)?;
        if let Some(path) = &self.cgroup {
            check_cgroup(path)?;
        }
        match rustix::process::Signal::from_named_raw(self.stop_signal) {
            Some(_) => Ok(()),
            None => Err(SpecFault::StopSignal(self.stop_signal)),
        }
    }
}

fn check_output(output: &Output) -> Result<(), SpecFault> {
    match output {
        Output::Null | Output::Stdout => Ok(()),
        Output::Spool(name) => {
            let taken = ["spec", "run", "exit", "lock", "sock"];
            let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
            if plain && !taken.contains(&name.as_str()) {
                Ok(())
            } else {
                Err(SpecFault::OutputName(name.clone()))
            }
        }
        Output::File(path) if path.is_empty() => Err(SpecFault::OutputName(path.clone())),
        Output::File(path) if path.contains('\0') => Err(SpecFault::Nul("the output path")),
        Output::File(_) => Ok(()),
    }
}

fn check_cgroup(path: &str) -> Result<(), SpecFault> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if path.split('/').all(plain) && !path.contains('\0') {
        Ok(())
    } else {
        Err(SpecFault::Cgroup(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec::new("n", vec!["true".to_owned()], "/")
    }

    #[test]
    fn defaults_pass_the_check() {
        assert_eq!(spec().check(), Ok(()));
    }

    #[test]
    fn the_first_form_stays_readable() {
        let dir = tempfile::tempdir().unwrap();
        let least = "{\"version\":1,\"nonce\":\"n\",\"argv\":[\"true\"],\"work_dir\":\"/\",\
            \"stop_signal\":15,\"stop_grace_ms\":30000}";
        std::fs::write(dir.path().join("spec"), least).unwrap();
        assert_eq!(Spec::load(dir.path()).unwrap(), spec());
        let whole = "{\"version\":1,\"nonce\":\"n\",\"argv\":[\"true\"],\"env\":[[\"A\",\"b\"]],\
            \"work_dir\":\"/\",\"user\":{\"ids\":{\"uid\":1,\"gid\":2,\"groups\":[3]}},\"umask\":18,\
            \"stdout\":{\"spool\":\"out\"},\"stderr\":\"stdout\",\"output_bytes_max\":9,\
            \"cgroup\":\"a/b\",\"cgroup_required\":true,\"limits\":{\"memory_bytes\":1,\
            \"pids\":2,\"cpu_milli\":3},\"run_limit_ms\":4,\"stop_signal\":15,\
            \"stop_grace_ms\":5,\"lease_boot_ms\":6,\"sync_exit\":true}";
        std::fs::write(dir.path().join("spec"), whole).unwrap();
        let read = Spec::load(dir.path()).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), whole);
    }

    #[test]
    fn each_fault_is_named() {
        type Change = fn(&mut Spec);
        let table: [(Change, &str); 9] = [
            (|s| s.argv.clear(), "the command is empty"),
            (
                |s| s.argv.push("a\0b".into()),
                "the command holds a NUL byte",
            ),
            (
                |s| s.env.push(("A=B".into(), "".into())),
                "environment name",
            ),
            (
                |s| s.env.push(("A".into(), "\0".into())),
                "the environment holds",
            ),
            (|s| s.work_dir = "relative".into(), "not absolute"),
            (
                |s| s.stdout = Output::Spool("lock".into()),
                "plain file name",
            ),
            (
                |s| s.stderr = Output::Spool("../x".into()),
                "plain file name",
            ),
            (|s| s.cgroup = Some("a/../b".into()), "control group"),
            (|s| s.stop_signal = 4_000, "stop signal 4000"),
        ];
        for (change, text) in table {
            let mut spec = spec();
            change(&mut spec);
            let fault = spec.check().unwrap_err().to_string();
            assert!(fault.contains(text), "{fault}");
        }
    }
}
