//! What is done with each set: printed, written, or given to a program, the newest one only.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use xce_model::Lsn;
use xce_service::view::EndpointSet;

use super::forms::Shown;
use super::{Generation, Reading};
use crate::cli::arguments::Form;
use crate::cli::failure::Failure;
use crate::cli::print::{self, talk};

/// Pause before a program that failed is tried again with the newest set, doubled each time.
/// Source: chosen; a front that was just starting is back by then.
const RETRY_FIRST: Duration = Duration::from_millis(200);
/// Longest such pause. Source: chosen; a drain is rarely longer.
const RETRY_LONGEST: Duration = Duration::from_secs(10);
/// Generations that may wait to be read from stdin. Source: chosen; far more than come at once.
const SAID_MAX: usize = 64;

/// What happened meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The program has ended.
    Done,
    /// It is time to try again.
    Again,
    /// A generation was read from stdin.
    Said(Lsn),
}

/// Does what was asked for with each set.
pub struct Front {
    shown: Shown,
    write: Option<PathBuf>,
    exec: Option<String>,
    said: Option<mpsc::Receiver<Lsn>>,
    /// The newest set that the program was not given.
    next: Option<EndpointSet>,
    running: Option<(Child, EndpointSet)>,
    retry: Option<(Instant, EndpointSet)>,
    pause: Duration,
    /// Generation of the last set that was taken in.
    last: Generation,
    /// Generation that is in use.
    used: Generation,
    /// Whether that is to be said.
    to_say: bool,
    /// Whether nobody reads what is printed.
    over: bool,
}

impl Front {
    /// A front that has seen no set yet.
    pub fn new(reading: Reading, shown: Shown) -> Self {
        Self {
            shown,
            write: reading.write,
            exec: reading.exec,
            said: reading.ack.then(said),
            next: None,
            running: None,
            retry: None,
            pause: RETRY_FIRST,
            last: None,
            used: None,
            to_say: false,
            over: false,
        }
    }

    /// How sets are shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Takes a set in; one of the generation that was last taken in only repeats what was said.
    ///
    /// # Errors
    /// When it cannot be printed or written, or the program cannot be started.
    pub fn take(&mut self, set: EndpointSet) -> Result<(), Failure> {
        if self.last == Some(set.generation) {
            self.to_say = self.used.is_some();
            return Ok(());
        }
        self.last = Some(set.generation);
        if self.exec.is_some() {
            self.next = Some(set);
            return self.start();
        }
        let text = self.shown.text(&set)?;
        if let Some(path) = &self.write {
            return replace(path, &text);
        }
        if std::io::stdout().is_terminal() && matches!(self.shown.form, Form::Table | Form::Wide) {
            // Source: ECMA-48, erase in page and cursor position.
            print::text("\x1b[2J\x1b[H")?;
        }
        self.over = !print::bytes(text.as_bytes())?;
        Ok(())
    }

    /// Starts the program with the newest set, unless it runs already.
    fn start(&mut self) -> Result<(), Failure> {
        // What comes while it runs waits: the newest set must never be left out.
        if self.running.is_some() {
            return Ok(());
        }
        let (Some(command), Some(set)) = (&self.exec, self.next.take()) else {
            return Ok(());
        };
        self.retry = None;
        let text = self.shown.text(&set)?;
        let mut program = Command::new("sh");
        program
            .args(["-c", command])
            .env("XCE_GENERATION", set.generation.to_string())
            .kill_on_drop(true);
        if let Some(path) = &self.write {
            replace(path, &text)?;
            program.stdin(Stdio::null());
        } else {
            program.stdin(Stdio::piped());
        }
        let mut child = program
            .spawn()
            .map_err(|error| Failure::Local(format!("`sh` cannot be started: {error}")))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program need not read it.
            let _writing = tokio::spawn(async move {
                drop(stdin.write_all(text.as_bytes()).await);
            });
        }
        self.running = Some((child, set));
        Ok(())
    }

    /// Waits for the program, for its next try, or for a word from stdin. May be dropped and called again.
    pub async fn step(&mut self) -> Step {
        let retry_at = self.retry.as_ref().map(|(at, _)| *at);
        let ended = {
            let program = async {
                match &mut self.running {
                    Some((child, _)) => child.wait().await,
                    None => std::future::pending().await,
                }
            };
            let due = async {
                match retry_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let word = async {
                match &mut self.said {
                    Some(said) => said.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = program => Ok(ended),
                () = due => Err(Step::Again),
                said = word => match said {
                    Some(generation) => Err(Step::Said(generation)),
                    None => {
                        // Nobody says anything any more; sets are printed on.
                        self.said = None;
                        Err(Step::Again)
                    }
                },
            }
        };
        match ended {
            Ok(status) => {
                self.ended(status);
                self.go_on();
                Step::Done
            }
            Err(step) => {
                self.go_on();
                step
            }
        }
    }

    fn ended(&mut self, status: std::io::Result<std::process::ExitStatus>) {
        let Some((_, set)) = self.running.take() else {
            return;
        };
        let text = match status {
            Ok(status) if status.success() => {
                self.used = Some(set.generation);
                self.to_say = true;
                self.pause = RETRY_FIRST;
                return;
            }
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        talk(&format!(
            "the command failed for generation {} ({text}); it is tried again",
            set.generation
        ));
        self.retry = Some((Instant::now() + self.pause, set));
        self.pause = (self.pause * 2).min(RETRY_LONGEST);
    }

    /// Starts what waits: a newer set at once, one that failed when its pause is over.
    fn go_on(&mut self) {
        if self.next.is_none()
            && let Some((at, _)) = &self.retry
            && Instant::now() >= *at
        {
            self.next = self.retry.take().map(|(_, set)| set);
        }
        if let Err(failure) = self.start() {
            talk(&failure.to_string());
        }
    }

    /// Takes a generation that was read from stdin.
    pub fn say(&mut self, generation: Lsn) {
        // A word for what was never printed would end drains that nobody has seen.
        let known = self.last.is_some_and(|last| generation <= last);
        if known {
            self.used = Some(generation);
            self.to_say = true;
        } else {
            talk(&format!("generation {generation} was not printed yet"));
        }
    }

    /// The generation that is in use, where that is to be said.
    pub fn used(&mut self) -> Generation {
        std::mem::take(&mut self.to_say)
            .then_some(self.used)
            .flatten()
    }

    /// Whether nobody reads what is printed any more.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Waits until the program has had the last set, and has ended once.
    pub async fn finish(&mut self) {
        while let Some((child, set)) = &mut self.running {
            let is_last = self.next.is_none();
            let (generation, status) = (set.generation, child.wait().await);
            self.running = None;
            if !matches!(&status, Ok(status) if status.success()) {
                talk(&format!("the command failed for generation {generation}"));
            }
            if is_last {
                return;
            }
            self.go_on();
        }
    }
}

/// Generations that come as lines on stdin.
fn said() -> mpsc::Receiver<Lsn> {
    let (sender, receiver) = mpsc::channel(SAID_MAX);
    // Reading a terminal or pipe blocks; the thread ends with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.trim().parse::<Lsn>() {
                Ok(generation) => {
                    if sender.blocking_send(generation).is_err() {
                        return;
                    }
                }
                Err(_) => {
                    let shown: String = line.chars().take(40).collect();
                    talk(&format!(
                        "`{}` is no generation; a line holds one number",
                        print::visible(&shown)
                    ));
                }
            }
        }
    });
    receiver
}

/// Puts a text in place of a file, as a whole.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let fault = |error: std::io::Error| {
        Failure::Local(format!("{} cannot be written: {error}", path.display()))
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // It may never have come to be.
        drop(std::fs::remove_file(&temporary));
    }
    written.map_err(fault)
}

#[cfg(test)]
mod tests {
    use xce_session::wire::ServiceName;

    use super::*;

    fn front(exec: String) -> Front {
        let reading = Reading {
            name: "web".to_owned(),
            watch: true,
            port: None,
            write: None,
            exec: Some(exec),
            ack: false,
        };
        let shown = Shown {
            service: ServiceName {
                project: "default".to_owned(),
                name: "web".to_owned(),
            },
            form: Form::Plain,
            port: None,
            watching: true,
        };
        Front::new(reading, shown)
    }

    fn set(generation: Lsn) -> EndpointSet {
        let mut set = EndpointSet::default();
        set.generation = generation;
        set
    }

    #[tokio::test]
    async fn what_comes_while_the_program_runs_is_given_to_it_next() {
        let dir = tempfile::TempDir::new().expect("a temporary folder");
        let seen = dir.path().join("seen");
        let mut front = front(format!("echo $XCE_GENERATION >> {}", seen.display()));
        for generation in 1..=3 {
            front.take(set(generation)).expect("sh starts");
        }
        assert_eq!(front.step().await, Step::Done);
        assert_eq!(front.used(), Some(1));
        assert_eq!(front.step().await, Step::Done);
        assert_eq!(front.used(), Some(3));
        let seen = std::fs::read_to_string(seen).expect("the program ran");
        assert_eq!(seen, "1\n3\n");
    }
}
