//! A cluster for one test: an authority, a controller, and a worker that can be killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use xce_link::{Authority, EndpointKeys, Role};
use xce_model::spec::{Probes, Resources, RestartMode, RestartPolicy, StopPolicy, Template, User};
use xce_model::{Bytes, ClusterId, JobId, MilliCpu, Millis};
use xce_replica::wire::{ReplicaOf, RunId, RunSpec};
use xce_worker::{Settings, Worker};

use crate::controller::{Controller, Manners, Seat, Told};

/// The shim that is tested with, built from this tree.
pub fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let mut command = Command::new(env!("CARGO"));
        command.args([
            "build",
            "--quiet",
            "--package",
            "xce-shim",
            "--bin",
            "xce-shim",
        ]);
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        let built = command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success());
        let test = std::env::current_exe().unwrap();
        test.parent().unwrap().parent().unwrap().join("xce-shim")
    })
}

pub struct World {
    pub dir: tempfile::TempDir,
    pub controller: Option<Controller>,
    seat: Seat,
    worker: Option<(Worker, tokio::runtime::Runtime)>,
    term: u64,
}

impl World {
    pub async fn new() -> Self {
        Self::with(Manners::default()).await
    }

    pub async fn with(how: Manners) -> Self {
        shim();
        let dir = tempfile::tempdir().unwrap();
        let ca = dir.path().join("ca");
        let identity_dir = dir.path().join("identity");
        std::fs::create_dir(&ca).unwrap();
        std::fs::create_dir(&identity_dir).unwrap();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        let authority = Authority::create(&ca, ClusterId([5; 16]), now).unwrap();
        authority
            .issue(Role::Worker, "w1", now)
            .unwrap()
            .store(&identity_dir)
            .unwrap();
        let mut seat = Seat {
            identity: authority.issue(Role::Controller, "c1", now).unwrap(),
            keys: EndpointKeys::load_or_create(&ca).unwrap(),
            address: "127.0.0.1:0".parse().unwrap(),
        };
        let told = Arc::new(Mutex::new(Told::default()));
        let controller = Controller::start(seat.listen(), told, 1, how);
        Self {
            dir,
            controller: Some(controller),
            seat,
            worker: None,
            term: 1,
        }
    }

    /// A world in which a worker has joined.
    pub async fn joined() -> Self {
        let mut world = Self::new().await;
        world.start_worker().await;
        world.controller().joined(1).await;
        world
    }

    pub fn controller(&self) -> &Controller {
        self.controller.as_ref().unwrap()
    }

    pub fn settings(&self) -> Settings {
        let path = |name| self.dir.path().join(name);
        Settings {
            beat: Millis(200),
            ..Settings::new(
                "w1",
                path("state"),
                vec![self.seat.address],
                path("identity"),
                shim().to_path_buf(),
            )
        }
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub async fn start_worker(&mut self) {
        self.start_worker_with(self.settings()).await;
    }

    /// A worker has a runtime of its own, so that it can be killed with all its tasks.
    pub async fn start_worker_with(&mut self, settings: Settings) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let worker = runtime
            .spawn(xce_worker::start(settings))
            .await
            .unwrap()
            .unwrap();
        self.worker = Some((worker, runtime));
    }

    pub fn worker(&self) -> &Worker {
        &self.worker.as_ref().unwrap().0
    }

    /// Ends the worker as a kill would: nothing is said, nothing is waited for.
    pub async fn kill_worker(&mut self) {
        let (worker, runtime) = self.worker.take().unwrap();
        runtime.shutdown_background();
        drop(worker);
        self.lock_is_free().await;
    }

    /// Waits until the last task of a worker is gone, and its lock with it.
    async fn lock_is_free(&self) {
        let lock = std::fs::File::open(self.state().join("lock")).unwrap();
        let waited = tokio::task::spawn_blocking(move || lock.lock());
        let waited = tokio::time::timeout(crate::controller::PATIENCE, waited).await;
        waited.unwrap().unwrap().unwrap();
    }

    /// Kills every shim of this world, also those that have not said anything yet.
    fn kill_shims(&self) {
        let state = self.state();
        for stat in xce_shim::machine::processes() {
            let words = std::fs::read(format!("/proc/{}/cmdline", stat.pid)).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
            let is_shim = words
                .next()
                .is_some_and(|program| program.ends_with("/xce-shim"));
            if is_shim && words.any(|word| Path::new(word.as_ref()).starts_with(&state)) {
                xce_shim::tree::signal_one(&stat, rustix::process::Signal::KILL);
            }
        }
    }

    /// Ends the shim and the job of a run's directory.
    pub fn end_run(&self, dir: &Path) {
        xce_worker::run::shim::kill_shim(dir);
        while let Ok(xce_shim::Reclaim::Dying(_) | xce_shim::Reclaim::ShimAlive) =
            xce_shim::reclaim(dir)
        {}
    }

    pub async fn stop_worker(&mut self, keep_jobs: bool) {
        let (worker, runtime) = self.worker.take().unwrap();
        runtime.spawn(worker.stop(keep_jobs)).await.unwrap();
        runtime.shutdown_background();
        self.lock_is_free().await;
    }

    /// Ends the controller and starts another one at the same place, which knows the same.
    pub async fn restart_controller(&mut self) {
        let told = self.controller.take().unwrap().kill().await;
        self.term += 1;
        let listener = self.seat.listen_again().await;
        self.controller = Some(Controller::start(
            listener,
            told,
            self.term,
            Manners::default(),
        ));
    }

    /// Ends the controller; its memory is kept for [`World::bring_controller`].
    pub async fn take_controller(&mut self) -> Arc<Mutex<Told>> {
        self.controller.take().unwrap().kill().await
    }

    pub async fn bring_controller(&mut self, told: Arc<Mutex<Told>>) {
        self.term += 1;
        let listener = self.seat.listen_again().await;
        self.controller = Some(Controller::start(
            listener,
            told,
            self.term,
            Manners::default(),
        ));
    }
}

impl Drop for World {
    /// Ends what a test left running.
    fn drop(&mut self) {
        if let Some((worker, runtime)) = self.worker.take() {
            runtime.shutdown_background();
            drop(worker);
        }
        if let Ok(lock) = std::fs::File::open(self.state().join("lock")) {
            lock.lock().unwrap();
        }
        self.kill_shims();
        let Ok(runs) = std::fs::read_dir(self.state().join("runs")) else {
            return;
        };
        for run in runs.flatten() {
            let starts = std::fs::read_dir(run.path())
                .into_iter()
                .flatten()
                .flatten();
            for dir in starts.map(|entry| entry.path()).chain([run.path()]) {
                xce_worker::run::shim::kill_shim(&dir);
                while let Ok(xce_shim::Reclaim::Dying(_)) = xce_shim::reclaim(&dir) {}
            }
        }
    }
}

pub fn run(number: u64) -> RunId {
    RunId {
        job: JobId::single(number),
        run: 1,
    }
}

/// A batch job that runs a shell script.
pub fn batch(number: u64, script: &str) -> RunSpec {
    let own = (rustix::process::geteuid(), rustix::process::getegid());
    RunSpec {
        run: run(number),
        name: "test".to_owned(),
        template: Template {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            env: vec![("GREETING".to_owned(), "hello".to_owned())],
            cwd: None,
            user: User {
                name: String::new(),
                uid: own.0.as_raw(),
                gid: own.1.as_raw(),
            },
            resources: Resources {
                cpus: MilliCpu(1_000),
                memory: Bytes(0),
            },
            ports: Vec::new(),
            probes: Probes {
                startup: None,
                readiness: None,
                liveness: None,
            },
            restart: RestartPolicy {
                mode: RestartMode::Never,
                delay: Millis(1),
                delay_max: Millis(10),
                max_restarts: 3,
                window: Millis(600_000),
                stable_after: Millis(60_000),
            },
            stop: StopPolicy {
                drain: Millis(0),
                signal: 15,
                grace: Millis(10_000),
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: xce_model::spec::SingleCopy::None,
        },
        ports: Vec::new(),
        replica: None,
    }
}

/// A replica of a service that runs a shell script and always starts again.
pub fn replica(number: u64, script: &str) -> RunSpec {
    let mut spec = batch(number, script);
    spec.template.restart.mode = RestartMode::Always;
    spec.replica = Some(ReplicaOf {
        service: "web".to_owned(),
        version: 2,
        index: 3,
    });
    spec
}
