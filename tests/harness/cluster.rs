//! A cluster of one machine, as `xced dev` starts it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::cli::Cli;
use super::patience::{self, LONGEST};
use super::processes::{self, Process};
use super::watch::Watch;
use super::{binaries, groups, programs};

/// Lines of the daemons' log that a failed test prints. Source: chosen; two screens.
const TAIL_LINES: usize = 80;

/// First port that jobs of tests get. Source: chosen; above well-known ones.
const PORT_FIRST: u16 = 10_000;
/// Ports of one worker. Source: chosen; above the replicas of any test.
const PORTS_EACH: u16 = 20;
/// Clusters until ports are given again. Source: derived; ports up to 32 000 for two workers each,
/// below those that the kernel gives out itself.
const PORT_BLOCKS: u16 = 550;

/// How a cluster is started.
#[derive(Debug, Clone)]
pub struct Setup {
    name: String,
    workers: u16,
    port: u16,
    keep_jobs: bool,
    options: Vec<String>,
    home: Option<PathBuf>,
    is_broken: bool,
}

impl Setup {
    /// Two workers, and ports that nobody else has; the name is that of the folder.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            workers: 2,
            port: port_first(),
            keep_jobs: false,
            options: Vec::new(),
            home: None,
            is_broken: false,
        }
    }

    /// Parts of it will be killed or starved, so its daemons may warn; otherwise a warning in their
    /// log fails the test.
    #[must_use]
    pub fn broken(mut self) -> Self {
        self.is_broken = true;
        self
    }

    /// Another number of workers.
    #[must_use]
    pub fn workers(mut self, workers: u16) -> Self {
        self.workers = workers;
        self
    }

    /// Leave jobs running when it is stopped.
    #[must_use]
    pub fn keep_jobs(mut self) -> Self {
        self.keep_jobs = true;
        self
    }

    /// A setting of the controller.
    #[must_use]
    pub fn set(mut self, setting: &str) -> Self {
        self.options
            .extend(["--set".to_owned(), setting.to_owned()]);
        self
    }

    /// A setting of every worker.
    #[must_use]
    pub fn set_worker(mut self, setting: &str) -> Self {
        self.options
            .extend(["--set-worker".to_owned(), setting.to_owned()]);
        self
    }

    /// Actors may be killed.
    #[must_use]
    pub fn chaos(self) -> Self {
        self.set("chaos.enabled=true")
    }

    /// State in a given directory instead of the cluster's own folder.
    #[must_use]
    pub fn home(mut self, home: &Path) -> Self {
        self.home = Some(home.to_path_buf());
        self
    }

    /// Starts it, and waits until all its hosts are up.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn start(self) -> Cluster {
        let prefix = format!("xce-{}-", self.name);
        let folder = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir()
            .expect("a temporary folder");
        let folder = folder.keep();
        let home = self.home.clone().unwrap_or_else(|| folder.join("home"));
        let mut cluster = Cluster {
            setup: self,
            folder,
            home,
            dev: None,
            address: None,
            watch: None,
        };
        cluster.up();
        cluster
    }
}

/// A running cluster; ends with everything that it started.
#[derive(Debug)]
pub struct Cluster {
    setup: Setup,
    folder: PathBuf,
    home: PathBuf,
    dev: Option<Child>,
    address: Option<SocketAddr>,
    watch: Option<Watch>,
}

impl Cluster {
    /// A cluster with the defaults of [`Setup::new`].
    #[track_caller]
    pub fn start(name: &str) -> Self {
        Setup::new(name).start()
    }

    /// Starts what was stopped again, in the same home.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn up(&mut self) {
        assert!(self.dev.is_none(), "the cluster runs already");
        let mut dev = dev_command(&self.setup, &self.home, &self.log())
            .spawn()
            .expect("xced starts");
        let lines = lines_of(&mut dev);
        self.dev = Some(dev);
        loop {
            let Ok(line) = lines.recv_timeout(LONGEST) else {
                panic!("xced dev does not get ready");
            };
            if let Some(rest) = line.strip_prefix("xce runs: controller on ") {
                let (address, _) = rest.split_once(',').expect("workers follow the address");
                self.address = address.parse().ok();
            }
            if line.starts_with("next, in another terminal:") {
                break;
            }
        }
        // Its pipe is read to the end, so that it can always write.
        thread::spawn(move || lines.iter().for_each(drop));
        self.watch = Some(Watch::start(&self.cli(), false));
        let expected = usize::from(self.setup.workers);
        self.until("all hosts are up", |cli| {
            let hosts = cli.json(&["hosts", "list"]);
            hosts.as_array().is_some_and(|hosts| {
                hosts.len() == expected && hosts.iter().all(|host| host["state"] == "up")
            })
        });
    }

    /// The command line for this cluster.
    pub fn cli(&self) -> Cli {
        Cli::new(&self.home)
    }

    /// Its state directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A folder for the test's own files; gone after the test.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The controller's address.
    ///
    /// # Panics
    /// When it never ran.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("the cluster has been started")
    }

    /// The log of all its daemons.
    pub fn log(&self) -> PathBuf {
        self.folder.join("daemons.log")
    }

    /// What the daemons have logged.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    /// Lines of the log that nobody should have to see.
    fn complaints(&self) -> Vec<String> {
        let marks: &[&str] = if self.setup.is_broken {
            &["panicked at"]
        } else {
            &["panicked at", " WARN ", " ERROR "]
        };
        let text = self.log_text();
        let lines = text
            .lines()
            .filter(|line| marks.iter().any(|mark| line.contains(mark)));
        lines.map(str::to_owned).collect()
    }

    /// Waits until a condition holds; looks again at each change that the cluster pushes.
    ///
    /// # Panics
    /// When it does not come to hold.
    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(&Cli) -> bool) {
        let cli = self.cli();
        let look = || {
            if holds(&cli) {
                Ok(())
            } else {
                Err(String::new())
            }
        };
        let outcome = self
            .watch
            .as_ref()
            .expect("the cluster runs")
            .bell()
            .until(look);
        assert!(outcome.is_ok(), "waited in vain: {what}");
    }

    /// Waits until a service is as a condition wants it; gives it.
    ///
    /// # Panics
    /// When that does not come.
    #[track_caller]
    pub fn service(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.object(what, &["services", "show", name], holds)
    }

    /// Waits until a service has so many available replicas and no others, and calls that steady.
    #[track_caller]
    pub fn steady(&self, name: &str, replicas: u64) -> Value {
        self.service(
            name,
            &format!("{name} has {replicas} available replicas"),
            |service| {
                let is = |field: &str, count: u64| service[field] == count;
                is("desired", replicas)
                    && is("available", replicas)
                    && is("live", replicas)
                    && is("stopping", 0)
                    && service["condition"] == "steady"
            },
        )
    }

    /// Waits until a job is as a condition wants it; gives it.
    #[track_caller]
    pub fn job(&self, id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.object(&format!("job {id}: {what}"), &["jobs", "show", id], holds)
    }

    /// Waits until a job has ended; gives it.
    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        self.job(id, "has ended", |job| job["terminal"] == true)
    }

    /// Waits until a job runs; gives its process id.
    #[track_caller]
    pub fn running(&self, id: &str) -> u32 {
        let job = self.job(id, "runs", |job| {
            job["state"] == "RUN" && !job["pid"].is_null()
        });
        pid(&job)
    }

    #[track_caller]
    fn object(&self, what: &str, words: &[&str], holds: impl Fn(&Value) -> bool) -> Value {
        let cli = self.cli();
        let look = || {
            let object = cli.json(words);
            if holds(&object) {
                Ok(object)
            } else {
                Err(object.to_string())
            }
        };
        let outcome = self
            .watch
            .as_ref()
            .expect("the cluster runs")
            .bell()
            .until(look);
        outcome.unwrap_or_else(|last| panic!("waited in vain: {what}; it is {last}"))
    }

    /// Requires that the ledger keeps all its invariants.
    #[track_caller]
    pub fn audit(&self) {
        self.cli().good(&["audit"]);
    }

    /// Process id of `xced dev`.
    ///
    /// # Panics
    /// When it does not run.
    pub fn dev_pid(&self) -> u32 {
        self.dev.as_ref().expect("the cluster runs").id()
    }

    /// The daemons.
    pub fn daemons(&self) -> Vec<Process> {
        processes::children(self.dev_pid())
    }

    /// Process id of the controller, as soon as there is one.
    pub fn controller_pid(&self) -> u32 {
        self.daemon(" controller ")
    }

    /// Process id of a worker, as soon as there is one.
    pub fn worker_pid(&self, name: &str) -> u32 {
        self.daemon(&format!("name={name} "))
    }

    /// Process id of a scheduler that is a daemon, as soon as there is one.
    pub fn scheduler_pid(&self) -> u32 {
        self.daemon(" scheduler ")
    }

    fn daemon(&self, mark: &str) -> u32 {
        let find = || {
            self.daemons()
                .into_iter()
                .find(|process| process.line.contains(mark))
        };
        patience::until(&format!("a daemon with `{mark}` runs"), || find().is_some());
        find()
            .map(|process| process.pid)
            .expect("it was just there")
    }

    /// Kills a daemon, and waits until another has taken its place.
    pub fn kill_daemon(&self, pid: u32) {
        processes::kill_hard(pid);
        patience::until("a killed daemon is gone", || !processes::is_alive(pid));
    }

    /// Everything that runs for this cluster.
    pub fn processes(&self) -> Vec<Process> {
        processes::of_folder(&self.folder)
    }

    /// Stops it in order, as Ctrl-C does.
    ///
    /// # Panics
    /// When it does not run, or does not end.
    pub fn stop(&mut self) -> ExitStatus {
        self.watch = None;
        let dev = self.dev.as_mut().expect("the cluster runs");
        processes::signal(dev.id(), Signal::SIGINT);
        patience::until("xced dev ends", || matches!(dev.try_wait(), Ok(Some(_))));
        let status = dev.wait().expect("a child can be waited for");
        self.dev = None;
        status
    }

    /// Kills `xced dev` and all daemons at once; jobs go on.
    pub fn crash(&mut self) {
        self.watch = None;
        if let Some(mut dev) = self.dev.take() {
            let daemons = processes::children(dev.id());
            drop(dev.kill());
            drop(dev.wait());
            daemons
                .iter()
                .for_each(|daemon| processes::kill_hard(daemon.pid));
            patience::until("the daemons are gone", || {
                daemons
                    .iter()
                    .all(|daemon| !processes::is_alive(daemon.pid))
            });
        }
    }
}

/// The process id in an object.
///
/// # Panics
/// When there is none.
#[track_caller]
pub fn pid(object: &Value) -> u32 {
    let number = object["pid"]
        .as_u64()
        .and_then(|number| u32::try_from(number).ok());
    number
        .filter(|pid| *pid > 0)
        .unwrap_or_else(|| panic!("no process id in {object}"))
}

/// `xced dev` for a home, its talk going into a file.
///
/// # Panics
/// When the file cannot be written.
pub fn dev_command(setup: &Setup, home: &Path, log: &Path) -> Command {
    let log = File::options()
        .create(true)
        .append(true)
        .open(log)
        .expect("the log can be written");
    let mut command = Command::new(binaries::path("xced"));
    command.args(["dev", "--home"]).arg(home);
    command.args([
        "--port",
        &setup.port.to_string(),
        "--workers",
        &setup.workers.to_string(),
    ]);
    let ports = [setup.port.to_string(), PORTS_EACH.to_string()];
    command.args(["--ports-from", &ports[0], "--ports-each", &ports[1]]);
    command.args(&setup.options);
    if setup.keep_jobs {
        command.arg("--keep-jobs");
    }
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("XCE_")) {
        command.env_remove(name);
    }
    command
        .env("PATH", programs::search_path())
        .current_dir(crate::root());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0);
    command
}

/// The first of some ports that no other cluster of this run has, and none of another run; not such
/// that the kernel gives out: a client could get the controller's while that is down.
fn port_first() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = std::process::id().wrapping_mul(37) % u32::from(PORT_BLOCKS);
    let own = u16::try_from(process).expect("a remainder is smaller");
    let ports = (0..PORT_BLOCKS).map(|_| {
        let block = (own + NEXT.fetch_add(1, Ordering::Relaxed)) % PORT_BLOCKS;
        PORT_FIRST + block * 2 * PORTS_EACH
    });
    let free = |port: &u16| std::net::UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    ports
        .into_iter()
        .find(free)
        .expect("some port of the machine is free")
}

fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let stdout = child.stdout.take().expect("stdout is a pipe");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Before the daemons are killed, which they may well complain about.
        let complaints = self.complaints();
        if thread::panicking() {
            let text = self.log_text();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
            eprintln!(
                "the folder of the cluster is kept: {}\n{tail}",
                self.folder.display()
            );
        }
        self.crash();
        let left = || {
            let left = self.processes();
            left.iter()
                .for_each(|process| processes::kill_hard(process.pid));
            left.is_empty()
        };
        if thread::panicking() {
            // A second panic would hide the first.
            drop(
                patience::Bell::default()
                    .until(|| if left() { Ok(()) } else { Err(String::new()) }),
            );
            return;
        }
        patience::until("nothing of the cluster runs any more", left);
        groups::remove(&self.home);
        drop(fs::remove_dir_all(&self.folder));
        assert!(
            complaints.is_empty(),
            "the daemons complained:\n{}",
            complaints.join("\n")
        );
    }
}
