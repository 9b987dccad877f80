//! The side that holds the ledger, and what it uses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use xce_ledger::{Cursor, Reader, RowWriter, Scope, View};
use xce_link::{Authority, Connected, EndpointKeys, Listener, Peer, Role, Settings, listen};
use xce_model::{ClusterId, ClusterTime};
use xce_session::feed_wire::{FeedPortion, FromReader, ToReader};

use crate::client::Fault;

/// As the controller's own feeder: bytes of a portion, and portions that a reader may be behind.
const PORTION_BYTES: usize = 256 * 1024;
const AHEAD_MAX: u64 = 4;

/// A listener with its threads.
pub struct Server {
    folder: PathBuf,
    address: SocketAddr,
    bytes: Arc<AtomicU64>,
    began_cpu_ns: AtomicU64,
    began_rss: AtomicU64,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Serves what a reader of the ledger shows.
    pub fn start(folder: &Path, reader: Reader) -> Result<Self, Fault> {
        let now = jiff::Timestamp::now().as_second();
        let authority = Authority::create(folder, ClusterId([1; 16]), now)?;
        let controller = authority.issue(Role::Controller, "c1", now)?;
        let scheduler = authority.issue(Role::Apiserver, "a1", now)?;
        let own = folder.join("reader");
        std::fs::create_dir(&own)?;
        scheduler.store(&own)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let keys = EndpointKeys::load_or_create(folder)?;
        let bytes = Arc::new(AtomicU64::new(0));
        let listener = {
            let _inside = runtime.enter();
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            listen(any, &controller, &Settings::default(), &keys)?
        };
        let address = listener.address();
        runtime.spawn(serve(listener, reader, Arc::clone(&bytes)));
        Ok(Self {
            folder: folder.to_path_buf(),
            address,
            bytes,
            began_cpu_ns: AtomicU64::new(0),
            began_rss: AtomicU64::new(0),
            _runtime: runtime,
        })
    }

    /// What the reader has to know.
    pub fn words(&self) -> String {
        format!("{} {}", self.address, self.folder.join("reader").display())
    }

    /// From here on is measured.
    pub fn begin(&self) -> Result<(), Fault> {
        forget_peak()?;
        self.bytes.store(0, Ordering::Relaxed);
        self.began_cpu_ns.store(cpu_ns()?, Ordering::Relaxed);
        self.began_rss.store(memory("VmRSS:")?, Ordering::Relaxed);
        Ok(())
    }

    /// What was used since.
    pub fn end(&self) -> Result<Value, Fault> {
        let cpu = cpu_ns()? - self.began_cpu_ns.load(Ordering::Relaxed);
        let peak = memory("VmHWM:")?.saturating_sub(self.began_rss.load(Ordering::Relaxed));
        Ok(json!({
            "bytes": self.bytes.load(Ordering::Relaxed),
            "server_cpu_us": cpu / 1000,
            "server_extra_kib": peak / 1024,
        }))
    }
}

async fn serve(mut listener: Listener, reader: Reader, bytes: Arc<AtomicU64>) {
    while let Some(connected) = listener.accept().await {
        let (reader, bytes) = (reader.clone(), Arc::clone(&bytes));
        tokio::spawn(feed(connected, reader, bytes));
    }
}

/// Feeds one reader until it goes.
async fn feed(connected: Connected, reader: Reader, bytes: Arc<AtomicU64>) {
    let Connected { peer, mut inbox } = connected;
    let mut cursor = Cursor::new(Scope::All, 0);
    let mut writer = RowWriter::new();
    let (mut sent, mut taken) = (0, 0);
    while let Ok(frame) = inbox.receive().await {
        match frame.decode::<FromReader>() {
            Ok(FromReader::Open { after }) => cursor = Cursor::new(Scope::All, after),
            Ok(FromReader::Taken { number }) => taken = number,
            Ok(FromReader::Plan(_)) | Err(_) => return,
        }
        let view = reader.view();
        while sent - taken < AHEAD_MAX {
            let Some(length) = portion(&peer, &mut cursor, &mut writer, &view, sent + 1) else {
                break;
            };
            sent += 1;
            bytes.fetch_add(length, Ordering::Relaxed);
        }
    }
}

fn portion(
    peer: &Peer,
    cursor: &mut Cursor,
    writer: &mut RowWriter,
    view: &Arc<View>,
    number: u64,
) -> Option<u64> {
    let mut rows = Vec::new();
    let portion = cursor.next(view, |change| {
        writer.put(&mut rows, &change);
        rows.len() < PORTION_BYTES
    })?;
    let message = ToReader::Portion(FeedPortion {
        number,
        full: portion.full,
        first: portion.first,
        more: portion.more,
        lsn: portion.lsn,
        time: ClusterTime(0),
        rows,
    });
    let sent = peer.push_counted(2, &message);
    sent.ok().map(|length| length as u64)
}

/// Processor time of all threads of this process so far.
pub fn cpu_ns() -> Result<u64, Fault> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // One that has just ended is not counted.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let first = text
            .split_whitespace()
            .next()
            .ok_or("no time of a thread")?;
        sum += first.parse::<u64>()?;
    }
    Ok(sum)
}

/// A figure of this process's memory, in bytes.
pub fn memory(name: &str) -> Result<u64, Fault> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.ok_or("no such figure")?.parse::<u64>()? * 1024)
}

/// The highest memory is counted anew.
pub fn forget_peak() -> Result<(), Fault> {
    // proc_pid_clear_refs(5): 5 resets the peak.
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}
