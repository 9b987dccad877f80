//! The records a run leaves on disk: one line of JSON each, with a version, written in one step.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Newest form of the run and exit records this build reads and writes.
pub const RECORD_VERSION: u32 = 1;

/// Largest run or exit record in bytes.
/// Source: derived; the longest texts in them are bounded by [`CAUSE_BYTES_MAX`] and
/// [`FAILURE_TEXT_BYTES_MAX`], paths by 4 096.
pub const RECORD_BYTES_MAX: u64 = 64 * 1024;

/// Longest text of a launch failure in bytes.
/// Source: derived; two paths of `PATH_MAX` would not fit a message anybody reads.
pub const FAILURE_TEXT_BYTES_MAX: usize = 1_024;

/// Longest cause in bytes.
/// Source: derived; the longest cause in use has 14.
pub const CAUSE_BYTES_MAX: usize = 64;

const RUN_FILE: &str = "run";
const EXIT_FILE: &str = "exit";

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no such file.
    #[error("there is no {0} record")]
    Missing(&'static str),
    /// The file could not be read.
    #[error("cannot read the {file} record")]
    Unreadable {
        /// Which record.
        file: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The file is larger than any record.
    #[error("the {file} record is larger than {bytes_max} bytes")]
    TooLarge {
        /// Which record.
        file: &'static str,
        /// The bound.
        bytes_max: u64,
    },
    /// The file is not a record.
    #[error("the {file} record is corrupt: {text}")]
    Corrupt {
        /// Which record.
        file: &'static str,
        /// Where it stops making sense.
        text: String,
    },
    /// A newer build wrote it.
    #[error("the {file} record has version {found}, this build reads up to {newest}")]
    TooNew {
        /// Which record.
        file: &'static str,
        /// Its version.
        found: u32,
        /// The newest this build reads.
        newest: u32,
    },
}

/// A process at display value: the pid counts only together with its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id.
    pub pid: i32,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
}

/// Written when the job's first process has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Form of this record; [`RECORD_VERSION`].
    pub version: u32,
    /// The nonce of the spec: which run this is.
    pub nonce: String,
    /// The boot it was started in.
    pub boot_id: String,
    /// The shim.
    pub shim: ProcessId,
    /// The job's first process; leader of its own session and group.
    pub job: ProcessId,
    /// Start, milliseconds since boot.
    pub started_boot_ms: u64,
    /// Start, milliseconds since 1970.
    pub started_wall_ms: u64,
    /// Directories of its control groups; the first one is version 2.
    pub cgroups: Vec<String>,
    /// What was asked for and is not enforced here: `cgroup`, `memory`, `pids`, `cpu`,
    /// `output_rotation`.
    pub not_enforced: Vec<String>,
}

/// Written when nothing of the job is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Form of this record; [`RECORD_VERSION`].
    pub version: u32,
    /// The nonce of the spec; empty when the spec could not be read.
    pub nonce: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was ended, if it was ended; otherwise it ended by itself.
    pub cause: Option<Cause>,
    /// End, milliseconds since 1970.
    pub ended_wall_ms: u64,
    /// Milliseconds from start to end by the boot-time clock.
    pub run_ms: u64,
    /// User time of the whole tree, milliseconds.
    pub user_ms: u64,
    /// System time of the whole tree, milliseconds.
    pub system_ms: u64,
    /// Most memory: of the tree where the control group counts it, else of its largest process.
    pub peak_memory_bytes: u64,
    /// Processes killed by the kernel for the memory limit.
    pub memory_kills: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The first process ended with this code.
    Code(i32),
    /// A signal ended the first process.
    Signal(i32),
    /// It never ran.
    NotLaunched(LaunchFailure),
}

/// Why it never ran, and whose fault that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchFailure {
    /// The job would fail on any host like this.
    Job(JobFault),
    /// Another host may run it.
    Host(HostFault),
}

/// A fault of the job, with the text to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFault {
    /// Which.
    pub kind: JobFaultKind,
    /// For people; at most [`FAILURE_TEXT_BYTES_MAX`].
    pub text: String,
}

/// A fault of the host, with the text to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFault {
    /// Which.
    pub kind: HostFaultKind,
    /// For people; at most [`FAILURE_TEXT_BYTES_MAX`].
    pub text: String,
}

/// Kinds of faults of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobFaultKind {
    /// No such program; a shell would say 127.
    CommandNotFound,
    /// There, but cannot be executed; a shell would say 126.
    NotExecutable,
    /// The working directory is missing or closed to the user.
    WorkDir,
    /// An output file cannot be opened by the user.
    Output,
    /// Arguments and environment are larger than the kernel takes.
    TooLong,
    /// The spec holds something no host can run.
    Spec,
}

/// Kinds of faults of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFaultKind {
    /// The spec is missing, corrupt, or of a newer version.
    SpecUnreadable,
    /// The run directory or its disk takes no files.
    Spool,
    /// The user is not known here.
    UserUnknown,
    /// The shim may not become that user.
    UserForbidden,
    /// The control group is required and could not be made.
    NoCgroup,
    /// No process could be made: out of processes, memory or files.
    NoProcess,
    /// Anything else the kernel refused.
    Other,
}

impl LaunchFailure {
    /// A fault of the job; the text is cut to its bound.
    pub fn job(kind: JobFaultKind, text: &str) -> Self {
        Self::Job(JobFault {
            kind,
            text: cut(text),
        })
    }

    /// A fault of the host; the text is cut to its bound.
    pub fn host(kind: HostFaultKind, text: &str) -> Self {
        Self::Host(HostFault {
            kind,
            text: cut(text),
        })
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(FAILURE_TEXT_BYTES_MAX)].to_owned()
}

/// Why a run was ended: capitals, digits and underscores, such as `TERM_OWNER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cause(String);

impl Cause {
    /// The run limit was reached.
    pub const RUN_LIMIT: &str = "TERM_RUNLIMIT";
    /// The kernel killed for the memory limit.
    pub const MEMORY_LIMIT: &str = "TERM_MEMLIMIT";
    /// The lease of a strict single copy ended.
    pub const LEASE: &str = "TERM_LEASE";
    /// Somebody sent TERM to the shim itself.
    pub const SHIM: &str = "TERM_SHIM";

    /// Takes a cause; `None` when it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= CAUSE_BYTES_MAX;
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        (fits && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    pub(crate) fn known(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// The cause of a run limit.
    pub fn run_limit() -> Self {
        Self::known(Self::RUN_LIMIT)
    }

    /// The cause of a memory limit.
    pub fn memory_limit() -> Self {
        Self::known(Self::MEMORY_LIMIT)
    }

    /// The cause of an ended lease.
    pub fn lease() -> Self {
        Self::known(Self::LEASE)
    }

    /// The cause of a TERM to the shim.
    pub fn shim() -> Self {
        Self::known(Self::SHIM)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Cause {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("a cause has 1 to 64 capitals, digits and underscores")
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.0
    }
}

impl RunRecord {
    /// Reads `run` of a run directory.
    ///
    /// # Errors
    /// As [`RecordError`] says.
    pub fn load(run_dir: &Path) -> Result<Self, RecordError> {
        load(run_dir, RUN_FILE, RECORD_VERSION, RECORD_BYTES_MAX)
    }

    /// Writes `run` of a run directory in one step.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn store(&self, run_dir: &Path) -> io::Result<()> {
        store(run_dir, RUN_FILE, self, false)
    }
}

impl ExitRecord {
    /// Reads `exit` of a run directory.
    ///
    /// # Errors
    /// As [`RecordError`] says.
    pub fn load(run_dir: &Path) -> Result<Self, RecordError> {
        load(run_dir, EXIT_FILE, RECORD_VERSION, RECORD_BYTES_MAX)
    }

    /// Writes `exit` of a run directory in one step, synced to disk on request.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn store(&self, run_dir: &Path, sync: bool) -> io::Result<()> {
        store(run_dir, EXIT_FILE, self, sync)
    }
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

// The version is looked at first: a newer form may not even parse as this one.
pub(crate) fn load<T: DeserializeOwned>(
    run_dir: &Path,
    file: &'static str,
    newest: u32,
    bytes_max: u64,
) -> Result<T, RecordError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => RecordError::Missing(file),
        _ => RecordError::Unreadable { file, source },
    };
    let opened = File::open(run_dir.join(file)).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let read = opened.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max {
        return Err(RecordError::TooLarge { file, bytes_max });
    }
    let corrupt = |error: serde_json::Error| RecordError::Corrupt {
        file,
        text: cut(&error.to_string()),
    };
    let found = serde_json::from_slice::<VersionOnly>(&bytes)
        .map_err(corrupt)?
        .version;
    if found > newest {
        return Err(RecordError::TooNew {
            file,
            found,
            newest,
        });
    }
    serde_json::from_slice(&bytes).map_err(corrupt)
}

pub(crate) fn store<T: Serialize>(
    run_dir: &Path,
    file: &str,
    record: &T,
    sync: bool,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(record)?;
    bytes.push(b'\n');
    let temporary = run_dir.join(format!(".{file}.tmp"));
    let mut out = File::create(&temporary)?;
    out.write_all(&bytes)?;
    if sync {
        out.sync_data()?;
    }
    drop(out);
    fs::rename(&temporary, run_dir.join(file))?;
    if sync {
        File::open(run_dir)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit() -> ExitRecord {
        ExitRecord {
            version: RECORD_VERSION,
            nonce: "n".to_owned(),
            outcome: Outcome::Code(3),
            cause: Cause::new("TERM_OWNER"),
            ended_wall_ms: 5,
            run_ms: 4,
            user_ms: 3,
            system_ms: 2,
            peak_memory_bytes: 1,
            memory_kills: 0,
        }
    }

    #[test]
    fn a_record_comes_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        exit().store(dir.path(), true).unwrap();
        assert_eq!(ExitRecord::load(dir.path()).unwrap(), exit());
    }

    #[test]
    fn the_bytes_on_disk_stay_as_they_are() {
        let text = serde_json::to_string(&exit()).unwrap();
        let expected = "{\"version\":1,\"nonce\":\"n\",\"outcome\":{\"code\":3},\
            \"cause\":\"TERM_OWNER\",\"ended_wall_ms\":5,\"run_ms\":4,\"user_ms\":3,\
            \"system_ms\":2,\"peak_memory_bytes\":1,\"memory_kills\":0}";
        assert_eq!(text, expected);
    }

    #[test]
    fn bad_records_are_named_and_never_panic() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            ExitRecord::load(dir.path()),
            Err(RecordError::Missing("exit"))
        ));
        let whole = serde_json::to_string(&exit()).unwrap();
        for length in 0..whole.len() {
            fs::write(dir.path().join("exit"), &whole[..length]).unwrap();
            let error = ExitRecord::load(dir.path()).unwrap_err();
            assert!(
                matches!(error, RecordError::Corrupt { .. }),
                "{length}: {error}"
            );
        }
        fs::write(dir.path().join("exit"), "{\"version\":9,\"other\":[]}").unwrap();
        let error = ExitRecord::load(dir.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            "the exit record has version 9, this build reads up to 1"
        );
        fs::write(dir.path().join("exit"), vec![b' '; 70_000]).unwrap();
        assert!(matches!(
            ExitRecord::load(dir.path()),
            Err(RecordError::TooLarge { .. })
        ));
        fs::write(dir.path().join("exit"), [0xff, 0xfe, 0]).unwrap();
        assert!(matches!(
            ExitRecord::load(dir.path()),
            Err(RecordError::Corrupt { .. })
        ));
    }

    #[test]
    fn causes_are_plain_tokens() {
        assert!(Cause::new("TERM_OWNER").is_some());
        for bad in ["", "term", "A B", "A\n", &"A".repeat(65)] {
            assert_eq!(Cause::new(bad), None, "{bad:?}");
        }
    }
}
