//! What it costs to bring a reader up to date: the full state against what changed, at 10 000, 100 000
//! and 1 000 000 jobs, over QUIC on the loopback. The ledger and the reader are processes of their own,
//! so that each side's processor time and memory are its own. One JSON line for each size.

mod reader;
mod server;
mod state;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::Fault;
use state::State;

/// Jobs. Source: the requirement.
const SIZES: [u32; 3] = [10_000, 100_000, 1_000_000];
/// Parts of the jobs that change, in millionths. Source: the requirement: 0.01%, 1%, 100%.
const CHANGED: [(&str, u64); 3] = [("0.01%", 100), ("1%", 10_000), ("100%", 1_000_000)];
/// Rounds of each small part; the median counts. Source: chosen; the first also warms up.
const ROUNDS: usize = 5;
/// Names the directory of keys to the process that reads.
const READER: &str = "XCE_BENCH_FEED_READER";

/// Measures and prints.
pub fn run() -> Result<(), Fault> {
    if let Ok(words) = std::env::var(READER) {
        return reader::run(&words);
    }
    let wanted: Option<u32> = std::env::var("XCE_BENCH_FEED_JOBS")
        .ok()
        .and_then(|text| text.parse().ok());
    for size in SIZES {
        if wanted.is_none_or(|wanted| wanted == size) {
            println!("{}", measure(size)?);
        }
    }
    Ok(())
}

/// The process that reads.
struct Reader {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Reader {
    fn start(words: &str) -> Result<Self, Fault> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("feed")
            .env(READER, words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, lines })
    }

    /// Lets it connect and catch up; what it measured.
    fn catch_up(&mut self) -> Result<Value, Fault> {
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        input.write_all(b"go\n")?;
        input.flush()?;
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // One that has ended by itself needs no more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(size: u32) -> Result<Value, Fault> {
    let folder = tempfile::tempdir()?;
    eprintln!("feed: making {size} jobs");
    let mut state = State::new(size)?;
    let server = server::Server::start(folder.path(), state.reader())?;
    let mut reader = Reader::start(&server.words())?;
    let full = one(&server, &mut reader, &state)?;
    eprintln!("feed: full state of {size} jobs: {full}");
    let mut deltas = serde_json::Map::new();
    for (name, part) in CHANGED {
        let count = (u64::from(size) * part / 1_000_000).max(1);
        let rounds = if part == 1_000_000 { 1 } else { ROUNDS };
        let mut all = Vec::new();
        for _ in 0..rounds {
            let before = state.lsn();
            state.change(u32::try_from(count)?)?;
            let mut delta = one(&server, &mut reader, &state)?;
            let encoded = state.encoded(before);
            if let Some(fields) = delta.as_object_mut() {
                fields.insert("changed".to_owned(), count.into());
                fields.insert("encoded_bytes".to_owned(), encoded.into());
                let bytes = fields["bytes"].as_u64().unwrap_or(0) as f64;
                let ratio = (bytes / encoded as f64 * 1000.0).round() / 1000.0;
                fields.insert("bytes_of_encoded".to_owned(), ratio.into());
            }
            all.push(delta);
        }
        let by_time = |delta: &Value| delta["us"].as_u64().unwrap_or(u64::MAX);
        all.sort_by_key(by_time);
        let median = all.swap_remove(all.len() / 2);
        eprintln!("feed: {name} of {size} jobs changed: {median}");
        deltas.insert(name.to_owned(), median);
    }
    Ok(json!({
        "bench": "feed",
        "jobs": size,
        "specifications": state::SPECS.min(size / state::JOBS_A_SPEC).max(1),
        "full": full,
        "delta": deltas,
    }))
}

/// One resume, with both sides' costs.
fn one(server: &server::Server, reader: &mut Reader, state: &State) -> Result<Value, Fault> {
    server.begin()?;
    let mut read = reader.catch_up()?;
    let served = server.end()?;
    if read["lsn"].as_u64() != Some(state.lsn()) {
        return Err(format!("the reader is at {}, not at {}", read["lsn"], state.lsn()).into());
    }
    if let (Some(read), Some(served)) = (read.as_object_mut(), served.as_object()) {
        read.extend(served.clone());
    }
    Ok(read)
}
