//! The real command line, as a user or a script calls it.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::Value;

use super::patience::LONGEST;
use super::{binaries, processes, programs};

/// What a command answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The words that were given.
    pub words: String,
    /// Exit code; -1 where a signal ended it.
    pub code: i32,
    /// Results.
    pub stdout: String,
    /// Talk.
    pub stderr: String,
}

impl Answer {
    /// Requires exit code 0; gives stdout.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn good(self) -> String {
        self.code_is(0);
        self.stdout
    }

    /// Requires an exit code other than 0 and nothing on stdout; gives stderr.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn refused(self, code: i32) -> String {
        self.code_is(code);
        assert_eq!(
            self.stdout, "",
            "{}: a refusal prints no result",
            self.words
        );
        assert!(
            !self.stderr.trim().is_empty(),
            "{}: a refusal says why",
            self.words
        );
        self.stderr
    }

    /// Requires that a daemon ended with 1, soon and with a message; gives it.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn failed(self) -> String {
        self.code_is(1);
        assert!(
            !self.stderr.contains("panicked"),
            "{}: {}",
            self.words,
            self.stderr
        );
        self.stderr
    }

    /// Requires an exit code.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn code_is(&self, code: i32) {
        let Self {
            words,
            stdout,
            stderr,
            ..
        } = self;
        let shown: String = words.chars().take(300).collect();
        assert_eq!(
            self.code, code,
            "{shown}: exit code {}, stdout: {stdout}, stderr: {stderr}",
            self.code
        );
    }
}

/// Calls `xcecli` for one home.
#[derive(Debug, Clone)]
pub struct Cli {
    home: PathBuf,
    directory: PathBuf,
    variables: Vec<(String, String)>,
    entry: Vec<String>,
}

impl Cli {
    /// For a home; commands run in the root of the sources, as the README's do.
    pub fn new(home: &Path) -> Self {
        Self {
            home: home.to_path_buf(),
            directory: crate::root().to_path_buf(),
            variables: Vec::new(),
            entry: Vec::new(),
        }
    }

    /// On a host of a network, which is entered by these words.
    #[must_use]
    pub fn on(mut self, entry: Vec<String>) -> Self {
        self.entry = entry;
        self
    }

    /// With another working directory.
    #[must_use]
    pub fn inside(mut self, directory: &Path) -> Self {
        self.directory = directory.to_path_buf();
        self
    }

    /// With a variable more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command, for tests that read it while it runs.
    pub fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        let mut command = entered(&self.entry, &binaries::path("xcecli"));
        command
            .args(words)
            .current_dir(&self.directory)
            .stdin(Stdio::null());
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("XCE_")) {
            command.env_remove(name);
        }
        command
            .env("XCE_HOME", &self.home)
            .env("PATH", programs::search_path());
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn run<W: AsRef<OsStr>>(&self, words: &[W]) -> Answer {
        run(self.command(words), None)
    }

    /// Runs a command with something to read.
    #[track_caller]
    pub fn run_with_stdin<W: AsRef<OsStr>>(&self, words: &[W], stdin: &str) -> Answer {
        run(self.command(words), Some(stdin.to_owned()))
    }

    /// Requires success; gives stdout.
    #[track_caller]
    pub fn good(&self, words: &[&str]) -> String {
        self.run(words).good()
    }

    /// Requires success; gives the JSON that was printed.
    ///
    /// # Panics
    /// When it is no JSON.
    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        let all: Vec<&str> = ["-o", "json"]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        let text = self.run(&all).good();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error} in {text}"))
    }

    /// One service.
    #[track_caller]
    pub fn service(&self, name: &str) -> Value {
        self.json(&["services", "show", name])
    }

    /// One job.
    #[track_caller]
    pub fn job(&self, id: &str) -> Value {
        self.json(&["jobs", "show", id])
    }

    /// Submits a job; gives its id.
    ///
    /// # Panics
    /// When something else than one id is printed.
    #[track_caller]
    pub fn submit(&self, words: &[&str]) -> String {
        let all: Vec<&str> = ["-o", "name", "jobs", "submit"]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        let text = self.run(&all).good();
        let id = text.strip_suffix('\n').unwrap_or(&text);
        assert!(
            !id.is_empty() && !id.contains(char::is_whitespace),
            "no id alone: {text:?}"
        );
        id.to_owned()
    }
}

/// A program that is started by other words, where there are any.
pub fn entered(entry: &[String], program: &Path) -> Command {
    let Some((first, rest)) = entry.split_first() else {
        return Command::new(program);
    };
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// Runs a command to its end, with bounded patience.
///
/// # Panics
/// When it cannot be started or does not end.
#[track_caller]
pub fn run(mut command: Command, stdin: Option<String>) -> Answer {
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words = words.join(" ");
    if stdin.is_some() {
        command.stdin(Stdio::piped());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // Whoever reads may end before it has read everything.
        thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    }
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let pid = child.id();
    let (ended, status) = mpsc::channel();
    thread::spawn(move || drop(ended.send(child.wait())));
    let Ok(status) = status.recv_timeout(LONGEST * 2) else {
        processes::kill_hard(pid);
        panic!("does not end: {words}");
    };
    let code = status
        .expect("a child can be waited for")
        .code()
        .unwrap_or(-1);
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Answer {
        words,
        code,
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            drop(pipe.read_to_end(&mut bytes));
        }
        bytes
    })
}
