//! Wall clocks that a test sets, each for one process: of the machine, only the answer to "what time
//! is it" is changed, not how time passes.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Adds what a file says to the wall clock. It is not Rust, since a function of the C library is put
/// before the library's own. Source: ld.so(8), LD_PRELOAD.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;
static int (*true_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("XCE_TESTS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *map = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (map != MAP_FAILED)
            offset = map;
        close(file);
    }
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    if (!true_clock)
        true_clock = dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = true_clock(id, time);
    if (outcome == 0 && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = time->tv_nsec + *offset % 1000000000;
        time->tv_sec += *offset / 1000000000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
        time->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
    }
    return outcome;
}
"#;

/// A wall clock for processes that get its variables.
#[derive(Debug)]
pub struct Clock {
    file: fs::File,
    path: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// A clock that is right, with its files in a folder.
    ///
    /// # Errors
    /// When there is no C compiler.
    pub fn new(folder: &Path, name: &str) -> Result<Self, String> {
        let fault = |error: std::io::Error| format!("a clock for {name}: {error}");
        let library = folder.join("clock.so");
        if !library.exists() {
            build(folder, &library)?;
        }
        let path = folder.join(format!("{name}.clock"));
        fs::write(&path, 0_i64.to_ne_bytes()).map_err(fault)?;
        let file = fs::File::options().write(true).open(&path).map_err(fault)?;
        Ok(Self {
            file,
            path,
            library,
        })
    }

    /// Variables of a process that is to go by it.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("XCE_TESTS_CLOCK", self.path.display().to_string()),
        ]
    }

    /// Sets it so far ahead of the true time.
    ///
    /// # Panics
    /// When its file cannot be written.
    pub fn ahead(&self, time: Duration) {
        self.set(i64::try_from(time.as_nanos()).expect("less than a century"));
    }

    /// Sets it so far behind the true time.
    ///
    /// # Panics
    /// When its file cannot be written.
    pub fn behind(&self, time: Duration) {
        self.set(-i64::try_from(time.as_nanos()).expect("less than a century"));
    }

    fn set(&self, offset: i64) {
        let written = self.file.write_all_at(&offset.to_ne_bytes(), 0);
        written.expect("the file of a clock can be written");
    }
}

fn build(folder: &Path, library: &Path) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("cc: {error}");
    let source = folder.join("clock.c");
    fs::write(&source, CLOCK).map_err(fault)?;
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library, &source])
        .arg("-ldl")
        .stdin(Stdio::null());
    let output = command.output().map_err(fault)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("cc: {}", said.trim()))
}
