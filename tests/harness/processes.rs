//! Processes of this machine, from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Variable of every job that names its run; the same is in the run's directory.
const NONCE: &str = "XCE_NONCE=";

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Whether it has ended and waits to be collected.
    pub is_zombie: bool,
    /// Its words, joined by spaces.
    pub line: String,
}

/// All processes.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(read).collect()
}

/// One process, where it exists.
pub fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may hold anything; what follows may not.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    Some(Process {
        pid,
        parent,
        is_zombie,
        line: words.join(" ").trim_end().to_owned(),
    })
}

/// Whether a process runs.
pub fn is_alive(pid: u32) -> bool {
    read(pid).is_some_and(|process| !process.is_zombie)
}

/// Living children.
pub fn children(pid: u32) -> Vec<Process> {
    all()
        .into_iter()
        .filter(|process| process.parent == pid && !process.is_zombie)
        .collect()
}

/// Sends a signal; a process that is gone already is no fault.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("process ids are positive numbers"));
    let _gone = kill(pid, signal);
}

/// Ends a process at once.
pub fn kill_hard(pid: u32) {
    signal(pid, Signal::SIGKILL);
}

/// Everything that runs for a cluster: what names its folder, what descends from that, and jobs
/// that lost their guard, by the mark that each job carries.
pub fn of_folder(folder: &Path) -> Vec<Process> {
    let all: Vec<Process> = all()
        .into_iter()
        .filter(|process| !process.is_zombie)
        .collect();
    let name = folder.display().to_string();
    let own = std::process::id();
    let mut found: BTreeSet<u32> = all
        .iter()
        .filter(|process| {
            process.pid != own && (process.line.contains(&name) || is_in(process.pid, folder))
        })
        .map(|process| process.pid)
        .collect();
    let marks = marks(folder);
    found.extend(
        all.iter()
            .map(|process| process.pid)
            .filter(|pid| carries(*pid, &marks)),
    );
    loop {
        let before = found.len();
        let below: Vec<u32> = all
            .iter()
            .filter(|process| found.contains(&process.parent))
            .map(|process| process.pid)
            .collect();
        found.extend(below);
        if found.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|process| found.contains(&process.pid))
        .collect()
}

fn is_in(pid: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(folder))
}

fn carries(pid: u32, marks: &BTreeSet<String>) -> bool {
    if marks.is_empty() {
        return false;
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| std::str::from_utf8(variable).is_ok_and(|text| marks.contains(text)))
}

/// The marks of all runs below a folder, each as the variable that its processes have.
fn marks(folder: &Path) -> BTreeSet<String> {
    let mut marks = BTreeSet::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(_) if path.file_name().is_some_and(|name| name == "spec") => {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    marks.extend(mark(&text));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    marks
}

fn mark(spec: &str) -> Option<String> {
    let (_, rest) = spec.split_once("\"nonce\":\"")?;
    let (nonce, _) = rest.split_once('"')?;
    Some(format!("{NONCE}{nonce}"))
}
