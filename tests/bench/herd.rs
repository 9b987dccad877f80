//! Five thousand hosts on one controller: what their sessions and beats cost, and how they come back
//! when it is killed. Each is a real connection with a certificate of its own, and no worker behind
//! it. One JSON line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use xce_host::facts::Inventory;
use xce_host::wire::{Beat, Join};
use xce_link::hello::VERSIONS;
use xce_link::{
    Authority, Connected, Dialer, Hello, HelloAnswer, Identity, Inbox, Opening, Peer, PeerKind,
    Role, Route, Settings,
};
use xce_model::{Bytes, ClusterId, Incarnation, MilliCpu};
use xce_session::worker_wire::{FromWorker, ToWorker};
use xce_tests::{Cluster, Setup};

use crate::client::Fault;
use crate::cpu;

/// Hosts. Source: the requirement; `XCE_BENCH_HOSTS` gives another number.
const HOSTS: usize = 5_000;
/// Time between beats. Source: the default of a worker.
const BEAT: Duration = Duration::from_secs(2);
/// How long beats alone are measured. Source: chosen; ten beats of each host.
const STEADY: Duration = Duration::from_secs(20);
/// Longest wait for all to join. Source: chosen; a measurement that waits longer has failed.
const WITHIN: Duration = Duration::from_secs(180);
/// Longest wait for one answer. Source: as a worker's.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Delays between attempts. Source: as a worker's.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What all hosts add to.
#[derive(Default)]
struct Seen {
    joined: AtomicUsize,
    resumed: AtomicUsize,
    failures: AtomicUsize,
    /// Most time from a beat to its answer, in microseconds.
    answer_us: AtomicU64,
    /// Most time without an answered beat, in milliseconds.
    silent_ms: AtomicU64,
    stop: AtomicBool,
}

/// One host.
struct Host {
    name: String,
    dialer: Dialer,
    cluster: ClusterId,
    incarnation: Incarnation,
    address: SocketAddr,
    token: Option<Vec<u8>>,
    spread: Duration,
    heard: Option<Instant>,
    seen: Arc<Seen>,
}

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let hosts = match std::env::var("XCE_BENCH_HOSTS") {
        Ok(text) => text.parse()?,
        Err(_) => HOSTS,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    // Every host has a socket of its own.
    let _ = nix::sys::resource::setrlimit(
        nix::sys::resource::Resource::RLIMIT_NOFILE,
        hosts as u64 + 4_096,
        hosts as u64 + 4_096,
    );
    let cluster = Setup::new("bench-herd").workers(1).broken().start();
    let line = runtime.block_on(measure(&cluster, hosts))?;
    println!("{line}");
    Ok(())
}

async fn measure(cluster: &Cluster, hosts: usize) -> Result<Value, Fault> {
    let path = cluster.home().join("authority");
    let id: ClusterId = std::fs::read_to_string(path.join("cluster"))?
        .trim()
        .parse()?;
    let authority = Authority::load_or_create(&path, id, jiff::Timestamp::now().as_second())?;
    let seen = Arc::new(Seen::default());
    let resident_before = cpu::resident(cluster.controller_pid())?;
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for number in 0..hosts {
        let name = format!("n{number}");
        let identity = authority.issue(Role::Worker, &name, jiff::Timestamp::now().as_second())?;
        let host = Host::new(name, identity, cluster.address(), &seen);
        all.spawn(host.run());
    }
    seen.until_joined(hosts).await?;
    let joined_ms = begun.elapsed().as_millis() as u64;
    eprintln!("herd: {hosts} hosts joined in {joined_ms} ms");

    let pid = cluster.controller_pid();
    let (before, _) = cpu::of_process(pid)?;
    seen.answer_us.store(0, Ordering::Relaxed);
    tokio::time::sleep(STEADY).await;
    let (after, _) = cpu::of_process(pid)?;
    let steady_answer_us = seen.answer_us.load(Ordering::Relaxed);
    let resident = cpu::resident(pid)?;
    eprintln!("herd: beats alone measured");

    seen.joined.store(0, Ordering::Relaxed);
    seen.resumed.store(0, Ordering::Relaxed);
    seen.silent_ms.store(0, Ordering::Relaxed);
    seen.failures.store(0, Ordering::Relaxed);
    let killed = Instant::now();
    cluster.kill_daemon(pid);
    seen.until_joined(hosts).await?;
    let back_ms = killed.elapsed().as_millis() as u64;
    // A host that is behind shows within two beats.
    tokio::time::sleep(BEAT * 2).await;
    let lost = cluster.cli().json(&["hosts", "list"]);
    let lost = lost.as_array().map_or(0, |hosts| {
        let is_up = |host: &&Value| host["state"] != "up";
        hosts.iter().filter(is_up).count()
    });
    seen.stop.store(true, Ordering::Relaxed);
    all.abort_all();
    Ok(json!({
        "bench": "herd",
        "hosts": hosts,
        "joined_ms": joined_ms,
        "controller_cpu_percent": (after - before) as f64 / STEADY.as_millis() as f64 * 100.0,
        "controller_bytes_each": (resident.saturating_sub(resident_before)) / hosts as u64,
        "beat_to_answer_worst_us": steady_answer_us,
        "kill_to_all_back_ms": back_ms,
        "resumed": seen.resumed.load(Ordering::Relaxed),
        "attempts_failed": seen.failures.load(Ordering::Relaxed),
        "silence_worst_ms": seen.silent_ms.load(Ordering::Relaxed),
        "not_up": lost,
    }))
}

impl Seen {
    async fn until_joined(&self, hosts: usize) -> Result<(), Fault> {
        let begun = Instant::now();
        while self.joined.load(Ordering::Relaxed) < hosts {
            if begun.elapsed() > WITHIN {
                let joined = self.joined.load(Ordering::Relaxed);
                return Err(format!("only {joined} of {hosts} hosts have joined").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Host {
    fn new(name: String, identity: Identity, address: SocketAddr, seen: &Arc<Seen>) -> Self {
        Self {
            cluster: identity.principal().cluster,
            dialer: Dialer::new(identity, Settings::default()),
            incarnation: Incarnation(fastrand::u128(..).to_le_bytes()),
            name,
            address,
            token: None,
            spread: BEAT,
            heard: None,
            seen: Arc::clone(seen),
        }
    }

    /// Connects and beats, again and again, as a worker does.
    async fn run(mut self) {
        let mut delay = RETRY.0;
        let mut over = self.spread;
        loop {
            tokio::time::sleep(over.mul_f64(fastrand::f64())).await;
            let mut joined = false;
            if let Err(fault) = self.once(&mut joined).await
                && !self.seen.stop.load(Ordering::Relaxed)
            {
                let failed = self.seen.failures.fetch_add(1, Ordering::Relaxed);
                if failed == 0 {
                    let cause = std::error::Error::source(&*fault).map(ToString::to_string);
                    eprintln!("herd: {}: {fault}: {cause:?}", self.name);
                }
            }
            (over, delay) = match joined {
                true => (RETRY.0.max(self.spread), RETRY.0),
                false => (delay, (delay * 2).min(RETRY.1)),
            };
        }
    }

    async fn once(&mut self, joined: &mut bool) -> Result<(), Fault> {
        let Connected { peer, mut inbox } =
            self.dialer.dial(&[self.address], ANSWER_WITHIN).await?;
        tokio::time::timeout(ANSWER_WITHIN, self.join(&peer, &mut inbox)).await??;
        *joined = true;
        self.seen.joined.fetch_add(1, Ordering::Relaxed);
        self.beats(&peer, &mut inbox).await
    }

    async fn join(&mut self, peer: &Peer, inbox: &mut Inbox) -> Result<(), Fault> {
        let opening = self
            .token
            .take()
            .map_or(Opening::New, |token| Opening::Resume {
                token,
                last_lsn: 0,
                last_seq: 0,
            });
        let hello = Hello {
            versions: VERSIONS,
            cluster: self.cluster,
            kind: PeerKind::Worker,
            incarnation: self.incarnation,
            opening,
        };
        peer.send(Route::request(1), &hello)?;
        match inbox.receive().await?.decode::<HelloAnswer>()? {
            HelloAnswer::Welcome(welcome) => {
                if welcome.resumed {
                    self.seen.resumed.fetch_add(1, Ordering::Relaxed);
                }
                self.token = Some(welcome.token);
                self.spread = Duration::from_millis(welcome.spread_ms);
            }
            HelloAnswer::Refused(refusal) => return Err(refusal.text.into()),
        }
        let join = Join {
            inventory: inventory(&self.name, self.incarnation),
            epoch: 1,
            committed: 0,
            runs: Vec::new(),
        };
        peer.push(0, &FromWorker::Join(Box::new(join)))?;
        loop {
            match inbox.receive().await?.decode::<ToWorker>()? {
                ToWorker::Joined(_) => return Ok(()),
                ToWorker::Refused(refusal) => return Err(refusal.text.into()),
                _before => {}
            }
        }
    }

    async fn beats(&mut self, peer: &Peer, inbox: &mut Inbox) -> Result<(), Fault> {
        let mut sent = Instant::now();
        let mut due = tokio::time::interval_at(
            tokio::time::Instant::now() + BEAT.mul_f64(fastrand::f64()),
            BEAT,
        );
        for number in 1.. {
            loop {
                tokio::select! {
                    _ = due.tick() => break,
                    frame = inbox.receive() => {
                        if let ToWorker::BeatAck(_) = frame?.decode::<ToWorker>()? {
                            self.answered(sent);
                        }
                    }
                }
            }
            sent = Instant::now();
            peer.push(
                0,
                &FromWorker::Beat(Beat {
                    number,
                    disk_full: false,
                }),
            )?;
        }
        Ok(())
    }

    fn answered(&mut self, sent: Instant) {
        let waited = sent.elapsed().as_micros() as u64;
        self.seen.answer_us.fetch_max(waited, Ordering::Relaxed);
        if let Some(before) = self.heard.replace(Instant::now()) {
            let silent = before.elapsed().as_millis() as u64;
            self.seen.silent_ms.fetch_max(silent, Ordering::Relaxed);
        }
    }
}

fn inventory(name: &str, incarnation: Incarnation) -> Inventory {
    Inventory {
        name: name.to_owned(),
        incarnation,
        boot_id: "herd".to_owned(),
        address: "127.0.0.1".to_owned(),
        cpus: MilliCpu(1_000),
        memory: Bytes(1 << 30),
        port_first: 20_000,
        port_last: 20_999,
        labels: Vec::new(),
        not_enforced: Vec::new(),
    }
}
