//! What a worker keeps of a run beside what its shim keeps: the file `memory` in the run
//! directory. It is absent while it holds nothing that matters, which is so for every batch job.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xce_failpoint::Point;
use xce_model::Start;

use crate::restart::RestartHistory;

const MEMORY_FILE: &str = "memory";
const MEMORY_TEMPORARY: &str = ".memory.tmp";

/// Largest file read, in bytes.
///
/// Source: derived; a thousand moments of at most 21 bytes, and some small fields.
const MEMORY_BYTES_MAX: u64 = 64 * 1024;

/// What is remembered of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The current start; the next one while the run waits for it.
    pub start: Start,
    /// When the next start is due, milliseconds since boot; absent unless the run waits for it.
    pub not_before_ms: Option<u64>,
    /// Restarts so far.
    pub history: RestartHistory,
    /// The last start that was reported as running.
    pub announced: Start,
    /// The last readiness that was reported; nothing before the first.
    pub ready: Option<bool>,
    /// Whether the startup probe of this start has passed.
    pub startup_passed: bool,
    /// Whether its processes are stopped for a while.
    pub suspended: bool,
    /// Number of the last wish to be restarted because the liveness probe failed; 0 before the
    /// first.
    pub wish: u32,
    /// That it has this wish now, and what the probe said.
    pub wanted: Option<String>,
    /// Whether a start that ended by that has not been ready again.
    pub recovering: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            start: 1,
            not_before_ms: None,
            history: RestartHistory::default(),
            announced: 0,
            ready: None,
            startup_passed: false,
            suspended: false,
            wish: 0,
            wanted: None,
            recovering: false,
        }
    }
}

impl Memory {
    /// Turns to the next start, due at `at_ms`.
    pub(crate) fn next_start(&mut self, at_ms: u64) {
        self.start = self.start.saturating_add(1);
        self.not_before_ms = Some(at_ms);
        self.ready = None;
        self.startup_passed = false;
        self.suspended = false;
        self.wanted = None;
    }

    /// Reads the memory of a run; the default where there is none.
    ///
    /// # Errors
    /// When a file is there that cannot be read or is not a memory.
    pub fn load(run_dir: &Path) -> io::Result<Self> {
        let path = run_dir.join(MEMORY_FILE);
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        if length > MEMORY_BYTES_MAX {
            return Err(io::Error::other("the memory of the run is too large"));
        }
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Writes the memory of a run in one step.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn store(&self, run_dir: &Path) -> io::Result<()> {
        let temporary = run_dir.join(MEMORY_TEMPORARY);
        fs::write(&temporary, serde_json::to_vec(self)?)?;
        xce_failpoint::check(Point::RunMemoryWritten)?;
        fs::rename(temporary, run_dir.join(MEMORY_FILE))?;
        xce_failpoint::hit(Point::RunMemoryRenamed);
        Ok(())
    }
}
