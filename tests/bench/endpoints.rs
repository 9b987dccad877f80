//! From the success of a readiness probe to the readers of the endpoints: real daemons and replicas, whose
//! probes this program answers, so that both ends are stamped by one clock. One JSON line.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use xce_link::hello::VERSIONS;
use xce_link::{Caller, Dialer, Frame, Hello, HelloAnswer, Identity, Opening, PeerKind, Settings};
use xce_model::spec::{PortSpec, Probe, ProbeAction, ServiceSpec};
use xce_model::{Bytes, Incarnation, Millis};
use xce_service::view::{EndpointSet, EndpointState};
use xce_session::endpoints_wire::EndpointsPush;
use xce_session::policy_wire::ServiceRequest;
use xce_session::wire::{Ask, AskService, Reply, Request, ServiceName};
use xce_tests::{Cluster, Setup};

use crate::client::{Client, Fault, service};
use crate::cpu;

/// First port of the replicas. Source: chosen; below the kernel's own, above those of other tests.
const PORT_FIRST: u16 = 28_000;
/// Ports of the worker. Source: derived; the replicas and some more.
const PORTS: u16 = 1_100;
/// How often a replica is made unready and ready again for one reader, and for many.
/// Source: derived; each round and reader is a sample, and a round takes one and a half periods.
const ROUNDS: [usize; 2] = [300, 30];
/// Longest wait for anything. Source: chosen; a measurement that waits longer has failed.
const WITHIN: Duration = Duration::from_secs(120);
/// Sets that may wait for a reader of this program. Source: chosen; far more than come at once.
const PUSHES_MAX: usize = 1_000;
/// Syncs that are measured for comparison. Source: chosen; a median and a 99th percentile.
const SYNCS: usize = 500;

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let few = runtime.block_on(measure("few", (4, 1), ROUNDS[0], Millis(20)))?;
    let many = runtime.block_on(measure("many", (1_000, 100), ROUNDS[1], Millis(2_000)))?;
    println!(
        "{}",
        json!({ "bench": "endpoints", "few": few, "many": many })
    );
    Ok(())
}

/// What one reader saw: which port became ready or not, and when.
type Sight = (u16, bool, Instant);

async fn measure(
    name: &str,
    (replicas, readers): (u32, usize),
    rounds: usize,
    period: Millis,
) -> Result<Value, Fault> {
    let cluster = Setup::new(&format!("bench-endpoints-{name}"))
        .workers(1)
        .set_worker(&format!("ports.first={PORT_FIRST}"))
        .set_worker(&format!("ports.last={}", PORT_FIRST + PORTS - 1))
        .start();
    let syncs = syncs(cluster.folder())?;
    let answers = Answers::start().await?;
    let (home, address) = (cluster.home().to_path_buf(), cluster.address());
    let client = Client::connect(&home, address).await?;
    let begin = Instant::now();
    client
        .service(AskService::Create(Box::new(ServiceRequest::whole(&spec(
            replicas, period,
        )))))
        .await?;
    let (sights, mut seen) = mpsc::channel(PUSHES_MAX * readers);
    let mut running = Vec::new();
    for _ in 0..readers {
        running.push(reader(&home, address, sights.clone()).await?);
    }
    let mut ports = HashMap::<u16, usize>::new();
    while ports.len() < replicas as usize || ports.values().any(|count| *count < readers) {
        let (port, _, _) = next(&mut seen).await?;
        *ports.entry(port).or_default() += 1;
    }
    let all_ready_ms = begin.elapsed().as_millis() as u64;
    eprintln!("endpoints: {replicas} replicas ready for {readers} readers after {all_ready_ms} ms");
    let cpu_before = cpu::of_process(cluster.controller_pid())?.0;
    let ports: Vec<u16> = ports.into_keys().collect();
    let mut waits = Vec::new();
    for round in 0..rounds {
        let port = ports[round * 7 % ports.len()];
        // It has to be seen to be gone first, or both changes may come as none.
        answers.fail(port);
        see(&mut seen, readers, port, false).await?;
        let good = answers.recover().await?;
        for at in see(&mut seen, readers, port, true).await? {
            waits.push(at.saturating_duration_since(good).as_micros() as u64);
        }
    }
    let cpu_after = cpu::of_process(cluster.controller_pid())?.0;
    drop(running);
    finish(cluster);
    let result = json!({
        "replicas": replicas,
        "readers": readers,
        "all_ready_ms": all_ready_ms,
        "probe_to_reader_us": percentiles(&mut waits),
        "rounds": rounds,
        "controller_cpu_us_a_change": (cpu_after - cpu_before) * 1_000 / (2 * rounds as u64),
        "sync_us": syncs,
    });
    eprintln!("endpoints: {result}");
    Ok(result)
}

fn finish(mut cluster: Cluster) {
    cluster.stop();
}

/// Waits until all readers have seen a port become ready or not; gives when each did.
async fn see(
    seen: &mut mpsc::Receiver<Sight>,
    readers: usize,
    port: u16,
    ready: bool,
) -> Result<Vec<Instant>, Fault> {
    let mut moments = Vec::with_capacity(readers);
    for _ in 0..readers {
        let (found, is_ready, at) = next(seen).await?;
        if (found, is_ready) != (port, ready) {
            return Err(format!("port {found} changed, not {port}").into());
        }
        moments.push(at);
    }
    Ok(moments)
}

async fn next(seen: &mut mpsc::Receiver<Sight>) -> Result<Sight, Fault> {
    let next = tokio::time::timeout(WITHIN, seen.recv()).await;
    next.map_err(|_| "no reader saw what was to come")?
        .ok_or_else(|| "the readers have ended".into())
}

fn percentiles(values: &mut [u64]) -> Value {
    values.sort_unstable();
    let at = |permille: usize| values[(values.len() - 1) * permille / 1000];
    json!({ "p50": at(500), "p99": at(990), "max": at(1000) })
}

/// What one sync of the same disk costs, in microseconds.
fn syncs(folder: &Path) -> Result<Value, Fault> {
    let path = folder.join("sync");
    let mut file = File::create(&path)?;
    let mut waits = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begin = Instant::now();
        file.write_all(&[1; 512])?;
        file.sync_data()?;
        waits.push(begin.elapsed().as_micros() as u64);
    }
    std::fs::remove_file(path)?;
    Ok(percentiles(&mut waits))
}

/// Replicas that do nothing, and are ready when this program says so.
fn spec(replicas: u32, period: Millis) -> ServiceSpec {
    let mut spec = service("bench", replicas);
    spec.template.resources.memory = Bytes(1 << 20);
    spec.template.ports = vec![PortSpec {
        name: "http".into(),
        port: None,
    }];
    spec.template.probes.readiness = Some(Box::new(Probe {
        action: ProbeAction::Http {
            port: "http".into(),
            host: "127.0.0.1".into(),
            path: "/".into(),
            status_min: 200,
            status_max: 399,
            headers: Vec::new(),
        },
        initial_delay: Millis(0),
        period,
        timeout: Millis(5_000),
        success_threshold: 1,
        failure_threshold: 1,
    }));
    spec
}

/// Connects, reads the endpoints, and tells each port that became ready.
async fn reader(
    home: &Path,
    address: SocketAddr,
    sights: mpsc::Sender<Sight>,
) -> Result<tokio::task::JoinHandle<()>, Fault> {
    let identity = Identity::load(&home.join("client"))?;
    let cluster = identity.principal().cluster;
    let dialer = Dialer::new(identity, Settings::default());
    let connected = dialer.dial(&[address], WITHIN).await?;
    let (caller, pushes) = Caller::new(connected, PUSHES_MAX);
    let hello = Hello {
        versions: VERSIONS,
        cluster,
        kind: PeerKind::Client,
        incarnation: Incarnation(fastrand::u128(..).to_le_bytes()),
        opening: Opening::New,
    };
    match caller.call::<Hello, HelloAnswer>(&hello, WITHIN).await? {
        HelloAnswer::Welcome(_) => {}
        HelloAnswer::Refused(refusal) => return Err(refusal.text.into()),
    }
    let request = Request {
        operation: None,
        made_at: 0,
        at_least: 0,
        ask: Ask::Service(AskService::Endpoints {
            name: ServiceName {
                project: "default".into(),
                name: "bench".into(),
            },
            watch: true,
            acknowledges: false,
        }),
    };
    match caller.call::<Request, Reply>(&request, WITHIN).await? {
        Reply::Watching { .. } => {}
        other => return Err(format!("no feed: {other:?}").into()),
    }
    Ok(tokio::spawn(follow(caller, pushes, sights)))
}

async fn follow(_open: Caller, mut pushes: mpsc::Receiver<Frame>, sights: mpsc::Sender<Sight>) {
    let mut set = EndpointSet::default();
    while let Some(frame) = pushes.recv().await {
        let Ok(push) = frame.decode::<EndpointsPush>() else {
            return;
        };
        let ready = push.change.changed.iter();
        let ready = ready.filter(|row| row.state == EndpointState::Ready);
        let mut fresh: Vec<(u16, bool)> = ready.map(|row| (row.port, true)).collect();
        for (job, _) in &push.change.gone {
            let port = set.rows().find(|row| row.job == *job).map(|row| row.port);
            fresh.extend(port.map(|port| (port, false)));
        }
        // A reader has a set when it has taken it in.
        set.apply(push.change);
        let at = Instant::now();
        for (port, ready) in fresh {
            if sights.send((port, ready, at)).await.is_err() {
                return;
            }
        }
    }
}

/// Answers the probes of all replicas.
struct Answers {
    state: Arc<State>,
    /// Ends with this value.
    _listening: JoinSet<()>,
}

struct State {
    /// The port that fails; 0 for none.
    failing: AtomicU16,
    /// The port whose next success is stamped, and where its moment goes.
    stamped: Mutex<Option<(u16, oneshot::Sender<Instant>)>>,
}

impl State {
    /// Where the moment of a success of this port goes, where one is waited for.
    fn stamped_for(&self, port: u16) -> Option<oneshot::Sender<Instant>> {
        let mut stamped = lock(&self.stamped);
        let waited = stamped.take_if(|(wanted, _)| *wanted == port);
        waited.map(|(_, sender)| sender)
    }
}

impl Answers {
    async fn start() -> Result<Self, Fault> {
        let state = Arc::new(State {
            failing: AtomicU16::new(0),
            stamped: Mutex::default(),
        });
        let mut listening = JoinSet::new();
        for port in PORT_FIRST..PORT_FIRST + PORTS {
            let listener = TcpListener::bind(("127.0.0.1", port)).await?;
            let state = Arc::clone(&state);
            listening.spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    // A probe that gives up is tried again.
                    drop(answer(&state, port, stream).await);
                }
            });
        }
        Ok(Self {
            state,
            _listening: listening,
        })
    }

    /// Has the probes of one replica fail from now on.
    fn fail(&self, port: u16) {
        self.state.failing.store(port, Ordering::Release);
    }

    /// Lets the probes of that replica succeed; gives the moment of the first success.
    async fn recover(&self) -> Result<Instant, Fault> {
        let (sender, good) = oneshot::channel();
        let port = self.state.failing.load(Ordering::Acquire);
        *lock(&self.state.stamped) = Some((port, sender));
        self.state.failing.store(0, Ordering::Release);
        let at = tokio::time::timeout(WITHIN, good).await;
        Ok(at.map_err(|_| "no probe came")??)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(state: &State, port: u16, mut stream: TcpStream) -> std::io::Result<()> {
    let mut question = [0; 512];
    let _count = stream.read(&mut question).await?;
    if state.failing.load(Ordering::Acquire) == port {
        return write(&mut stream, "503 Service Unavailable").await;
    }
    let stamped = state.stamped_for(port);
    // Stamped before it is on its way, so that nothing of it is left out.
    let at = Instant::now();
    if let Some(sender) = stamped {
        // Whoever waited may have given up.
        let _ = sender.send(at);
    }
    write(&mut stream, "200 OK").await
}

async fn write(stream: &mut TcpStream, status: &str) -> std::io::Result<()> {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await
}
