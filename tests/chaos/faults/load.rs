//! Jobs that are submitted all the time, each of which adds a line to a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xce_tests::harness::cli::Cli;
use xce_tests::harness::patience;

use super::site::Site;

/// Threads that submit. Source: chosen; the machine has other work too.
const WRITERS: usize = 2;
/// Pause of a writer between two jobs. Source: chosen; some jobs a second.
const PAUSE: Duration = Duration::from_millis(200);

/// What was submitted: names of jobs, each the line that it writes.
#[derive(Debug, Default)]
pub struct Submitted {
    /// Acknowledged ones, with their ids.
    pub acknowledged: BTreeMap<String, String>,
    /// Those of which nobody said whether they were taken, and what was said.
    pub unknown: BTreeMap<String, String>,
}

/// A running load; ends with it.
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
    submitted: Arc<Mutex<Submitted>>,
    /// The file with a line for each run.
    file: PathBuf,
}

impl Load {
    /// Begins to submit.
    pub fn start(site: &Site) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let submitted = Arc::<Mutex<Submitted>>::default();
        let file = site.file("ran");
        let writers = (0..WRITERS).map(|writer| {
            let (cli, stop) = (site.cli(), Arc::clone(&stop));
            let (submitted, file) = (Arc::clone(&submitted), file.clone());
            thread::spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    submit(&cli, &format!("{writer}-{number}"), &file, &submitted);
                    number += 1;
                    thread::sleep(PAUSE);
                }
            })
        });
        let writers = writers.collect();
        Self {
            stop,
            writers,
            submitted,
            file,
        }
    }

    /// How many are acknowledged.
    pub fn acknowledged(&self) -> usize {
        let submitted = self.submitted.lock();
        let submitted = submitted.unwrap_or_else(PoisonError::into_inner);
        submitted.acknowledged.len()
    }

    /// Waits until so many more are acknowledged.
    ///
    /// # Panics
    /// When that does not come.
    pub fn more(&self, count: usize) {
        let before = self.acknowledged();
        patience::until("jobs are acknowledged", || {
            self.acknowledged() >= before + count
        });
    }

    /// Ends it, and gives what was submitted and the file with a line for each run.
    pub fn finish(mut self) -> (Submitted, PathBuf) {
        self.end();
        let mut submitted = self.submitted.lock();
        let submitted = submitted
            .as_deref_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        (submitted, self.file.clone())
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers.drain(..) {
            // A panic of it was printed, and its jobs are missing then.
            drop(writer.join());
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

fn submit(cli: &Cli, name: &str, file: &Path, submitted: &Mutex<Submitted>) {
    let script = format!("echo {name} >> {}", file.display());
    let words = ["--retry-for", "60s", "-o", "name", "jobs", "submit"];
    let more = ["--token", name, "-c", "0.01", "-m", "16MiB", "--"];
    let command = ["sh", "-c", &script];
    let answer = cli.run(&[&words[..], &more, &command].concat());
    let mut submitted = submitted.lock().unwrap_or_else(PoisonError::into_inner);
    if answer.code == 0 {
        let id = answer.stdout.trim().to_owned();
        submitted.acknowledged.insert(name.to_owned(), id);
    } else {
        submitted.unknown.insert(name.to_owned(), answer.stderr);
    }
}
