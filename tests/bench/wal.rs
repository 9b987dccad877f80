//! How fast the WAL makes groups durable, against what the disk can do at all.
//!
//! Prints one JSON line. The raw limit (one direct synced block after another) is measured right
//! before and after the single writer, because any other process that syncs drags all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xce_wal::{Disk, DiskMode, FileDisk, Machine, Position, SnapshotError, Wal, WalConfig, open};

/// Source: the size of a typical fact, as in the foundations' table.
const GROUP_BYTES: usize = 200;
/// Source: one block, the least that a direct write can be.
const BLOCK: usize = 4096;
/// Source: chosen; long enough for some ten thousand syncs in sum.
const CELL: Duration = Duration::from_secs(3);
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
    let base = std::env::var_os("XCE_BENCH_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let dir = base.join(format!("wal-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let result = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    println!("{}", result?);
    Ok(())
}

fn measure(dir: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (before, raw_p50_before) = raw(dir)?;
    let one = runtime.block_on(writers(&dir.join("one"), 1))?;
    let (after, raw_p50_after) = raw(dir)?;
    let few = runtime.block_on(writers(&dir.join("few"), 64))?;
    let many = runtime.block_on(writers(&dir.join("many"), 256))?;
    let reopen_ms = runtime.block_on(reopen(&dir.join("one")))?;
    let raw = f64::midpoint(before, after);
    let raw_p50_us = u64::midpoint(raw_p50_before, raw_p50_after);
    let p50_of_raw = raw_p50_us as f64 / one.p50_us.max(1) as f64;
    Ok(format!(
        "{{\"bench\":\"wal\",\"group_bytes\":{GROUP_BYTES},\"raw_direct_per_s\":{raw:.0},\
         \"raw_before_per_s\":{before:.0},\"raw_after_per_s\":{after:.0},\
         \"one_writer_per_s\":{:.0},\"one_writer_p50_us\":{},\"one_writer_p99_us\":{},\
         \"one_writer_of_raw\":{:.2},\"raw_p50_us\":{raw_p50_us},\"one_writer_p50_of_raw\":{p50_of_raw:.2},\
         \"writers_64_per_s\":{:.0},\"writers_64_p50_us\":{},\"writers_64_p99_us\":{},\
         \"writers_256_per_s\":{:.0},\"writers_256_p50_us\":{},\"writers_256_p99_us\":{},\
         \"groups_per_sync_256\":{:.1},\"one_writer_cpu_us\":{:.1},\"writers_64_cpu_us\":{:.1},\"writers_256_cpu_us\":{:.1},\
         \"reopen_ms\":{reopen_ms:.1}}}",
        one.rate,
        one.p50_us,
        one.p99_us,
        one.rate / raw,
        few.rate,
        few.p50_us,
        few.p99_us,
        many.rate,
        many.p50_us,
        many.p99_us,
        many.per_sync,
        one.cpu_us,
        few.cpu_us,
        many.cpu_us,
    ))
}

/// Durable one-block writes, one after another, over zeroed blocks: a second, and the median in us.
fn raw(dir: &Path) -> std::io::Result<(f64, u64)> {
    let path = dir.join("raw.tmp");
    let disk = FileDisk::with_mode(DiskMode::Direct);
    disk.preallocate(&path, RAW_BYTES)?;
    let mut device = disk.open(&path)?;
    let store = vec![7; 2 * BLOCK];
    let start = store.as_ptr().align_offset(BLOCK);
    let block = &store[start..start + BLOCK];
    let (begin, mut waits) = (Instant::now(), Vec::new());
    while begin.elapsed() < CELL {
        let offset = waits.len() as u64 * BLOCK as u64 % RAW_BYTES;
        let from = Instant::now();
        device.write_at(block, offset)?;
        device.sync()?;
        waits.push(from.elapsed().as_micros() as u64);
    }
    let rate = waits.len() as f64 / begin.elapsed().as_secs_f64();
    waits.sort_unstable();
    std::fs::remove_file(&path)?;
    Ok((rate, waits[waits.len() / 2]))
}

struct Cell {
    rate: f64,
    p50_us: u64,
    p99_us: u64,
    /// CPU time of the whole process for one group, writers included.
    cpu_us: f64,
    per_sync: f64,
}

async fn writers(dir: &Path, count: u64) -> Result<Cell, Box<dyn std::error::Error>> {
    let config = WalConfig {
        create: true,
        ..WalConfig::new(dir, [1; 16], 1)
    };
    let sum = Arc::new(AtomicU64::new(0));
    let wal = open(config, Sum(Arc::clone(&sum)), |reason| {
        eprintln!("wal: {reason}")
    })
    .await?;
    let _warm = wal.persist(vec![0; GROUP_BYTES]).await?;
    let (syncs, cpu) = (wal.status().syncs, cpu_seconds()?);
    let begin = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|_| tokio::spawn(writer(wal.clone(), begin)))
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await??);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let syncs = wal.status().syncs - syncs;
    let cpu = cpu_seconds()? - cpu;
    wal.close().await;
    waits.sort_unstable();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100];
    Ok(Cell {
        rate: waits.len() as f64 / seconds,
        p50_us: at(50),
        p99_us: at(99),
        cpu_us: cpu * 1e6 / waits.len() as f64,
        per_sync: waits.len() as f64 / syncs.max(1) as f64,
    })
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
    let wal = open(WalConfig::new(dir, [1; 16], 1), Sum(Arc::default()), drop).await?;
    let took = begin.elapsed().as_secs_f64() * 1000.0;
    wal.close().await;
    Ok(took)
}

async fn writer(wal: Wal<Sum>, begin: Instant) -> Result<Vec<u64>, xce_wal::PersistError> {
    let mut waits = Vec::new();
    while begin.elapsed() < CELL {
        let from = Instant::now();
        let receipt = wal.persist(vec![1; GROUP_BYTES]).await?;
        assert!(receipt.lsn() > 0, "a receipt names its position");
        waits.push(from.elapsed().as_micros() as u64);
    }
    Ok(waits)
}

/// The least machine: adds up bytes.
struct Sum(Arc<AtomicU64>);

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
