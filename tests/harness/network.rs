//! Hosts as network namespaces on a switch of our own, so that links can be cut, slowed and garbled
//! one by one and in one direction.
//!
//! ```text
//!   namespace xce-PID-N-c1 ── TAP eth0 ──┐
//!   namespace xce-PID-N-c2 ── TAP eth0 ──┤ switch: a thread of the test, a [`Link`] for each
//!   namespace xce-PID-N-h1 ── TAP eth0 ──┘ pair and direction
//! ```
//! The kernel of a test machine need not have any queueing discipline, and nothing of the machine's
//! own network is touched. Names carry the process id of the test: what a killed test leaves behind
//! is removed by the next one.

mod link;
mod switch;
mod tap;

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{processes, programs};

pub use link::Link;
use switch::Switch;

/// Where namespaces have names. Source: ip-netns(8).
const NAMES: &str = "/run/netns";
/// What the names of all namespaces begin with.
const PREFIX: &str = "xce-";
/// Programs that are needed.
const PROGRAMS: [&str; 3] = ["ip", "nsenter", "python3"];

/// A network of hosts; gone with everything that runs on them when it is dropped.
#[derive(Debug)]
pub struct Network {
    prefix: String,
    hosts: Vec<String>,
    switch: Switch,
}

/// Why there can be no network here; nothing when there can.
pub fn obstacle() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    if let Some(absent) = PROGRAMS.iter().find(|name| programs::find(name).is_none()) {
        return Some(format!("`{absent}` is not installed"));
    }
    (!Path::new("/dev/net/tun").exists()).then(|| "there is no /dev/net/tun".to_owned())
}

impl Network {
    /// Hosts of these names, each of which reaches each other; the seed decides what is lost.
    ///
    /// # Errors
    /// When the machine has no namespaces or devices for us.
    pub fn start(hosts: &[&str], seed: u64) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        if let Some(obstacle) = obstacle() {
            return Err(obstacle);
        }
        remove_orphans();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{PREFIX}{}-{number}", std::process::id());
        let names: Vec<String> = hosts
            .iter()
            .map(|host| format!("{prefix}-{host}"))
            .collect();
        let made = make(&names).and_then(|()| tap::open(&names));
        let switched = made.and_then(|taps| {
            (0..names.len()).try_for_each(|at| configure(&names, at))?;
            Switch::start(taps, seed)
        });
        match switched {
            Ok(switch) => Ok(Self {
                prefix,
                hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                switch,
            }),
            Err(error) => {
                remove(&prefix);
                Err(error)
            }
        }
    }

    /// The address of a host.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn address(&self, host: &str) -> Ipv4Addr {
        address(self.number(host))
    }

    /// Words that start a program on a host, before its own.
    pub fn entry(&self, host: &str) -> Vec<String> {
        let name = &self.hosts[self.number(host)];
        let namespace = format!("--net={NAMES}/{}-{name}", self.prefix);
        vec!["nsenter".to_owned(), namespace, "--".to_owned()]
    }

    fn number(&self, host: &str) -> usize {
        let found = self.hosts.iter().position(|name| name == host);
        found.unwrap_or_else(|| panic!("there is no host {host}"))
    }

    /// Changes the link from one host to another, in that direction only.
    pub fn link(&self, from: &str, to: &str, change: impl FnOnce(&mut Link)) {
        let (from, to) = (self.number(from), self.number(to));
        self.switch.change(|links| change(&mut links[from][to]));
    }

    /// Changes all links between two hosts' groups, in both directions.
    pub fn between(&self, some: &[&str], others: &[&str], change: impl Fn(&mut Link)) {
        for one in some {
            for other in others.iter().filter(|other| *other != one) {
                self.link(one, other, &change);
                self.link(other, one, &change);
            }
        }
    }

    /// Changes every link.
    pub fn all(&self, change: impl Fn(&mut Link)) {
        self.switch
            .change(|links| links.iter_mut().flatten().for_each(&change));
    }

    /// Nothing passes between these two groups any more.
    pub fn part(&self, some: &[&str], others: &[&str]) {
        self.between(some, others, |link| link.is_cut = true);
    }

    /// Nothing passes between a host and any other any more.
    pub fn isolate(&self, host: &str) {
        let all: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        self.part(&[host], &all);
    }

    /// Every link is as at the start.
    pub fn heal(&self) {
        self.all(|link| *link = Link::default());
    }

    /// Frames passed on and frames lost so far.
    pub fn counts(&self) -> (u64, u64) {
        self.switch.counts()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.switch.stop();
        remove(&self.prefix);
    }
}

/// The address of the host of a number, from 0.
fn address(number: usize) -> Ipv4Addr {
    let last = u8::try_from(number + 1).expect("there are few hosts");
    Ipv4Addr::new(10, 77, 0, last)
}

/// The hardware address of the host of a number, from 0; the switch finds hosts by its last byte.
fn hardware(number: usize) -> String {
    format!("02:77:00:00:00:{:02x}", number + 1)
}

fn make(names: &[String]) -> Result<(), String> {
    let lines = names.iter().map(|name| format!("netns add {name}\n"));
    ip(&[], &lines.collect::<String>())
}

/// Addresses of one host. Those of the others are told, or the first packets after a cut would wait
/// for the answers to who has them.
fn configure(names: &[String], at: usize) -> Result<(), String> {
    let mut lines = format!(
        "link set lo up\nlink set eth0 address {}\naddr add {}/24 dev eth0\nlink set eth0 up\n",
        hardware(at),
        address(at)
    );
    for other in (0..names.len()).filter(|other| *other != at) {
        lines.push_str(&format!(
            "neigh add {} lladdr {} dev eth0 nud permanent\n",
            address(other),
            hardware(other)
        ));
    }
    ip(&["-n", &names[at]], &lines)
}

/// Runs commands of `ip`, each a line.
fn ip(words: &[&str], lines: &str) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("ip: {error}");
    let mut command = Command::new("ip");
    command
        .env("PATH", programs::search_path())
        .args(words)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(fault)?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(lines.as_bytes()).map_err(fault)?;
    }
    let output = child.wait_with_output().map_err(fault)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip: {}", said.trim()))
}

/// Removes the namespaces of tests that are no more.
fn remove_orphans() {
    let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse().ok());
        if owner.is_some_and(|pid| !processes::is_alive(pid)) {
            remove(&name);
        }
    }
}

/// Removes all namespaces whose names begin so, and ends everything that runs in them.
fn remove(prefix: &str) {
    let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
    let ours: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == prefix || name.starts_with(&format!("{prefix}-"))
        })
        .collect();
    for path in ours {
        inhabitants(&path)
            .into_iter()
            .for_each(processes::kill_hard);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // One that is gone already needs nothing.
        drop(ip(&[], &format!("netns del {name}\n")));
    }
}

/// Processes in a namespace.
fn inhabitants(namespace: &Path) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = fs::metadata(namespace) else {
        return Vec::new();
    };
    let is_in = |pid: &u32| {
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|own| (own.dev(), own.ino()) == (meta.dev(), meta.ino()))
    };
    let all = processes::all().into_iter().map(|process| process.pid);
    all.filter(is_in).collect()
}
