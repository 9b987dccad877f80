//! The records a run leaves on disk: one line of JSON each, with a version, written in one step.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xce_failpoint::Point;

use crate::outcome::{Cause, Outcome, cut};

/// Newest form of the run and exit records this build reads and writes.
pub const RECORD_VERSION: u32 = 1;

/// Largest run or exit record in bytes.
/// Source: derived; the longest texts in them are bounded by [`crate::outcome::CAUSE_BYTES_MAX`] and
/// [`crate::outcome::FAILURE_TEXT_BYTES_MAX`], paths by 4 096.
pub const RECORD_BYTES_MAX: u64 = 64 * 1024;

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
    xce_failpoint::check(Point::ShimRecordWritten)?;
    fs::rename(&temporary, run_dir.join(file))?;
    xce_failpoint::hit(Point::ShimRecordRenamed);
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
}
