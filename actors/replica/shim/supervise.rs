//! From the start of the job to its exit record: waits for child signals, deadlines and requests,
//! all in one `poll`, and never looks twice without reason.
//!
//! ```text
//!   running ◄──► suspended
//!      │ stop            first process ends: kill the rest
//!      ▼                          │
//!   stopping ── grace over ──► killing ── no child left ──► exit record, end
//! ```

use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use xce_failpoint::Point;
use xce_shim::cgroup::Cgroup;
use xce_shim::{
    Cause, Event, ExitRecord, HostFaultKind, LaunchFailure, Outcome, Request, RunRecord, ShimState,
    Spec, Status, Usage, machine, record, tree,
};

use crate::clients::{Asked, Clients};
use crate::deadlines::{Deadlines, Timer};
use crate::launch::Launched;
use crate::outputs::{ROTATE_PERIOD_MS, RotatedFile};

/// Milliseconds after which a tree that is still not gone is killed again.
/// Source: derived; only processes that hang in the kernel live that long after a kill.
const KILL_AGAIN_MS: u64 = 1_000;

/// How often the exit record is tried to be written, and the time between.
/// Source: derived; a day is enough to notice a full disk and to empty it, and who waits uses no more
/// than its memory of a megabyte.
const EXIT_TRIES: u32 = 864_000;
const EXIT_TRY_PERIOD: Duration = Duration::from_millis(100);

/// Everything about the running job.
pub struct Supervisor {
    spec: Spec,
    run: RunRecord,
    cgroup: Option<Cgroup>,
    rotated: Vec<RotatedFile>,
    signals: SignalFd,
    clients: Clients,
    state: ShimState,
    cause: Option<Cause>,
    outcome: Option<Outcome>,
    deadlines: Deadlines,
    timer: Timer,
}

impl Supervisor {
    /// Takes over a started job.
    pub fn new(spec: Spec, launched: Launched, signals: SignalFd, clients: Clients) -> Self {
        let started = launched.run.started_boot_ms;
        let deadlines = Deadlines {
            run_limit: spec.run_limit_ms.map(|limit| started.saturating_add(limit)),
            lease: spec.lease_boot_ms,
            rotate: (!launched.rotated.is_empty()).then(|| started + ROTATE_PERIOD_MS),
            kill: None,
            suspended_since: None,
        };
        Self {
            spec,
            run: launched.run,
            cgroup: launched.cgroup,
            rotated: launched.rotated,
            signals,
            clients,
            state: ShimState::Running,
            cause: None,
            outcome: None,
            deadlines,
            timer: Timer::default(),
        }
    }

    /// Supervises until nothing of the job is left and the exit record is written.
    ///
    /// # Errors
    /// A process code and a text when the record cannot be written.
    pub fn run(mut self, run_dir: &Path) -> Result<(), (u8, String)> {
        xce_failpoint::hit(Point::ShimLaunched);
        if let Err(error) = self.run.store(run_dir) {
            // A run nobody can find again must not go on.
            let failure =
                LaunchFailure::host(HostFaultKind::Spool, &format!("run record: {error}"));
            self.outcome = Some(Outcome::NotLaunched(failure));
            self.kill_tree();
        }
        // Only now: the job must not inherit it, and the shim is the last to be chosen.
        let _ = std::fs::write("/proc/self/oom_score_adj", "-999");
        crate::tell(&Event::Started(self.run.clone()));
        while !self.reap() {
            if self.outcome.is_some() && self.state != ShimState::Killing {
                xce_failpoint::hit(Point::ShimJobEnded);
                self.kill_tree();
                continue;
            }
            self.wait();
        }
        self.finish(run_dir)
    }

    // Takes every ended child. True when there is no child left, and so, for a subreaper, no
    // descendant.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note_end(pid, status),
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn note_end(&mut self, pid: Pid, status: WaitStatus) {
        if pid.as_raw_nonzero().get() == self.run.job.pid && self.outcome.is_none() {
            self.outcome = Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Outcome::Code(code),
                (None, Some(signal)) => Outcome::Signal(signal),
                (None, None) => return,
            });
        }
    }

    fn wait(&mut self) {
        self.timer.arm(self.deadlines.next(self.state));
        let (signalled, timed, ready) = {
            let mut waits = vec![PollFd::new(&self.signals, PollFlags::IN)];
            let clients = self.clients.descriptors();
            waits.extend(clients.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let timer = self.timer.descriptor();
            waits.extend(timer.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            // An interrupted wait looks like one in which nothing happened.
            if poll(&mut waits, None).is_err() {
                return;
            }
            let woken: Vec<bool> = waits
                .iter()
                .map(|wait| !wait.revents().is_empty())
                .collect();
            let clients = woken.len() - 1 - usize::from(timer.is_some());
            let timed = timer.is_some() && woken.last() == Some(&true);
            (woken[0], timed, woken[1..=clients].to_vec())
        };
        if signalled {
            self.take_signals();
        }
        if timed {
            self.timer.rang();
            self.pass_deadlines(machine::boot_ms());
        }
        self.serve(&ready);
    }

    fn take_signals(&mut self) {
        let mut child = false;
        while let Ok(Some(info)) = self.signals.read_signal() {
            child |= info.ssi_signo == Signal::CHILD.as_raw().unsigned_abs();
            if info.ssi_signo == Signal::TERM.as_raw().unsigned_abs() {
                let (signal, grace) = (self.spec.stop_signal, self.spec.stop_grace_ms);
                self.stop(signal, grace, Cause::shim());
            }
        }
        // What was forked while the tree was killed shows itself by the end of its parent.
        if child && self.state == ShimState::Killing && !self.reap() {
            let held = self.cgroup.as_ref().is_some_and(Cgroup::is_populated);
            if !held {
                tree::signal_descendants(self.own_pid(), Signal::KILL);
            }
        }
    }

    fn serve(&mut self, ready: &[bool]) {
        let mut asked = Vec::new();
        let mut left = Vec::new();
        for client in (0..ready.len().saturating_sub(1)).filter(|client| ready[client + 1]) {
            if !self.clients.read(client, &mut asked) {
                left.push(client);
            }
        }
        for Asked { client, request } in asked {
            let answer = match request {
                Ok(request) => self.perform(request),
                Err(text) => Event::Error(text.to_owned()),
            };
            if !self.clients.say(client, &answer) {
                left.push(client);
            }
        }
        self.clients.forget(&left);
        if ready.first() == Some(&true) {
            self.clients.accept(&Event::Started(self.run.clone()));
        }
    }

    fn perform(&mut self, request: Request) -> Event {
        match request {
            Request::Status => {
                return Event::Status(Status {
                    state: self.state,
                    usage: self.usage(),
                });
            }
            Request::Stop {
                signal,
                grace_ms,
                cause,
            } => self.stop(signal, grace_ms, cause),
            Request::Kill { cause } => self.kill(cause),
            Request::Signal(number) => self.signal(number),
            Request::Lease(boot_ms) => self.lease(boot_ms),
        }
        Event::Accepted
    }

    // One that is over is not extended, though nobody has looked yet: another copy may run elsewhere.
    fn lease(&mut self, boot_ms: u64) {
        let now = machine::boot_ms();
        if self.deadlines.lease.is_some_and(|at| at <= now) {
            return self.pass_deadlines(now);
        }
        self.deadlines.lease = (boot_ms > 0).then_some(boot_ms);
    }

    // A second stop sends its signal again and may shorten the grace, never lengthen it. The
    // first cause stays.
    fn stop(&mut self, signal: i32, grace_ms: u64, cause: Cause) {
        if self.state == ShimState::Killing {
            return;
        }
        self.cause.get_or_insert(cause);
        let kill = machine::boot_ms().saturating_add(grace_ms);
        self.deadlines.kill = Some(
            self.deadlines
                .kill
                .map_or(kill, |earlier| earlier.min(kill)),
        );
        self.signal_group(signal);
        if self.state == ShimState::Suspended {
            self.resume();
        }
        self.state = ShimState::Stopping;
    }

    fn kill(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        self.kill_tree();
    }

    // A process that left the control group (root can) is found by a walk, as where there is no
    // control group. The next look is for what no signal announces.
    fn kill_tree(&mut self) {
        self.state = ShimState::Killing;
        self.deadlines.kill = Some(machine::boot_ms() + KILL_AGAIN_MS);
        if let Some(cgroup) = &self.cgroup
            && cgroup.kill().is_ok()
            && cgroup.is_populated()
        {
            return;
        }
        tree::signal_descendants(self.own_pid(), Signal::KILL);
    }

    fn signal(&mut self, number: i32) {
        if number == Signal::STOP.as_raw() {
            if self.state == ShimState::Running {
                self.set_frozen(true);
                self.deadlines.suspended_since = Some(machine::boot_ms());
                self.state = ShimState::Suspended;
            }
        } else if number == Signal::CONT.as_raw() {
            if self.state == ShimState::Suspended {
                self.resume();
                self.state = ShimState::Running;
            }
        } else {
            self.signal_group(number);
        }
    }

    // The run limit counts no time in suspension.
    fn resume(&mut self) {
        self.set_frozen(false);
        self.deadlines.resume(machine::boot_ms());
    }

    fn set_frozen(&self, frozen: bool) {
        let done = self
            .cgroup
            .as_ref()
            .is_some_and(|cgroup| cgroup.freeze(frozen).is_ok());
        if !done {
            let signal = if frozen { Signal::STOP } else { Signal::CONT };
            tree::signal_descendants(self.own_pid(), signal);
        }
    }

    // The first process is not reaped while it has no outcome, so its number is its own.
    fn signal_group(&self, number: i32) {
        let target = Pid::from_raw(self.run.job.pid).filter(|_| self.outcome.is_none());
        if let (Some(pid), Some(signal)) = (target, Signal::from_named_raw(number)) {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    fn pass_deadlines(&mut self, now: u64) {
        let over = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if over(self.deadlines.lease) {
            self.deadlines.lease = None;
            self.kill(Cause::lease());
        }
        if over(self.deadlines.kill) {
            self.kill_tree();
        }
        if self.state == ShimState::Running && over(self.deadlines.run_limit) {
            let (signal, grace) = (self.spec.stop_signal, self.spec.stop_grace_ms);
            self.stop(signal, grace, Cause::run_limit());
        }
        if over(self.deadlines.rotate) {
            self.deadlines.rotate = Some(now + ROTATE_PERIOD_MS);
            for file in &mut self.rotated {
                // Fails when the disk is full; the next look tries again.
                let _ = file.rotate();
            }
        }
    }

    fn usage(&self) -> Usage {
        let living = tree::descendants(self.own_pid());
        // Source: getconf PAGESIZE and CLK_TCK, fixed on the platforms of this project.
        let page = rustix::param::page_size() as u64;
        let tick_ms = 1_000 / rustix::param::clock_ticks_per_second().max(1);
        let cgroup = self.cgroup.as_ref();
        let resident = || {
            living
                .iter()
                .map(|stat| stat.resident_pages.saturating_mul(page))
                .sum()
        };
        let cpu = || {
            living
                .iter()
                .map(|stat| stat.cpu_ticks.saturating_mul(tick_ms))
                .sum()
        };
        Usage {
            memory_bytes: cgroup
                .and_then(Cgroup::memory_bytes)
                .unwrap_or_else(resident),
            cpu_ms: cgroup.and_then(Cgroup::cpu_ms).unwrap_or_else(cpu),
            processes: living.len() as u64,
        }
    }

    fn own_pid(&self) -> i32 {
        self.run.shim.pid
    }

    fn finish(mut self, run_dir: &Path) -> Result<(), (u8, String)> {
        let exit = self.exit_record();
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        xce_failpoint::hit(Point::ShimExitBefore);
        self.store_exit(&exit, run_dir)?;
        xce_failpoint::hit(Point::ShimExitAfter);
        let event = Event::Exit(exit);
        self.clients.accept(&Event::Started(self.run.clone()));
        self.clients.say_all(&event);
        crate::tell(&event);
        Ok(())
    }

    // A full disk may be emptied: the outcome of the job is worth some patience, and the lock says
    // meanwhile that it is not lost. Whoever follows this shim hears the outcome at once, and has the
    // directory put aside when it is told: then nobody needs the record any more.
    fn store_exit(&mut self, exit: &ExitRecord, run_dir: &Path) -> Result<(), (u8, String)> {
        let mut tries_left = EXIT_TRIES;
        while let Err(error) = exit.store(run_dir, self.spec.sync_exit) {
            let text = format!("exit record: {error}");
            tries_left -= 1;
            if tries_left == 0 {
                return Err((crate::EXIT_UNRECORDED, text));
            }
            if !run_dir.exists() {
                return Ok(());
            }
            let first = tries_left + 1 == EXIT_TRIES;
            let news = self.clients.accept(&Event::Started(self.run.clone())) > 0;
            let events = [Event::Error(text), Event::Exit(exit.clone())];
            for event in events.iter().filter(|_| first || news) {
                self.clients.say_all(event);
            }
            if first {
                crate::tell(&events[1]);
            }
            std::thread::sleep(EXIT_TRY_PERIOD);
        }
        Ok(())
    }

    fn exit_record(&mut self) -> ExitRecord {
        // Everything of the tree was a child at its end, so the children's sum is complete.
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let millis = |millis: i64| u64::try_from(millis).unwrap_or(0);
        let memory_kills = self.cgroup.as_ref().map_or(0, Cgroup::memory_kills);
        // Without an outcome the first process was taken by nobody: it cannot be.
        let outcome = self
            .outcome
            .take()
            .unwrap_or(Outcome::Signal(Signal::KILL.as_raw()));
        if memory_kills > 0 && outcome != Outcome::Code(0) {
            self.cause.get_or_insert(Cause::memory_limit());
        }
        let largest = usage
            .as_ref()
            .map_or(0, |usage| millis(usage.max_rss()) * 1_024);
        ExitRecord {
            version: record::RECORD_VERSION,
            nonce: self.spec.nonce.clone(),
            outcome,
            cause: self.cause.take(),
            ended_wall_ms: machine::wall_ms(),
            run_ms: machine::boot_ms().saturating_sub(self.run.started_boot_ms),
            user_ms: usage
                .as_ref()
                .map_or(0, |usage| millis(usage.user_time().num_milliseconds())),
            system_ms: usage
                .as_ref()
                .map_or(0, |usage| millis(usage.system_time().num_milliseconds())),
            peak_memory_bytes: self
                .cgroup
                .as_ref()
                .and_then(Cgroup::memory_peak_bytes)
                .unwrap_or(largest),
            memory_kills,
        }
    }
}
