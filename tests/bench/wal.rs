//! How fast the WAL makes groups durable, against what the disk can do at all.
//!
//! Prints one JSON line. The raw limit (one direct synced block after another) and the single writer
//! are measured in turns, because any other process that syncs drags all of them. Where an `etcd` is
//! installed, one member of it on the same disk does the same: durable puts of as many bytes by as many
//! clients that wait for each answer. It has a network in between and we have not, which costs it some
//! 100 us of each wait and processor time of each put; the README says what that means.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xce_wal::{
    Device, Disk, DiskMode, FileDisk, Machine, Position, SnapshotError, Wal, WalConfig, open,
};

use crate::etcd::Etcd;

/// Source: the size of a typical fact, as in the foundations' table.
pub const GROUP_BYTES: usize = 200;
/// Source: one block, the least that a direct write can be.
const BLOCK: usize = 4096;
/// Source: chosen; long enough for some ten thousand syncs in sum.
pub const CELL: Duration = Duration::from_secs(3);
/// Source: chosen; raw disk and single writer take turns, so that both see the same neighbours.
const ROUNDS: u32 = 12;
/// Source: as the WAL's default segment.
const RAW_BYTES: u64 = 16 << 20;

/// Measures and prints one JSON line.
///
/// The state goes to a new folder under `XCE_BENCH_DIR`, default the current directory, and is
/// removed afterwards.
///
/// # Errors
/// The folder cannot be written to, or the WAL does not start.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let line = folder("wal", measure)?;
    println!("{line}");
    Ok(())
}

/// Measures in a new folder on the disk that is to be measured.
///
/// # Errors
/// The folder cannot be made or removed, or the measurement fails.
pub fn folder<T>(
    name: &str,
    measure: impl FnOnce(&Path) -> Result<T, Box<dyn std::error::Error>>,
) -> Result<T, Box<dyn std::error::Error>> {
    let base = std::env::var_os("XCE_BENCH_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let dir = base.join(format!("{name}-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let result = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut raw_disk = RawDisk::open(dir)?;
    let (mut raw_waits, mut one) = (Vec::new(), Cell::default());
    for round in 0..ROUNDS {
        raw_disk.measure(CELL / ROUNDS, &mut raw_waits)?;
        let cell = runtime.block_on(writers(&dir.join("one"), 1, CELL / ROUNDS, round == 0))?;
        one.add(cell);
    }
    raw_waits.sort_unstable();
    one.waits.sort_unstable();
    let etcd = Etcd::start(dir)?;
    if etcd.is_none() {
        eprintln!("wal: etcd is not installed, there is no comparison with it");
    }
    // Its cells lie beside ours, so that both see the same neighbours.
    let theirs = |clients: u64| -> std::io::Result<Option<Cell>> {
        let Some(etcd) = &etcd else { return Ok(None) };
        let waits = etcd.puts(clients, CELL, GROUP_BYTES)?;
        Ok(Some(Cell {
            waits,
            seconds: CELL.as_secs_f64(),
            ..Cell::default()
        }))
    };
    let etcd_one = theirs(1)?;
    let few = runtime.block_on(writers(&dir.join("few"), 64, CELL, true))?;
    let etcd_few = theirs(64)?;
    let many = runtime.block_on(writers(&dir.join("many"), 256, CELL, true))?;
    let etcd_many = theirs(256)?;
    let reopen_ms = runtime.block_on(reopen(&dir.join("one")))?;
    let raw = raw_waits.len() as f64 / CELL.as_secs_f64();
    let raw_p50 = median(&raw_waits);
    let cells = [(&one, etcd_one), (&few, etcd_few), (&many, etcd_many)];
    Ok(format!(
        "{{\"bench\":\"wal\",\"group_bytes\":{GROUP_BYTES},\"raw_direct_per_s\":{raw:.0},\
         \"raw_p50_us\":{raw_p50},\"one_writer_of_raw\":{:.2},\"one_writer_p50_of_raw\":{:.2},\
         {},{},{},\"reopen_ms\":{reopen_ms:.1},\"etcd\":{}}}",
        one.rate() / raw,
        raw_p50 as f64 / median(&one.waits).max(1) as f64,
        one.json("one_writer"),
        few.json("writers_64"),
        many.json("writers_256"),
        compared(&cells),
    ))
}

/// Rates and waits of etcd, and our rates as multiples of them; `null` without an etcd.
fn compared(cells: &[(&Cell, Option<Cell>)]) -> String {
    let fields: Option<Vec<String>> = cells
        .iter()
        .zip(["one", "64", "256"])
        .map(|((ours, theirs), name)| {
            let theirs = theirs.as_ref()?;
            Some(format!(
                "\"{name}_per_s\":{:.0},\"{name}_p50_us\":{},\"{name}_times\":{:.1}",
                theirs.rate(),
                median(&theirs.waits),
                ours.rate() / theirs.rate(),
            ))
        })
        .collect();
    fields.map_or_else(
        || "null".to_owned(),
        |fields| format!("{{{}}}", fields.join(",")),
    )
}

/// The middle of sorted numbers.
pub fn median(sorted: &[u64]) -> u64 {
    sorted[sorted.len() / 2]
}

/// One zeroed file for durable one-block writes, one after another.
pub struct RawDisk {
    device: Box<dyn Device>,
    store: Vec<u8>,
    writes: u64,
}

impl RawDisk {
    pub fn open(dir: &Path) -> std::io::Result<Self> {
        let path = dir.join("raw.tmp");
        let disk = FileDisk::with_mode(DiskMode::Direct);
        disk.preallocate(&path, RAW_BYTES)?;
        Ok(Self {
            device: disk.open(&path)?,
            store: vec![7; 2 * BLOCK],
            writes: 0,
        })
    }

    pub fn measure(&mut self, span: Duration, waits: &mut Vec<u64>) -> std::io::Result<()> {
        let start = self.store.as_ptr().align_offset(BLOCK);
        let begin = Instant::now();
        while begin.elapsed() < span {
            let from = Instant::now();
            let offset = self.writes * BLOCK as u64 % RAW_BYTES;
            self.device
                .write_at(&self.store[start..start + BLOCK], offset)?;
            self.device.sync()?;
            self.writes += 1;
            waits.push(from.elapsed().as_micros() as u64);
        }
        Ok(())
    }
}

/// What writers measured.
#[derive(Default)]
pub struct Cell {
    pub waits: Vec<u64>,
    seconds: f64,
    /// CPU time of the whole process, writers included.
    cpu_seconds: f64,
    syncs: u64,
}

impl Cell {
    fn add(&mut self, other: Self) {
        self.waits.extend(other.waits);
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        self.syncs += other.syncs;
    }

    pub fn rate(&self) -> f64 {
        self.waits.len() as f64 / self.seconds
    }

    fn json(&self, name: &str) -> String {
        let groups = self.waits.len() as f64;
        let p99 = self.waits[(self.waits.len() - 1) * 99 / 100];
        format!(
            "\"{name}_per_s\":{:.0},\"{name}_p50_us\":{},\"{name}_p99_us\":{p99},\
             \"{name}_cpu_us\":{:.1},\"{name}_groups_per_sync\":{:.1}",
            self.rate(),
            median(&self.waits),
            self.cpu_seconds * 1e6 / groups,
            groups / self.syncs.max(1) as f64,
        )
    }
}

async fn writers(
    dir: &Path,
    count: u64,
    span: Duration,
    create: bool,
) -> Result<Cell, Box<dyn std::error::Error>> {
    let config = WalConfig {
        create,
        ..WalConfig::new(dir, [1; 16], 1)
    };
    let wal = open(config, Sum::default(), |reason| eprintln!("wal: {reason}")).await?;
    let cell = write_by(&wal, count, span).await?;
    wal.close().await;
    Ok(cell)
}

/// Has so many writers write to a log for so long.
///
/// # Errors
/// A group was not written.
pub async fn write_by(
    wal: &Wal<Sum>,
    count: u64,
    span: Duration,
) -> Result<Cell, Box<dyn std::error::Error>> {
    let _warm = wal.persist(vec![0; GROUP_BYTES]).await?;
    let (syncs, cpu) = (wal.status().syncs, cpu_seconds()?);
    let begin = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|_| tokio::spawn(writer(wal.clone(), begin, span)))
        .collect();
    let mut cell = Cell::default();
    for task in tasks {
        cell.waits.extend(task.await??);
    }
    cell.seconds = begin.elapsed().as_secs_f64();
    cell.cpu_seconds = cpu_seconds()? - cpu;
    cell.syncs = wal.status().syncs - syncs;
    cell.waits.sort_unstable();
    Ok(cell)
}

/// CPU time of this process so far; on a busy machine it says more than rates do.
fn cpu_seconds() -> std::io::Result<f64> {
    // After the name, which ends with the last parenthesis, fields 12 and 13 are user and system
    // time in ticks of 10 ms (proc(5)).
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    Ok(fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0)
}

/// From nothing to leading, over the log that the single writer left.
async fn reopen(dir: &Path) -> Result<f64, Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let wal = open(WalConfig::new(dir, [1; 16], 1), Sum::default(), drop).await?;
    let took = begin.elapsed().as_secs_f64() * 1000.0;
    wal.close().await;
    Ok(took)
}

async fn writer(
    wal: Wal<Sum>,
    begin: Instant,
    span: Duration,
) -> Result<Vec<u64>, xce_wal::PersistError> {
    let mut waits = Vec::new();
    while begin.elapsed() < span {
        let from = Instant::now();
        let receipt = wal.persist(vec![1; GROUP_BYTES]).await?;
        assert!(receipt.lsn() > 0, "a receipt names its position");
        waits.push(from.elapsed().as_micros() as u64);
    }
    Ok(waits)
}

/// The least machine: adds up bytes.
#[derive(Default)]
pub struct Sum(AtomicU64);

impl Machine for Sum {
    type Outcome = ();
    type Snapshot = std::iter::Once<Vec<u8>>;

    fn apply(&mut self, _at: Position, group: &[u8]) {
        self.0.fetch_add(
            group.iter().map(|byte| u64::from(*byte)).sum(),
            Ordering::Relaxed,
        );
    }

    fn publish(&mut self, _lsn: u64, _term: u64) {}

    fn snapshot(&self) -> Self::Snapshot {
        std::iter::once(self.0.load(Ordering::Relaxed).to_le_bytes().to_vec())
    }

    fn clear(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn restore(
        &mut self,
        records: &mut dyn Iterator<Item = Result<Vec<u8>, SnapshotError>>,
    ) -> Result<(), SnapshotError> {
        self.0.store(0, Ordering::Relaxed);
        for record in records {
            let bytes = record?.try_into().map_err(|_| SnapshotError::Record {
                detail: "the sum is not eight bytes".into(),
            })?;
            self.0.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        Ok(())
    }
}
