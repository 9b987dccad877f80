//! How a daemon learns that it has to stop: a signal, or the end of its supervisor.

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

/// Why a daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was asked to: jobs go on without it.
    Asked,
    /// It was asked to stop its jobs as well.
    AskedWithJobs,
}

/// The word by which a supervisor asks a worker to stop its jobs as well.
pub const STOP_WITH_JOBS: &str = "stop-with-jobs";

/// Waits for SIGTERM, SIGINT or, with `supervised`, for a word or the end of standard input.
pub async fn wait(supervised: bool) -> std::io::Result<Stop> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(Stop::Asked),
        _ = interrupt.recv() => Ok(Stop::Asked),
        stop = supervisor(), if supervised => Ok(stop),
    }
}

async fn supervisor() -> Stop {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    match lines.next_line().await {
        Ok(Some(line)) if line.trim() == STOP_WITH_JOBS => Stop::AskedWithJobs,
        Ok(Some(_) | None) | Err(_) => Stop::Asked,
    }
}

/// What a supervised daemon prints when it is ready, as one line of JSON.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Ready {
    /// Address that it listens on, where it does.
    pub address: Option<std::net::SocketAddr>,
}

impl Ready {
    /// Prints the line.
    pub fn announce(&self) {
        if let Ok(line) = serde_json::to_string(self) {
            println!("{line}");
        }
    }
}
