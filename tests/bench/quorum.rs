//! Three controllers' logs on one disk, against an etcd of three members on the same disk in the same
//! run: durable groups by 1, 64 and 256 writers; and how long a planned transfer of the leadership
//! holds up writers.
//!
//! The three logs live in this process and talk over TCP on the loopback, one connection a lane; the
//! writers live beside the primary, as the actors do. One JSON line.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use xce_wal::{Lane, Member, MemberChange, PeerError, Peers, Wal, WalConfig, open};

use crate::etcd::Etcd;
use crate::wal::{CELL, Cell, GROUP_BYTES, RawDisk, Sum, folder, median, write_by};

type Fault = Box<dyn Error>;

/// Numbers of writers. Source: the requirement.
const WRITERS: [u64; 3] = [1, 64, 256];
/// Transfers of the leadership. Source: chosen; each node leads some times.
const TRANSFERS: u32 = 15;
/// Longest wait for anything of the cluster. Source: chosen; a measurement that waits longer failed.
const WITHIN: Duration = Duration::from_secs(20);
/// Time between two looks at what is waited for. Source: chosen; a fiftieth of the aim of a transfer.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Measures and prints.
///
/// # Errors
/// The logs do not come to agree, or the disk fails.
pub fn run() -> Result<(), Fault> {
    let line = folder("quorum", measure)?;
    println!("{line}");
    Ok(())
}

fn measure(dir: &Path) -> Result<Value, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut raw = Vec::new();
    RawDisk::open(dir)?.measure(CELL, &mut raw)?;
    raw.sort_unstable();
    let nodes = runtime.block_on(cluster(dir))?;
    eprintln!("quorum: three logs agree");
    let etcd = Etcd::start_three(dir)?;
    if etcd.is_none() {
        eprintln!("quorum: etcd is not installed, there is no comparison with it");
    }
    let mut cells = Vec::new();
    for count in WRITERS {
        // Side by side in time, so that both see the same neighbours.
        let ours = runtime.block_on(write_by(&nodes[0], count, CELL))?;
        let theirs = match &etcd {
            Some(etcd) => Some(etcd.puts(count, CELL, GROUP_BYTES)?),
            None => None,
        };
        cells.push(compared(count, &ours, theirs.as_deref()));
        eprintln!("quorum: {count} writers measured");
    }
    drop(etcd);
    let transfers = runtime.block_on(transfers(&nodes))?;
    runtime.block_on(async {
        for node in nodes {
            node.close().await;
        }
    });
    Ok(json!({
        "bench": "quorum",
        "group_bytes": GROUP_BYTES,
        "raw_p50_us": median(&raw),
        "writers": cells,
        "transfer_p50_ms": median(&transfers),
        "transfer_max_ms": transfers.last(),
    }))
}

fn compared(count: u64, ours: &Cell, theirs: Option<&[u64]>) -> Value {
    let rate = |waits: &[u64]| waits.len() as f64 / CELL.as_secs_f64();
    json!({
        "writers": count,
        "per_s": ours.rate().round(),
        "p50_us": median(&ours.waits),
        "p99_us": ours.waits[(ours.waits.len() - 1) * 99 / 100],
        "etcd_per_s": theirs.map(|waits| rate(waits).round()),
        "etcd_p50_us": theirs.map(median),
        "times": theirs.map(|waits| (ours.rate() / rate(waits) * 10.0).round() / 10.0),
    })
}

/// Three voters; the first one leads.
async fn cluster(dir: &Path) -> Result<Vec<Wal<Sum>>, Fault> {
    let mut nodes = Vec::new();
    for node in 1..=3_u64 {
        let door = Arc::new(OnceLock::new());
        let address = listen(Arc::clone(&door)).await?;
        let config = WalConfig {
            create: true,
            join: node != 1,
            address: address.to_string(),
            peers: Arc::new(Loopback::default()),
            ..WalConfig::new(dir.join(format!("n{node}")), [1; 16], node)
        };
        let wal = open(config, Sum::default(), |reason| {
            eprintln!("quorum: {reason}")
        })
        .await?;
        drop(door.set(wal.clone()));
        nodes.push(wal);
        if node > 1 {
            let member = Member {
                node,
                address: address.to_string(),
            };
            let added = nodes[0].change_members(MemberChange::AddLearner(member));
            added.await?;
            let has_vote = || {
                let members = nodes[0].members();
                members.iter().filter(|state| state.voter).count() as u64 == node
            };
            until(has_vote).await?;
        }
    }
    Ok(nodes)
}

async fn until(mut holds: impl FnMut() -> bool) -> Result<(), Fault> {
    let deadline = Instant::now() + WITHIN;
    while !holds() {
        if Instant::now() > deadline {
            return Err("the logs do not agree in time".into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// From the order to hand over until the next primary has committed something new; sorted.
async fn transfers(nodes: &[Wal<Sum>]) -> Result<Vec<u64>, Fault> {
    let mut took = Vec::new();
    let mut leader = 0;
    for _ in 0..TRANSFERS {
        let next = (leader + 1) % nodes.len();
        let begin = Instant::now();
        nodes[leader].transfer(next as u64 + 1).await?;
        let deadline = begin + WITHIN;
        while nodes[next].persist(vec![1; GROUP_BYTES]).await.is_err() {
            if Instant::now() > deadline {
                return Err("nothing is committed after a transfer".into());
            }
            tokio::task::yield_now().await;
        }
        took.push(u64::try_from(begin.elapsed().as_millis())?);
        leader = next;
    }
    took.sort_unstable();
    Ok(took)
}

/// Answers whoever connects, one request after another, once the log is there.
async fn listen(door: Arc<OnceLock<Wal<Sum>>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let door = Arc::clone(&door);
            tokio::spawn(async move {
                stream.set_nodelay(true)?;
                while let Some(wal) = door.get() {
                    let request = receive(&mut stream).await?;
                    let answer = wal.answer(&request).await;
                    send(&mut stream, &answer).await?;
                }
                std::io::Result::Ok(())
            });
        }
    });
    Ok(address)
}

async fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    let mut frame = Vec::with_capacity(bytes.len() + 4);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    stream.write_all(&frame).await
}

/// One connection, made when it is needed.
type Line = Arc<tokio::sync::Mutex<Option<TcpStream>>>;

/// Connections to the others, one for each lane.
#[derive(Default)]
struct Loopback {
    lines: Mutex<HashMap<(u64, Lane), Line>>,
}

impl Peers for Loopback {
    fn call(
        &self,
        to: Member,
        lane: Lane,
        request: Vec<u8>,
        within: Duration,
    ) -> futures::future::BoxFuture<'static, Result<Vec<u8>, PeerError>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Arc::clone(lines.entry((to.node, lane)).or_default());
        drop(lines);
        let node = to.node;
        let fault = move |detail: String| PeerError::NoAnswer { node, detail };
        Box::pin(async move {
            let called = async {
                let mut line = line.lock().await;
                // Left empty when anything goes wrong in between, also by a drop of this future.
                let mut stream = match line.take() {
                    Some(stream) => stream,
                    None => {
                        let stream = TcpStream::connect(&to.address).await?;
                        stream.set_nodelay(true)?;
                        stream
                    }
                };
                send(&mut stream, &request).await?;
                let answer = receive(&mut stream).await?;
                *line = Some(stream);
                std::io::Result::Ok(answer)
            };
            match tokio::time::timeout(within, called).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(error)) => Err(fault(error.to_string())),
                Err(_) => Err(fault("it took too long".to_owned())),
            }
        })
    }
}
