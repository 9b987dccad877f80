//! Starts shims on temporary run directories and reads what they say.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicU32, Ordering};

use xce_shim::{Control, Event, ExitRecord, RunRecord, RunState, Spec, inspect, machine, spawn};

pub const SHIM: &str = env!("CARGO_BIN_EXE_xce-shim");

/// A run directory and, once started, its shim.
pub struct Run {
    pub dir: PathBuf,
    pub child: Child,
    pub said: BufReader<ChildStdout>,
    _temporary: tempfile::TempDir,
}

/// With and without a control group; where none can be made, twice without.
pub fn both_ways() -> [Option<String>; 2] {
    [None, Some(format!("xce-shim-test/{}", unique()))]
}

/// A name that no other test, also of another process, uses.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

pub fn shell(script: &str) -> Spec {
    program(&["/bin/sh", "-c", script])
}

pub fn program(argv: &[&str]) -> Spec {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut spec = Spec::new(&unique(), argv, "/");
    spec.env
        .push(("PATH".to_owned(), "/usr/bin:/bin".to_owned()));
    spec
}

/// A run directory with two pipes: the job says it is `up`, and waits to be told to `go`.
pub fn prepare() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().to_path_buf();
    for name in ["up", "go"] {
        let made = std::process::Command::new("mkfifo")
            .arg(dir.join(name))
            .status()
            .unwrap();
        assert!(made.success());
    }
    (temporary, dir)
}

pub fn start(mut spec: Spec) -> Run {
    let (temporary, dir) = prepare();
    spec.env
        .push(("D".to_owned(), dir.to_str().unwrap().to_owned()));
    spec.store(&dir).unwrap();
    let (child, said) = start_in(&dir);
    Run {
        dir,
        child,
        said,
        _temporary: temporary,
    }
}

pub fn start_in(dir: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = spawn(Path::new(SHIM), dir).unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (child, said)
}

pub fn next_event(said: &mut BufReader<ChildStdout>) -> Option<Event> {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    Event::parse(line.trim_end())
}

// A test that fails leaves nothing running.
impl Drop for Run {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = xce_shim::reclaim(&self.dir);
        }
    }
}

impl Run {
    pub fn started(&mut self) -> RunRecord {
        match next_event(&mut self.said) {
            Some(Event::Started(run)) => run,
            other => panic!("expected a start, got {other:?}"),
        }
    }

    /// Waits until the job says something on its pipe, and returns it.
    pub fn up(&self) -> String {
        fs::read_to_string(self.dir.join("up"))
            .unwrap()
            .trim()
            .to_owned()
    }

    pub fn go(&self) {
        fs::write(self.dir.join("go"), "go\n").unwrap();
    }

    pub fn control(&self) -> Control {
        Control::connect(&self.dir).unwrap()
    }

    /// Waits for the end and checks that every way to learn of it says the same.
    pub fn end(&mut self) -> ExitRecord {
        let exit = loop {
            match next_event(&mut self.said) {
                Some(Event::Exit(exit)) => break exit,
                Some(Event::Started(_)) => {}
                other => panic!("expected an exit, got {other:?}"),
            }
        };
        assert!(self.child.wait().unwrap().success());
        assert_eq!(inspect(&self.dir).unwrap(), RunState::Exited(exit.clone()));
        if let Ok(run) = RunRecord::load(&self.dir) {
            assert_eq!(run.nonce, exit.nonce);
            assert!(
                run.cgroups.iter().all(|group| !Path::new(group).exists()),
                "group left"
            );
        }
        exit
    }
}

/// Whether the process is gone or dead.
pub fn is_gone(pid: i32) -> bool {
    machine::process_stat(pid).is_none_or(|stat| !stat.is_alive())
}

pub fn pids(text: &str) -> Vec<i32> {
    text.split_ascii_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}
