//! Each daemon started alone, as a machine's own supervisor does.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use xce_tests::harness::{binaries, patience, processes, programs};
use xce_tests::{Cluster, Setup};

/// Rounds of a kill while a submission is on its way. Source: chosen; kills at many moments, in
/// half a minute.
const ROUNDS: u32 = 20;

/// A daemon that is killed at the end.
struct Daemon(Child);

impl Daemon {
    fn start(cluster: &Cluster, role: &str, settings: &[String]) -> Self {
        let log = File::options()
            .append(true)
            .open(cluster.log())
            .expect("the log is there");
        let mut command = Command::new(binaries::path("xced"));
        command.arg(role).arg("--home").arg(cluster.home());
        for setting in settings {
            command.args(["--set", setting]);
        }
        command
            .env("PATH", programs::search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self(command.stderr(log).spawn().expect("xced starts"))
    }

    fn controller(cluster: &Cluster) -> Self {
        Self::start(
            cluster,
            "controller",
            &[format!("listen={}", cluster.address())],
        )
    }

    fn worker(cluster: &Cluster) -> Self {
        Self::start(
            cluster,
            "worker",
            &[
                "name=w1".into(),
                format!("controllers={}", cluster.address()),
            ],
        )
    }

    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_submission_survives_a_kill_at_any_moment() {
    let mut cluster = Setup::new("alone").broken().workers(1).start();
    let cli = cluster.cli();
    assert!(cluster.stop().success());
    let mut controller = Daemon::controller(&cluster);
    let worker = Daemon::worker(&cluster);
    let mut ids = Vec::new();
    for round in 0..ROUNDS {
        let mut submit =
            cli.command(&["-o", "name", "jobs", "submit", "-m", "16MiB", "--", "true"]);
        let child = submit
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("xcecli starts");
        // The moment of the kill wanders over the life of the request.
        let wait = round * 2;
        let begin = std::time::Instant::now();
        patience::until("the moment comes", || {
            begin.elapsed().as_millis() >= u128::from(wait)
        });
        controller.kill();
        controller = Daemon::controller(&cluster);
        let output = child.wait_with_output().expect("xcecli ends");
        assert!(output.status.success(), "round {round}: {}", output.status);
        ids.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    for id in &ids {
        let ended = || cli.job(id)["terminal"] == true;
        patience::until(&format!("job {id} has ended"), ended);
        assert_eq!(cli.job(id)["state"], "DONE");
    }
    let all = cli.json(&["jobs", "list", "--all"]);
    assert_eq!(
        all.as_array().map(Vec::len),
        Some(ids.len()),
        "each once, and no other: {all}"
    );
    cli.good(&["audit"]);
    let pid = worker.0.id();
    worker.kill();
    assert!(!processes::is_alive(pid));
}
