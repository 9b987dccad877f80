//! A full disk: the controller refuses writes, says so, keeps everything else running, and goes on
//! when there is space.

use std::fs;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::Value;
use xce_tests::Setup;
use xce_tests::harness::processes;

use super::word;

/// Size of the disk: above the log of a young cluster, below that of many large jobs.
/// Source: derived; three segments of 16 MiB.
const SMALL: &str = "size=48m,mode=700";
/// Source: chosen; room for everything.
const LARGE: &str = "size=400m,mode=700";
/// Most large jobs until the disk is full. Source: derived; 200 KiB each, four times the disk.
const JOBS_MAX: usize = 1_000;

/// A file system in memory.
struct SmallDisk<'p>(&'p Path);

impl<'p> SmallDisk<'p> {
    /// `None` where this user may not mount.
    fn new(path: &'p Path) -> Option<Self> {
        fs::create_dir_all(path).expect("the folder can be written");
        mount(
            Some("tmpfs"),
            path,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(SMALL),
        )
        .ok()?;
        Some(Self(path))
    }

    fn grow(&self) {
        mount(
            Some("tmpfs"),
            self.0,
            Some("tmpfs"),
            MsFlags::MS_REMOUNT,
            Some(LARGE),
        )
        .expect("who mounted it may change it");
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _gone = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_stops_writes_and_nothing_else() {
    let folder = tempfile::Builder::new()
        .prefix("xce-full-disk-")
        .tempdir()
        .expect("a folder");
    let path = folder.path().join("controller");
    let Some(disk) = SmallDisk::new(&path) else {
        eprintln!("not tested here: only root may mount a small disk");
        return;
    };
    let cluster = Setup::new("full-disk").broken().home(folder.path()).start();
    let cli = cluster.cli();
    let running = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&running);
    let variables = cluster.folder().join("variables");
    let half = "x".repeat(100 * 1024);
    fs::write(&variables, format!("A={half}\nB={half}\n")).expect("the folder can be written");
    let submit = [
        "--retry-for",
        "500ms",
        "jobs",
        "submit",
        "--hold",
        "--env-file",
        word(&variables),
        "--",
        "true",
    ];
    let refused = (0..JOBS_MAX)
        .map(|_| cli.run(&submit))
        .find(|answer| answer.code != 0);
    let text = refused.expect("the disk gets full").refused(5);
    assert!(text.contains("space") || text.contains("full"), "{text}");

    let status = cli.json(&["cluster", "status"]);
    let alarms = status["alarms"].to_string();
    assert!(
        alarms.contains("space") || alarms.contains("full"),
        "{status}"
    );
    assert!(processes::is_alive(pid), "jobs go on");
    assert_eq!(cli.job(&running)["state"], "RUN", "reads are answered");
    let controller = cluster.controller_pid();

    disk.grow();
    cluster.until("writes are taken again", |cli| cli.run(&submit).code == 0);
    cluster.until("the alarm is over", |cli| {
        cli.json(&["cluster", "status"])["alarms"] == Value::Array(Vec::new())
    });
    assert_eq!(
        cluster.controller_pid(),
        controller,
        "it is the same process"
    );
    assert_eq!(cluster.running(&running), pid);
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &running]);
    cluster.audit();
}
