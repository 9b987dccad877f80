//! What the kernel says about this machine: clocks, boot id, start times of processes.

use std::fs::{self, File};
use std::io::{self, Read};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since boot, counting suspended time; never goes backwards.
pub fn boot_ms() -> u64 {
    millis(ClockId::Boottime)
}

/// Milliseconds since 1970 by the wall clock; may jump.
pub fn wall_ms() -> u64 {
    millis(ClockId::Realtime)
}

fn millis(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let millis = u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1_000).saturating_add(millis)
}

/// The id the kernel drew at this boot; another one means that no old process lives.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn boot_id() -> io::Result<String> {
    let mut buffer = [0; SHORT_FILE_BYTES];
    let text = read_short("/proc/sys/kernel/random/boot_id", &mut buffer)?;
    Ok(text.trim().to_owned())
}

/// Bytes of the longest file read here.
/// Source: derived; `/proc/<pid>/stat` has 52 numbers of at most 20 digits, and a name.
const SHORT_FILE_BYTES: usize = 1_280;

// One read gives the whole of a file this short; the general way asks five times.
fn read_short<'a>(path: &str, buffer: &'a mut [u8; SHORT_FILE_BYTES]) -> io::Result<&'a str> {
    let length = File::open(path)?.read(buffer)?;
    std::str::from_utf8(&buffer[..length])
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The four facts of `/proc/<pid>/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Process id.
    pub pid: i32,
    /// Parent's process id.
    pub parent: i32,
    /// Session id.
    pub session: i32,
    /// One letter; `Z` is a zombie, `X` dead.
    pub state: u8,
    /// Start, in clock ticks since boot.
    pub start_ticks: u64,
    /// User and system time, in clock ticks.
    pub cpu_ticks: u64,
    /// Resident memory in pages.
    pub resident_pages: u64,
}

impl ProcessStat {
    /// Whether it is a process that can still do something.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// Reads `/proc/<pid>/stat`; `None` when there is no such process.
pub fn process_stat(pid: i32) -> Option<ProcessStat> {
    let mut buffer = [0; SHORT_FILE_BYTES];
    parse_stat(pid, read_stat(pid, &mut buffer)?)
}

/// The start of a process in clock ticks since boot; 0 when there is no such process.
pub fn start_ticks(pid: i32) -> u64 {
    process_stat(pid).map_or(0, |stat| stat.start_ticks)
}

/// Every process that `/proc` lists at this moment.
pub fn processes() -> Vec<ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(process_stat)
        .collect()
}

// A process may give itself a name that is not text; only the numbers behind it matter.
fn read_stat(pid: i32, buffer: &mut [u8; SHORT_FILE_BYTES]) -> Option<&str> {
    let length = File::open(format!("/proc/{pid}/stat"))
        .ok()?
        .read(buffer)
        .ok()?;
    let name_end = buffer[..length].iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(&buffer[name_end..length]).ok()
}

// The name (field 2) may hold spaces and parentheses, so count from the last parenthesis.
// Source: proc_pid_stat(5), the numbers are its field numbers.
fn parse_stat(pid: i32, text: &str) -> Option<ProcessStat> {
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(22).collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    Some(ProcessStat {
        pid,
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        cpu_ticks: ticks(14)?.saturating_add(ticks(15)?),
        start_ticks: ticks(22)?,
        resident_pages: ticks(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let text = "7 (a) b) S 3 7 5 0 -1 4 1 2 3 4 10 20 1 1 20 0 1 0 999 4096 12 0";
        let stat = parse_stat(7, text).unwrap();
        assert_eq!((stat.parent, stat.session, stat.state), (3, 5, b'S'));
        assert_eq!((stat.start_ticks, stat.cpu_ticks), (999, 30));
        assert_eq!(stat.resident_pages, 12);
    }

    #[test]
    fn broken_text_is_no_process() {
        for text in ["", "7", "7 (a)", "7 (a) S", "7 (a) S x y z"] {
            assert_eq!(parse_stat(7, text), None, "{text}");
        }
    }

    #[test]
    fn this_process_is_listed() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(start_ticks(own) > 0);
        assert!(processes().iter().any(|stat| stat.pid == own));
    }
}
