//! Beginning anew: backups, restores, what is left alone after one, and one controller of three.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use xce_tests::harness::cli::{self, Answer};
use xce_tests::harness::three::Three;
use xce_tests::harness::{binaries, patience, processes};

use super::{identities, idle_service, rows, word};

fn xced(words: &[&str]) -> Answer {
    let mut command = Command::new(binaries::path("xced"));
    command.args(words);
    cli::run(command, None)
}

fn is_alive(pid: u64) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn running(three: &Three, job: &str) -> u64 {
    let mut pid = 0;
    patience::until(&format!("job {job} runs"), || {
        let shown = three.cli().job(job);
        pid = shown["pid"].as_u64().unwrap_or(0);
        shown["state"] == "RUN" && pid > 0
    });
    pid
}

fn number(job: &str) -> u64 {
    job.parse().expect("a job has a number")
}

#[test]
fn after_a_restore_runs_of_the_lost_time_are_left_alone_and_shown() {
    let mut three = Three::one("restore");
    let listen = three.address("c1");
    let file = idle_service(three.folder(), "web", 2);
    three
        .cli()
        .good(&["services", "create", word(&file), "--wait"]);
    let known = three
        .cli()
        .submit(&["-c", "0.1", "-m", "16MiB", "--", "sleep", "100000"]);
    let known_pid = running(&three, &known);
    let before = identities(&three.steady("web", 2));
    let backup = three.folder().join("backup");
    let said = three.cli().good(&["cluster", "backup", word(&backup)]);
    assert!(said.contains("1 services, 3 jobs, 1 hosts"), "{said}");
    assert!(said.contains("verified"), "{said}");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&backup)
        .expect("it is there")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let again = three.cli().run(&["cluster", "backup", word(&backup)]);
    assert!(again.refused(1).contains("exists already"));
    // The time that will be lost.
    let lost = three
        .cli()
        .submit(&["-c", "0.5", "-m", "32MiB", "--", "sleep", "100000"]);
    let lost_pid = running(&three, &lost);
    let ended = three
        .cli()
        .submit(&["-c", "0.01", "-m", "16MiB", "--", "true"]);
    patience::until("a job ended in the lost time", || {
        three.cli().job(&ended)["state"] == "DONE"
    });
    three.kill("c1");
    refuses_what_it_must_not_restore(&three, &backup);
    std::fs::remove_dir_all(three.home("c1")).expect("its home is there");
    let home = three.home("c1");
    let words = [
        "restore",
        word(&backup),
        "--home",
        word(&home),
        "--listen",
        &listen,
    ];
    let said = xced(&words).good();
    assert!(said.contains("begins anew, epoch 2"), "{said}");
    assert!(said.contains("start its controller c201"), "{said}");
    three.up("c1");
    // It would notice by itself, some seconds later.
    three.kill("h1");
    three.up("h1");
    is_shown(&three, &lost);
    // What was known is judged as ever, and what was not is left alone.
    assert!(is_alive(lost_pid) && is_alive(known_pid));
    assert_eq!(running(&three, &known), known_pid);
    assert_eq!(identities(&three.steady("web", 2)), before);
    assert_eq!(three.cli().run(&["jobs", "show", &lost]).code, 3);
    goes_on(&three, &ended, &known);
    is_stopped_by_command(&mut three, &lost, lost_pid);
    three.cli().good(&["audit"]);
}

/// The run is listed, counts as used, and is an alarm.
fn is_shown(three: &Three, lost: &str) {
    let cli = three.cli();
    let mut listed = Value::Null;
    patience::until("the run of the lost time is shown", || {
        listed = cli.json(&["jobs", "quarantine", "list"]);
        listed.as_array().is_some_and(|rows| rows.len() == 1)
    });
    let stranger = &listed[0];
    let place = (stranger["job"].as_str(), stranger["host"].as_str());
    assert_eq!(place, (Some(lost), Some("h1")));
    assert_eq!(stranger["name"], "sleep", "{stranger}");
    let host = cli.json(&["hosts", "show", "h1"]);
    assert_eq!(host["cpus_used"], "0.62", "0.1, 2 of 0.01, and 0.5: {host}");
    let status = cli.json(&["cluster", "status"]);
    let epoch = (&status["epoch"], &status["primary"]);
    assert_eq!(epoch, (&2.into(), &"c201".into()));
    assert_eq!(status["quarantined"], 1);
    let told = |alarm: &Value| {
        let text = alarm.as_str();
        text.is_some_and(|text| text.contains("jobs quarantine list"))
    };
    assert!(rows(&status, "alarms").iter().any(told));
}

/// No number is given twice, and what the worker says goes on to count.
fn goes_on(three: &Three, ended: &str, known: &str) {
    let cli = three.cli();
    let next = cli.submit(&["-c", "0.01", "-m", "16MiB", "--", "true"]);
    assert!(number(&next) > number(ended) + 1000, "{next} after {ended}");
    patience::until("a job ends after the restore", || {
        cli.job(&next)["state"] == "DONE"
    });
    cli.good(&["jobs", "kill", known]);
    patience::until("a known job ends", || cli.job(known)["state"] == "EXIT");
}

/// It outlives other starts of the controller and its worker, and ends when it is told to.
fn is_stopped_by_command(three: &mut Three, lost: &str, pid: u64) {
    for name in ["h1", "c1"] {
        three.kill(name);
    }
    for name in ["c1", "h1"] {
        three.up(name);
    }
    three.wait_for_host("h1");
    let listed = three.cli().json(&["jobs", "quarantine", "list"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert!(is_alive(pid));
    three.cli().good(&["jobs", "quarantine", "stop", lost]);
    patience::until("the run of the lost time is gone", || {
        let listed = three.cli().json(&["jobs", "quarantine", "list"]);
        listed == Value::Array(Vec::new()) && !is_alive(pid)
    });
    let gone = three.cli().run(&["jobs", "quarantine", "stop", lost]);
    assert_eq!(gone.code, 3, "{gone:?}");
}

/// A backup that is damaged, and a directory that holds something.
fn refuses_what_it_must_not_restore(three: &Three, backup: &Path) {
    let used = three.home("c1");
    let answer = xced(&["restore", word(backup), "--home", word(&used)]);
    assert!(answer.failed().contains("is not empty, it holds"));
    let mut bytes = std::fs::read(backup).expect("it is there");
    let place = bytes.len() - 100;
    bytes[place] ^= 1;
    let damaged = three.folder().join("damaged");
    std::fs::write(&damaged, &bytes).expect("the folder can be written");
    let home = three.folder().join("nowhere");
    let text = xced(&["restore", word(&damaged), "--home", word(&home)]).failed();
    assert!(
        text.contains("damaged") && text.contains("at offset"),
        "{text}"
    );
    assert!(!home.exists(), "nothing is written before all is read");
}

#[test]
fn one_controller_of_three_begins_anew_and_the_others_never_come_back() {
    let mut three = Three::start("force");
    let file = idle_service(three.folder(), "web", 2);
    three
        .cli()
        .good(&["services", "create", word(&file), "--wait"]);
    let before = identities(&three.steady("web", 2));
    let primary = three.primary();
    let survivor = if primary == "c2" { "c3" } else { "c2" };
    let lost: Vec<&str> = ["c1", "c2", "c3"]
        .into_iter()
        .filter(|name| *name != survivor)
        .collect();
    for name in &lost {
        three.kill(name);
    }
    // Nothing can be changed, and it is said why.
    let words = ["--retry-for", "1s", "cluster", "status"];
    patience::until("it is said that nobody leads", || {
        let answer = three.cli().run(&words);
        let said = answer.stderr.contains("knows of no primary now: 2 of");
        assert_eq!(answer.code, 5, "{answer:?}");
        said
    });
    let home = three.home(survivor);
    let force = ["force-new", "--home", word(&home)];
    let text = xced(&force).failed();
    assert!(text.contains("in use by another process"), "{text}");
    three.kill(survivor);
    let answer = xced(&force);
    assert!(
        answer.stdout.contains("can never take part again"),
        "{answer:?}"
    );
    assert!(answer.failed().contains("--confirm-loss"));
    let said = xced(&[&force[..], &["--confirm-loss"]].concat()).good();
    assert!(said.contains("is the cluster now, epoch 2"), "{said}");
    three.up(survivor);
    assert_eq!(three.primary(), survivor);
    for host in ["h1", "h2"] {
        three.wait_for_host(host);
    }
    assert_eq!(identities(&three.steady("web", 2)), before);
    let audit = three.cli().json(&["cluster", "status"]);
    assert_eq!((&audit["epoch"], &audit["voters"]), (&2.into(), &1.into()));
    // Those that were lost are told so, and end.
    for name in &lost {
        three.up(name);
    }
    for name in &lost {
        assert_eq!(three.wait_for_end(name), Some(1), "{}", three.log(name));
        let log = three.log(name);
        assert!(log.contains("belongs to the time before epoch 2"), "{log}");
    }
    assert_eq!(three.primary(), survivor);
    let token = three.cli().good(&["cluster", "add"]);
    assert!(token.starts_with("xce-join-"), "{token}");
    three
        .cli()
        .submit(&["-c", "0.01", "-m", "16MiB", "--", "true"]);
    three.cli().good(&["audit"]);
    assert!(processes::of_folder(three.folder()).len() > 2);
}
