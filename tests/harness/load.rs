//! A steady load on a service from who reads its endpoints, as a front sends it.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::cli::Cli;
use super::net::http_get;
use super::patience;

/// Threads that send. Source: chosen; each has one request at a time.
const SENDERS: usize = 4;
/// Pause between two requests of one thread. Source: derived; 200 requests a second by all of them.
const PAUSE: Duration = Duration::from_millis(20);

/// What all threads share.
#[derive(Default)]
struct Shared {
    /// The set that is used; held for reading as long as a request is on its way.
    set: RwLock<Vec<SocketAddr>>,
    seen: Mutex<Vec<Value>>,
    answers: AtomicU64,
    failures: Mutex<Vec<String>>,
    turn: AtomicUsize,
}

/// A running reader with its load; ends with it.
pub struct Load {
    reader: Child,
    senders: Vec<(mpsc::Sender<()>, JoinHandle<()>)>,
    shared: Arc<Shared>,
}

impl Load {
    /// Reads the endpoints of a service and sends requests to them, one after the other. With
    /// `acknowledges` it says that it uses a set when no request on an older one is on its way.
    ///
    /// # Panics
    /// When the reader cannot be started.
    pub fn start(cli: &Cli, service: &str, acknowledges: bool) -> Self {
        let shared = Arc::<Shared>::default();
        let reader = read(cli, service, acknowledges, &shared);
        let known = Arc::clone(&shared);
        patience::until("the reader has endpoints", || {
            let set = known.set.read().unwrap_or_else(PoisonError::into_inner);
            !set.is_empty()
        });
        let senders = (0..SENDERS).map(|_| {
            let shared = Arc::clone(&shared);
            let (stop, stopped) = mpsc::channel();
            let sender = thread::spawn(move || {
                while stopped.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    send(&shared);
                }
            });
            (stop, sender)
        });
        Self {
            reader,
            senders: senders.collect(),
            shared,
        }
    }

    /// Waits until so many more requests were answered.
    pub fn answered(&self, more: u64) {
        let before = self.shared.answers.load(Ordering::Relaxed);
        patience::until("requests are answered", || {
            self.shared.answers.load(Ordering::Relaxed) >= before + more
        });
    }

    /// Sets that the reader was told, oldest first.
    pub fn seen(&self) -> Vec<Value> {
        let seen = self.shared.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the load and requires that no request failed; gives how many were answered.
    ///
    /// # Panics
    /// When one failed.
    #[track_caller]
    pub fn finish(mut self) -> u64 {
        for (stop, sender) in self.senders.drain(..) {
            drop(stop);
            sender.join().expect("a sender ends well");
        }
        let failures = self.shared.failures.lock();
        let failures = failures.unwrap_or_else(PoisonError::into_inner);
        let answers = self.shared.answers.load(Ordering::Relaxed);
        assert!(
            failures.is_empty(),
            "{} of {} requests failed: {:#?}",
            failures.len(),
            answers + failures.len() as u64,
            failures.iter().take(10).collect::<Vec<_>>()
        );
        answers
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        drop(self.reader.kill());
        drop(self.reader.wait());
    }
}

fn read(cli: &Cli, service: &str, acknowledges: bool, shared: &Arc<Shared>) -> Child {
    let mut words = vec!["-o", "json", "services", "endpoints", service, "--watch"];
    if acknowledges {
        words.push("--ack");
    }
    let mut command = cli.command(&words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("xcecli starts");
    let stdout = child.stdout.take().expect("stdout is a pipe");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Ok(set) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            use_set(&shared, &set);
            if acknowledges {
                say(&mut stdin, &set);
            }
            let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(set);
        }
    });
    child
}

/// Puts a set in place of the one before, when all requests on that one have been answered.
fn use_set(shared: &Shared, set: &Value) {
    let rows = set["endpoints"].as_array().cloned().unwrap_or_default();
    let address = |row: &Value| {
        let text = format!("{}:{}", row["address"].as_str()?, row["port"]);
        text.parse().ok()
    };
    let of = |state: &str| -> Vec<SocketAddr> {
        let rows = rows.iter().filter(|row| row["state"] == state);
        rows.filter_map(address).collect()
    };
    let ready = of("ready");
    let set = if ready.is_empty() {
        of("suspect")
    } else {
        ready
    };
    *shared.set.write().unwrap_or_else(PoisonError::into_inner) = set;
}

fn say(stdin: &mut ChildStdin, set: &Value) {
    // Whoever reads may have ended.
    drop(writeln!(stdin, "{}", set["generation"]).and_then(|()| stdin.flush()));
}

fn send(shared: &Shared) {
    let set = shared.set.read().unwrap_or_else(PoisonError::into_inner);
    let turn = shared.turn.fetch_add(1, Ordering::Relaxed);
    let outcome = match set.get(turn % set.len().max(1)) {
        Some(address) => http_get(*address, "/").map(|(status, _)| (status, *address)),
        None => Err("no endpoint at all".to_owned()),
    };
    let failure = match outcome {
        Ok((200, _)) => {
            shared.answers.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Ok((status, address)) => format!("{address}: status {status}"),
        Err(fault) => fault,
    };
    let mut failures = shared
        .failures
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    failures.push(failure);
}
