//! Writes the golden files of this program's version from a real cluster.

use std::path::Path;
use std::sync::Once;

use xce_backup::{Backup, Head};
use xce_ledger::Ledger;
use xce_tests::harness::patience;
use xce_tests::harness::three::Three;
use xce_wal::WalConfig;

use super::expected::summary;
use super::{VERSION, files, folder, frames, word};

const WEB: &str = r#"name = "web"
project = "shop"
profile = "site"
replicas = 2
command = ["sleep", "100000"]
resources = { cpus = 0.01, memory = "16MiB" }
env = { LEVEL = "info" }
labels = { team = "blue" }
rollout = { max_surge = 1, max_unavailable = 0, min_ready = "100ms" }
stop = { grace = "1s" }

[[ports]]
name = "http"

[probes.readiness]
exec = { command = ["true"] }
period = "1s"
"#;

const PROFILE: &str = "name = \"site\"\nkind = \"service\"\n[service]\nqueue = \"fast\"\n";
const QUEUE: &str = "name = \"fast\"\npriority = 7\n";

/// Writes all of them, once in a process.
pub fn once() {
    static WRITTEN: Once = Once::new();
    WRITTEN.call_once(write);
}

fn write() {
    let folder = folder(VERSION);
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(folder.join("config")).expect("the sources can be written");
    frames::write(&folder);
    configs(&folder);
    let mut one = Three::one_with("golden", &["snapshot.every_entries=100"]);
    fill(&one, &folder);
    let backup = one.folder().join("backup");
    one.cli().good(&["cluster", "backup", word(&backup)]);
    spool(&mut one, &folder);
    one.stop("c1");
    without_secret(&backup, &folder.join("backup"));
    state(&one.home("c1").join("controller"), &folder);
}

/// Something of everything.
fn fill(one: &Three, folder: &Path) {
    let cli = one.cli();
    let file = |name: &str, text: &str| {
        let path = one.folder().join(name);
        std::fs::write(&path, text).expect("the folder can be written");
        path
    };
    cli.good(&["queues", "create", word(&file("queue.toml", QUEUE))]);
    cli.good(&["profiles", "create", word(&file("profile.toml", PROFILE))]);
    let web = folder.join("config/web.toml");
    cli.good(&["services", "create", word(&web), "--wait"]);
    cli.good(&[
        "services",
        "scale",
        "web",
        "3",
        "--project",
        "shop",
        "--wait",
    ]);
    let changed = WEB.replace("info", "debug");
    cli.good(&[
        "services",
        "update",
        word(&file("web.toml", &changed)),
        "--take-count",
        "--wait",
    ]);
    let small = ["-m", "16MiB", "-c", "0.01"];
    let submit = |words: &[&str]| cli.submit(&[&small[..], words].concat());
    for _ in 0..60 {
        submit(&["--", "true"]);
    }
    let failed = submit(&["--", "false"]);
    submit(&["--array", "1-5", "--", "true"]);
    submit(&["--hold", "--", "true"]);
    let killed = submit(&["--", "sleep", "100000"]);
    submit(&["--", "sleep", "100000"]);
    patience::until("a job ended badly", || cli.job(&failed)["state"] == "EXIT");
    patience::until("a job runs", || cli.job(&killed)["state"] == "RUN");
    cli.good(&["jobs", "kill", &killed, "--wait"]);
    cli.good(&["hosts", "close", "h1", "--reason", "golden"]);
    cli.good(&["audit"]);
}

/// Ends that nobody has heard of yet lie in the spool of a worker without a controller.
fn spool(one: &mut Three, folder: &Path) {
    let host = one.home("workers").join("h1");
    one.stop("c1");
    let processes = xce_tests::harness::processes::of_folder(one.folder());
    for process in processes.iter().filter(|one| one.line.starts_with("sleep")) {
        xce_tests::harness::processes::kill_hard(process.pid);
    }
    let path = host.join("spool");
    patience::until("facts wait in the spool", || {
        std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 200)
    });
    one.kill("h1");
    std::fs::copy(&path, folder.join("spool")).expect("the sources can be written");
    let text = files::facts_of(&path).join("\n") + "\n";
    std::fs::write(folder.join("spool.txt"), text).expect("the sources can be written");
    one.up("c1");
}

fn configs(folder: &Path) {
    let config = folder.join("config");
    std::fs::write(config.join("web.toml"), WEB).expect("the sources can be written");
    let references = xce_tests::root().join("config/reference");
    for name in ["controller.toml", "worker.toml", "client.toml"] {
        let copied = std::fs::copy(references.join(name), config.join(name));
        copied.expect("the sources can be written");
    }
}

fn without_secret(from: &Path, to: &Path) {
    let bytes = std::fs::read(from).expect("it was written");
    let backup = Backup::open(from).expect("it is good");
    let journal = backup.head().encode().len();
    let head = Head {
        certificate: "no certificate".to_owned(),
        key: "no key".to_owned(),
        ..backup.head().clone()
    };
    let whole = [&head.encode()[..], &bytes[journal..]].concat();
    std::fs::write(to, whole).expect("the sources can be written");
}

/// Copies log and snapshots; the zeros at the end of segments are cut off.
fn state(from: &Path, folder: &Path) {
    let to = folder.join("state");
    for part in ["log", "snapshots"] {
        std::fs::create_dir_all(to.join(part)).expect("the sources can be written");
        for file in std::fs::read_dir(from.join(part)).expect("it is there") {
            let file = file.expect("it is there");
            let mut bytes = std::fs::read(file.path()).expect("it is there");
            if part == "log" {
                let end = bytes
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |at| at + 1);
                bytes.truncate(end);
            }
            if !bytes.is_empty() {
                let target = to.join(part).join(file.file_name());
                std::fs::write(target, bytes).expect("the sources can be written");
            }
        }
    }
    std::fs::copy(from.join("IDENTITY"), to.join("IDENTITY")).expect("the sources can be written");
    let text = std::fs::read_to_string(from.join("IDENTITY")).expect("it is there");
    let cluster = text.lines().find_map(|line| line.strip_prefix("cluster "));
    let cluster: xce_model::ClusterId = cluster.expect("a cluster").parse().expect("an id");
    let config = WalConfig::new(from, cluster.0, 1);
    let remains = xce_wal::remains_of(&config, Ledger::new(Box::new(|_, _| {})));
    let view = remains.expect("it is good").machine.view().clone();
    let text = serde_json::to_string_pretty(&summary(&view)).expect("plain data");
    std::fs::write(folder.join("expected.json"), text + "\n").expect("the sources can be written");
}
