//! One daemon as a child process: started again when it ends, until all is to end.

use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use xce_config::Home;

use crate::lifeline::{Ready, STOP_WITH_JOBS};

/// First wait before a child that ended is started again; doubles up to [`WAIT_MAX`].
/// Source: chosen; at once as far as a person sees.
const WAIT_FIRST: Duration = Duration::from_millis(50);
/// Longest wait. Source: chosen; a person waits for it.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A child that lived this long starts the waits anew. Source: chosen; far above a failed start.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Longest wait for a child to end after it was asked.
/// Source: derived; the default stop grace of jobs, 30 s, and time to report their ends.
const END_WITHIN: Duration = Duration::from_secs(45);

/// How long it waits for a child before it says so. Source: chosen; a person begins to wonder.
const SAY_AFTER: Duration = Duration::from_secs(5);

/// How far stopping is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// Not at all.
    No,
    /// Workers end, their jobs go on.
    Workers,
    /// Workers end with their jobs.
    WorkersWithJobs,
    /// Everything ends.
    All,
    /// Everything ends at once, in whatever state it is.
    Now,
}

/// What happened to a child.
#[derive(Debug)]
pub enum Event {
    /// It is ready.
    Ready {
        /// Address that it listens on, where it does.
        address: Option<SocketAddr>,
        /// Which.
        name: String,
    },
    /// It ended without having been asked.
    Ended {
        /// Which.
        name: String,
        /// How.
        status: String,
    },
}

/// The command line of a child.
#[derive(Debug, Clone)]
pub struct Line {
    /// Name in messages.
    pub name: String,
    /// Whether it is a worker, which ends before the controller.
    pub is_worker: bool,
    words: Vec<String>,
}

impl Line {
    /// A role in a home.
    pub fn new(role: &str, home: &Home) -> Self {
        let home = home.path().display().to_string();
        let words = [role, "--home", &home, "--lifeline"].map(str::to_owned);
        Self {
            name: role.to_owned(),
            is_worker: false,
            words: words.into(),
        }
    }

    /// Adds a flag.
    pub fn flag(&mut self, flag: &str) {
        self.words.push(flag.to_owned());
    }

    /// Adds a setting.
    pub fn set(&mut self, key: &str, value: &str) {
        self.words
            .extend(["--set".to_owned(), format!("{key}={value}")]);
    }
}

/// A child and the task that keeps it running.
pub struct Child {
    line: Arc<Mutex<Line>>,
    task: JoinHandle<()>,
}

impl Child {
    /// Starts a child and keeps it running.
    pub fn start(
        line: Line,
        events: mpsc::Sender<Event>,
        stopping: watch::Receiver<Stopping>,
    ) -> Self {
        let line = Arc::new(Mutex::new(line));
        let kept = Arc::clone(&line);
        Self {
            line,
            task: tokio::spawn(async move { keep(&kept, &events, stopping).await }),
        }
    }

    /// Changes how it is started the next time.
    pub fn set_arguments(&mut self, line: Line) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    /// Waits until it is ready for the first time; an end before that is final.
    pub async fn first_ready(
        &mut self,
        happened: &mut mpsc::Receiver<Event>,
    ) -> anyhow::Result<SocketAddr> {
        match happened.recv().await {
            Some(Event::Ready { address, .. }) => {
                address.context("the controller named no address")
            }
            Some(Event::Ended { name, status }) => {
                self.task.abort();
                anyhow::bail!("the {name} did not start ({status}); its message stands above")
            }
            None => anyhow::bail!("the controller did not start"),
        }
    }

    /// Waits until the child has ended for good.
    pub async fn ended(self) {
        // Err is a panic of the task, which has ended too.
        drop(self.task.await);
    }
}

async fn keep(
    line: &Mutex<Line>,
    events: &mpsc::Sender<Event>,
    mut stopping: watch::Receiver<Stopping>,
) {
    let mut wait = WAIT_FIRST;
    loop {
        let line = line.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let since = tokio::time::Instant::now();
        let status = match run(&line, events, &mut stopping).await {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => return,
            Err(error) => format!("{error:#}"),
        };
        let name = line.name.clone();
        if events.send(Event::Ended { name, status }).await.is_err() {
            return;
        }
        if since.elapsed() >= STABLE_AFTER {
            // One that ran well is missed: it starts again at once.
            wait = WAIT_FIRST;
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = asked(&mut stopping, line.is_worker) => return,
        }
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Runs it once; its status when it ended by itself, nothing when it was asked to.
async fn run(
    line: &Line,
    events: &mpsc::Sender<Event>,
    stopping: &mut watch::Receiver<Stopping>,
) -> anyhow::Result<Option<ExitStatus>> {
    let program = std::env::current_exe().context("cannot find the own program")?;
    let mut child = Command::new(program)
        .args(&line.words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C concerns the supervisor alone.
        .process_group(0)
        .spawn()
        .context("cannot start a process")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let reader =
        stdout.map(|stdout| tokio::spawn(announce(line.name.clone(), stdout, events.clone())));
    let ended = tokio::select! {
        status = child.wait() => Some(status?),
        how = asked(stopping, line.is_worker) => {
            ask(stdin, how).await;
            if !ends(&line.name, &mut child, stopping).await {
                eprintln!(
                    "xced dev: {} does not end and is killed; what ran below it goes on and is \
                     taken up at the next start",
                    line.name
                );
                child.kill().await?;
            }
            None
        }
    };
    if let Some(reader) = reader {
        reader.abort();
    }
    Ok(ended)
}

/// Waits until a child that was asked has ended, and says for whom it waits; false when it takes too
/// long, or everything is to end at once.
async fn ends(name: &str, child: &mut Process, stopping: &mut watch::Receiver<Stopping>) -> bool {
    let deadline = tokio::time::Instant::now() + END_WITHIN;
    loop {
        tokio::select! {
            ended = child.wait() => return ended.is_ok(),
            // A supervisor that is gone wants everything to end at once.
            _ = stopping.wait_for(|how| *how == Stopping::Now) => return false,
            () = tokio::time::sleep(SAY_AFTER) => {
                if tokio::time::Instant::now() >= deadline {
                    return false;
                }
                eprintln!("xced dev: waits for {name}; Ctrl-C once more kills it");
            }
        }
    }
}

async fn announce(name: String, stdout: ChildStdout, events: mpsc::Sender<Event>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(ready) = serde_json::from_str::<Ready>(&line) {
            // The supervisor that no longer listens is stopping.
            drop(
                events
                    .send(Event::Ready {
                        name: name.clone(),
                        address: ready.address,
                    })
                    .await,
            );
        }
    }
}

/// Waits until this child is to end.
async fn asked(stopping: &mut watch::Receiver<Stopping>, is_worker: bool) -> Stopping {
    let concerned = |how: &Stopping| match how {
        Stopping::No => false,
        Stopping::Workers | Stopping::WorkersWithJobs => is_worker,
        Stopping::All | Stopping::Now => true,
    };
    stopping
        .wait_for(concerned)
        .await
        .map_or(Stopping::All, |how| *how)
}

async fn ask(stdin: Option<ChildStdin>, how: Stopping) {
    let Some(mut stdin) = stdin else { return };
    if how == Stopping::WorkersWithJobs {
        // One that has just ended needs no word.
        drop(
            stdin
                .write_all(format!("{STOP_WITH_JOBS}\n").as_bytes())
                .await,
        );
        drop(stdin.flush().await);
    }
}
