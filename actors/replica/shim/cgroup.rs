//! The control groups of a run: one in the version 2 tree, which holds and kills the job's tree,
//! and, where the version 2 tree lacks a controller, one each in the version 1 trees for limits.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::spec::Limits;

/// Where the version 2 tree may be mounted.
/// Source: systemd's hybrid and unified layouts, file-hierarchy(7).
const V2_MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Where each version 1 controller is mounted, under its own name.
/// Source: as above.
const V1_MOUNT: &str = "/sys/fs/cgroup";

/// Length of a CPU accounting period in microseconds.
/// Source: the kernel's default, Documentation/admin-guide/cgroup-v2.rst, `cpu.max`.
const CPU_PERIOD_US: u64 = 100_000;

/// Smallest CPU share of a period in microseconds.
/// Source: kernel/sched/core.c, `min_cfs_quota_period`.
const CPU_QUOTA_US_MIN: u64 = 1_000;

/// The controllers whose limits are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }

    fn wanted(self, limits: &Limits) -> Option<u64> {
        match self {
            Self::Memory => limits.memory_bytes,
            Self::Pids => limits.pids,
            Self::Cpu => limits.cpu_milli,
        }
    }
}

/// The control groups of one run.
#[derive(Debug)]
pub struct Cgroup {
    root: PathBuf,
    memory: Option<MemoryFiles>,
    v1: Vec<PathBuf>,
    not_enforced: Vec<&'static str>,
}

#[derive(Debug)]
struct MemoryFiles {
    current: PathBuf,
    peak: PathBuf,
    events: PathBuf,
}

/// The mount of the version 2 tree, if there is one.
pub fn v2_mount() -> Option<&'static Path> {
    V2_MOUNTS
        .iter()
        .map(Path::new)
        .find(|mount| mount.join("cgroup.controllers").exists())
}

impl Cgroup {
    /// Makes the groups of a run and sets its limits.
    ///
    /// # Errors
    /// When there is no version 2 tree, or the group cannot be made or already has processes.
    pub fn create(path: &str, limits: &Limits) -> io::Result<Self> {
        let mount = v2_mount().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "no version 2 control group tree is mounted",
            )
        })?;
        let root = mount.join(path);
        make(&root)?;
        if !fs::read_to_string(root.join("cgroup.procs"))?.is_empty() {
            let text = format!("the control group {} already has processes", root.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let mut group = Self {
            root,
            memory: None,
            v1: Vec::new(),
            not_enforced: Vec::new(),
        };
        for controller in Controller::ALL {
            if let Some(value) = controller.wanted(limits) {
                let set = group.limit_v2(mount, path, controller, value).is_ok()
                    || group.limit_v1(path, controller, value).is_ok();
                if !set {
                    group.not_enforced.push(controller.name());
                }
            }
        }
        Ok(group)
    }

    /// Names of limits that were asked for and cannot be enforced here.
    pub fn not_enforced(&self) -> &[&'static str] {
        &self.not_enforced
    }

    /// The directories, version 2 first.
    pub fn directories(&self) -> Vec<String> {
        let all = std::iter::once(&self.root).chain(&self.v1);
        all.map(|path| path.to_string_lossy().into_owned())
            .collect()
    }

    /// Files into which a process writes `0` to enter. Opened here, because the right to enter is
    /// that of the opener.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn entries(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |path: PathBuf| OpenOptions::new().write(true).open(path).map(OwnedFd::from);
        let first = std::iter::once(self.root.join("cgroup.procs"));
        // `tasks` moves one thread, and skips the lock that moving a whole process takes; the
        // process that enters has one thread.
        first
            .chain(self.v1.iter().map(|path| path.join("tasks")))
            .map(open)
            .collect()
    }

    fn limit_v2(
        &mut self,
        mount: &Path,
        path: &str,
        controller: Controller,
        value: u64,
    ) -> io::Result<()> {
        delegate(mount, path, controller)?;
        match controller {
            Controller::Memory => {
                fs::write(self.root.join("memory.max"), value.to_string())?;
                // Swap and group kill are refinements that a kernel may lack.
                let _ = fs::write(self.root.join("memory.swap.max"), "0");
                let _ = fs::write(self.root.join("memory.oom.group"), "1");
                self.memory = Some(MemoryFiles {
                    current: self.root.join("memory.current"),
                    peak: self.root.join("memory.peak"),
                    events: self.root.join("memory.events"),
                });
                Ok(())
            }
            Controller::Pids => fs::write(self.root.join("pids.max"), value.to_string()),
            Controller::Cpu => {
                let text = format!("{} {CPU_PERIOD_US}", cpu_quota_us(value));
                fs::write(self.root.join("cpu.max"), text)
            }
        }
    }

    fn limit_v1(&mut self, path: &str, controller: Controller, value: u64) -> io::Result<()> {
        let mount = Path::new(V1_MOUNT).join(controller.name());
        if !mount.join("tasks").exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let directory = mount.join(path);
        make(&directory)?;
        self.v1.push(directory.clone());
        match controller {
            Controller::Memory => {
                fs::write(directory.join("memory.limit_in_bytes"), value.to_string())?;
                let _ = fs::write(
                    directory.join("memory.memsw.limit_in_bytes"),
                    value.to_string(),
                );
                self.memory = Some(MemoryFiles {
                    current: directory.join("memory.usage_in_bytes"),
                    peak: directory.join("memory.max_usage_in_bytes"),
                    events: directory.join("memory.oom_control"),
                });
                Ok(())
            }
            Controller::Pids => fs::write(directory.join("pids.max"), value.to_string()),
            Controller::Cpu => {
                fs::write(
                    directory.join("cpu.cfs_period_us"),
                    CPU_PERIOD_US.to_string(),
                )?;
                fs::write(
                    directory.join("cpu.cfs_quota_us"),
                    cpu_quota_us(value).to_string(),
                )
            }
        }
    }

    /// Kills everything in the group, however much it forks.
    pub fn kill(&self) -> io::Result<()> {
        kill(&self.root)
    }

    /// Freezes or thaws everything in the group.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        fs::write(
            self.root.join("cgroup.freeze"),
            if frozen { "1" } else { "0" },
        )
    }

    /// Whether any process is in the group or below.
    pub fn is_populated(&self) -> bool {
        is_populated(&self.root)
    }

    /// Memory in use, bytes; `None` where it is not counted.
    pub fn memory_bytes(&self) -> Option<u64> {
        read_number(&self.memory.as_ref()?.current)
    }

    /// Most memory used, bytes; `None` where it is not counted.
    pub fn memory_peak_bytes(&self) -> Option<u64> {
        read_number(&self.memory.as_ref()?.peak)
    }

    /// Processes that the kernel killed for the memory limit.
    pub fn memory_kills(&self) -> u64 {
        let events = self.memory.as_ref().map(|files| &files.events);
        events
            .and_then(|path| read_field(path, "oom_kill"))
            .unwrap_or(0)
    }

    /// CPU time used, milliseconds.
    pub fn cpu_ms(&self) -> Option<u64> {
        Some(read_field(&self.root.join("cpu.stat"), "usage_usec")? / 1_000)
    }

    /// Removes the groups and those that the job made below.
    pub fn remove(&self) {
        for directory in std::iter::once(&self.root).chain(&self.v1) {
            remove(directory);
        }
    }
}

/// Kills everything in a version 2 group.
///
/// # Errors
/// When the group is not there or the kernel is older than 5.14.
pub fn kill(directory: &Path) -> io::Result<()> {
    // Plain open: a missing file must not be asked for creation.
    let mut file = OpenOptions::new()
        .write(true)
        .open(directory.join("cgroup.kill"))?;
    io::Write::write_all(&mut file, b"1")
}

/// Whether any process is in a version 2 group or below.
pub fn is_populated(directory: &Path) -> bool {
    read_field(&directory.join("cgroup.events"), "populated") == Some(1)
}

/// Process ids in a group, any version.
pub fn members(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a group and those below; what is still in use stays.
pub fn remove(directory: &Path) {
    if fs::remove_dir(directory).is_ok() {
        return;
    }
    let below = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    let _ = fs::remove_dir(directory);
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(directory),
        Err(error) => Err(error),
    }
}

// Hands the controller down from the mount to the group, where it is not there yet.
fn delegate(mount: &Path, path: &str, controller: Controller) -> io::Result<()> {
    let has = |directory: &Path| {
        let text = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
        text.split_ascii_whitespace()
            .any(|name| name == controller.name())
    };
    if has(&mount.join(path)) {
        return Ok(());
    }
    if !has(mount) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut directory = mount.to_path_buf();
    for part in path.split('/') {
        let enable = format!("+{}", controller.name());
        fs::write(directory.join("cgroup.subtree_control"), enable)?;
        directory.push(part);
    }
    Ok(())
}

fn cpu_quota_us(milli: u64) -> u64 {
    (milli.saturating_mul(CPU_PERIOD_US) / 1_000).max(CPU_QUOTA_US_MIN)
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn read_field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}
