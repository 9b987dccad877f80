//! The first steps of the job's first process, between fork and exec.
//!
//! Holds the only `unsafe` of the project: the hook that the standard library runs there.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::SigSet;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Signal, Uid};

/// The steps, in order; the step that failed travels in the error number above 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything else: fork or exec.
    Exec = 0,
    /// Entering the control groups.
    Cgroup = 1,
    /// Making the session.
    Session = 2,
    /// Becoming the user.
    User = 3,
    /// Entering the working directory.
    WorkDir = 4,
    /// Opening standard output.
    Stdout = 5,
    /// Opening standard error.
    Stderr = 6,
    /// Binding its life to the shim's.
    Death = 7,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Exec,
        Self::Cgroup,
        Self::Session,
        Self::User,
        Self::WorkDir,
        Self::Stdout,
        Self::Stderr,
        Self::Death,
    ];

    /// Splits the error of a spawn into step and error number.
    pub fn of(error: &io::Error) -> (Self, Errno) {
        let raw = error.raw_os_error().unwrap_or(0);
        let step = Self::ALL.into_iter().find(|step| *step as i32 == raw >> 16);
        (
            step.unwrap_or(Self::Exec),
            Errno::from_raw_os_error(raw & 0xffff),
        )
    }

    fn failed(self, errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(((self as i32) << 16) | errno.raw_os_error())
    }
}

/// Whom to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// All that the steps need, made before the fork: between fork and exec nothing is allocated.
pub struct ChildPlan {
    entries: Vec<OwnedFd>,
    user: Option<(Uid, Gid, Vec<Gid>)>,
    umask: Option<Mode>,
    work_dir: CString,
    stdout: Option<CString>,
    stderr: Option<CString>,
    join_stderr: bool,
    shim: Pid,
    no_signals: SigSet,
}

impl ChildPlan {
    /// A plan that enters the given groups and directory, as the given user.
    pub fn new(entries: Vec<OwnedFd>, user: Option<Credentials>, work_dir: CString) -> Self {
        let group = Gid::from_raw;
        Self {
            entries,
            user: user.map(|user| {
                let groups = user.groups.iter().copied().map(group).collect();
                (Uid::from_raw(user.uid), group(user.gid), groups)
            }),
            umask: None,
            work_dir,
            stdout: None,
            stderr: None,
            join_stderr: false,
            shim: rustix::process::getpid(),
            no_signals: SigSet::empty(),
        }
    }

    /// Sets the file mode creation mask.
    pub fn umask(&mut self, mask: u32) {
        self.umask = Some(Mode::from_raw_mode(mask & 0o777));
    }

    /// Opens standard output as the user.
    pub fn stdout(&mut self, path: CString) {
        self.stdout = Some(path);
    }

    /// Opens standard error as the user.
    pub fn stderr(&mut self, path: CString) {
        self.stderr = Some(path);
    }

    /// Makes standard error the same open file as standard output.
    pub fn join_stderr(&mut self) {
        self.join_stderr = true;
    }

    fn enter(&self) -> io::Result<()> {
        for entry in &self.entries {
            rustix::io::write(entry, b"0").map_err(|errno| Step::Cgroup.failed(errno))?;
        }
        rustix::process::setsid().map_err(|errno| Step::Session.failed(errno))?;
        if let Some((uid, gid, groups)) = &self.user {
            become_user(*uid, *gid, groups).map_err(|errno| Step::User.failed(errno))?;
        }
        if let Some(mask) = self.umask {
            rustix::process::umask(mask);
        }
        let entered = rustix::process::chdir(self.work_dir.as_c_str());
        entered.map_err(|errno| Step::WorkDir.failed(errno))?;
        self.open_outputs()?;
        // The shim blocks signals to read them from a descriptor; the job must not inherit that.
        let unblocked = self.no_signals.thread_set_mask();
        unblocked.map_err(|errno| io::Error::from_raw_os_error(errno as i32))?;
        self.bind_life()
    }

    fn open_outputs(&self) -> io::Result<()> {
        if let Some(path) = &self.stdout {
            let opened = open_output(path).and_then(rustix::stdio::dup2_stdout);
            opened.map_err(|errno| Step::Stdout.failed(errno))?;
        }
        let opened = match &self.stderr {
            Some(path) => open_output(path).and_then(rustix::stdio::dup2_stderr),
            None if self.join_stderr => rustix::stdio::dup2_stderr(rustix::stdio::stdout()),
            None => Ok(()),
        };
        opened.map_err(|errno| Step::Stderr.failed(errno))
    }

    // After the change of user, which clears it. A shim that died before this is seen by the
    // parent that replaced it.
    fn bind_life(&self) -> io::Result<()> {
        let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        bound.map_err(|errno| Step::Death.failed(errno))?;
        if rustix::process::getppid() == Some(self.shim) {
            Ok(())
        } else {
            Err(Step::Death.failed(Errno::SRCH))
        }
    }
}

fn become_user(uid: Uid, gid: Gid, groups: &[Gid]) -> Result<(), Errno> {
    rustix::thread::set_thread_groups(groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

// A pipe without a reader would hold up the start for ever, so the open does not wait.
fn open_output(path: &CString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::APPEND
        | OFlags::NOCTTY
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = open(path.as_c_str(), flags, Mode::from_raw_mode(0o666))?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Makes the command run the plan between fork and exec.
#[allow(unsafe_code)]
pub fn attach(command: &mut Command, plan: ChildPlan) {
    // SAFETY: the shim has one thread, so the forked child finds no lock held by another; the
    // hook only makes system calls on values made before the fork, allocates nothing, and its
    // errors carry a number only. It ends at the exec.
    unsafe {
        command.pre_exec(move || plan.enter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_and_the_number_come_back() {
        for step in Step::ALL {
            assert_eq!(Step::of(&step.failed(Errno::NOENT)), (step, Errno::NOENT));
        }
        let plain = io::Error::from_raw_os_error(Errno::ACCESS.raw_os_error());
        assert_eq!(Step::of(&plain), (Step::Exec, Errno::ACCESS));
    }
}
