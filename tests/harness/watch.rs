//! Follows a cluster by `xcecli watch`, so that waiting tests are woken by its changes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use super::cli::Cli;
use super::patience::Bell;

/// A running `xcecli watch`.
#[derive(Debug)]
pub struct Watch {
    child: Child,
    bell: Arc<Bell>,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Watch {
    /// Starts it; it connects again by itself when the controller does.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn start(cli: &Cli, keep: bool) -> Self {
        let mut command = cli.command(&["-o", "json", "watch", "--all-projects"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("xcecli starts");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let bell = Arc::<Bell>::default();
        let seen = Arc::<Mutex<Vec<Value>>>::default();
        let (ringer, list) = (Arc::clone(&bell), Arc::clone(&seen));
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if keep && let Ok(changes) = serde_json::from_str(&line) {
                    list.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(changes);
                }
                ringer.ring();
            }
        });
        Self { child, bell, seen }
    }

    /// Rings at each change.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// All changes so far, where they are kept.
    pub fn seen(&self) -> Vec<Value> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
