//! Three controllers on one machine, each with its own state; workers and users that know all three.

use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use xce_tests::harness::cli::{self, Answer, Cli};
use xce_tests::harness::{binaries, patience, processes, programs};

use super::{identities, idle_service, service, word};

/// A daemon of the cluster, down or running.
struct Daemon {
    name: String,
    words: Vec<String>,
    child: Option<Child>,
}

/// A cluster of three controllers and two workers.
struct Three {
    folder: PathBuf,
    daemons: Vec<Daemon>,
}

impl Three {
    fn start(name: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("xce-{name}-"))
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let mut three = Self {
            folder,
            daemons: Vec::new(),
        };
        let listen = free_port();
        three.xced(&["init", "--listen", &listen], "c1").good();
        three.controller("c1");
        for name in ["c2", "c3"] {
            three.add_controller(name);
        }
        let user = three.invite("c1", &["--user", "root"]);
        three.xced(&["join", &user], "user").good();
        for host in ["h1", "h2"] {
            three.add_worker(host);
        }
        patience::until("all hosts are up", || {
            let hosts = three.cli().json(&["hosts", "list"]);
            let up = |host: &Value| host["state"] == "up";
            hosts
                .as_array()
                .is_some_and(|hosts| hosts.len() == 2 && hosts.iter().all(up))
        });
        three
    }

    fn home(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The user's command line, which knows all controllers.
    fn cli(&self) -> Cli {
        Cli::new(&self.home("user"))
    }

    fn xced(&self, words: &[&str], home: &str) -> Answer {
        let mut command = Command::new(binaries::path("xced"));
        command.args(words).arg("--home").arg(self.home(home));
        cli::run(command, None)
    }

    fn invite(&self, by: &str, whom: &[&str]) -> String {
        let words: Vec<&str> = ["cluster", "invite"].iter().chain(whom).copied().collect();
        Cli::new(&self.home(by)).good(&words).trim().to_owned()
    }

    fn add_controller(&mut self, name: &str) {
        let token = self.invite("c1", &["--controller"]);
        let listen = free_port();
        self.xced(&["join", &token, "--listen", &listen], name)
            .good();
        self.controller(name);
        let has_a_vote = || {
            let members = Cli::new(&self.home("c1")).json(&["cluster", "members"]);
            let members = members.as_array().cloned().unwrap_or_default();
            members
                .iter()
                .any(|member| member["name"] == name && member["role"] == "standby")
        };
        patience::until(&format!("{name} has a vote"), has_a_vote);
    }

    fn controller(&mut self, name: &str) {
        let home = self.home(name);
        let config = home.join("controller.toml");
        let words = [
            "controller",
            "--home",
            word(&home),
            "--config",
            word(&config),
        ];
        let more = ["--set", "beat=500ms", "--set", "host_grace=5s"];
        let words = words.iter().chain(&more);
        self.daemons.push(Daemon {
            name: name.to_owned(),
            words: words.map(|word| (*word).to_owned()).collect(),
            child: None,
        });
        self.up(name);
    }

    fn add_worker(&mut self, host: &str) {
        let token = self.invite("c1", &["--worker", host]);
        self.xced(&["join", &token], "workers").good();
        let home = self.home("workers");
        let state = home.join(host);
        let addresses: Vec<String> = ["c1", "c2", "c3"]
            .iter()
            .map(|name| address_of(&self.home(name)))
            .collect();
        let settings = [
            format!("name={host}"),
            format!("state_dir={}", state.display()),
            format!("identity_dir={}", state.join("identity").display()),
            format!("controllers={}", addresses.join(",")),
            "log.level=warn".to_owned(),
        ];
        let mut words = vec!["worker".to_owned(), "--home".to_owned()];
        words.push(home.display().to_string());
        for setting in settings {
            words.extend(["--set".to_owned(), setting]);
        }
        self.daemons.push(Daemon {
            name: host.to_owned(),
            words,
            child: None,
        });
        self.up(host);
    }

    fn daemon(&mut self, name: &str) -> &mut Daemon {
        let found = self.daemons.iter_mut().find(|daemon| daemon.name == name);
        found.expect("a daemon of that name")
    }

    fn up(&mut self, name: &str) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{name}.log")))
            .expect("the log can be written");
        let daemon = self.daemon(name);
        let mut command = Command::new(binaries::path("xced"));
        command
            .args(&daemon.words)
            .env("PATH", programs::search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        daemon.child = Some(command.spawn().expect("xced starts"));
    }

    fn kill(&mut self, name: &str) {
        if let Some(mut child) = self.daemon(name).child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// The name of the one that leads, when it has been seen to.
    fn primary(&self) -> String {
        let mut found = String::new();
        patience::until("somebody leads", || {
            let members = self.cli().run(&["-o", "json", "cluster", "members"]);
            let members: Value = serde_json::from_str(&members.stdout).unwrap_or_default();
            let members = members.as_array().cloned().unwrap_or_default();
            let primary = members.iter().find(|member| member["role"] == "primary");
            found = primary
                .and_then(|member| member["name"].as_str())
                .unwrap_or_default()
                .to_owned();
            !found.is_empty()
        });
        found
    }

    fn steady(&self, name: &str, replicas: u64) -> Value {
        let mut service = Value::Null;
        patience::until(&format!("{name} is steady"), || {
            service = self.cli().service(name);
            service["condition"] == "steady" && service["available"] == replicas
        });
        service
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        let names: Vec<String> = self.daemons.iter().map(|one| one.name.clone()).collect();
        if std::thread::panicking() {
            for name in &names {
                let log = std::fs::read_to_string(self.folder.join(format!("{name}.log")));
                eprintln!("--- {name}\n{}", log.unwrap_or_default());
            }
        }
        names.iter().for_each(|name| self.kill(name));
        for process in processes::of_folder(&self.folder) {
            processes::kill_hard(process.pid);
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn free_port() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("its address").to_string()
}

/// Where the controller of a home listens, as its settings say.
fn address_of(home: &Path) -> String {
    let text = std::fs::read_to_string(home.join("controller.toml")).expect("its settings");
    let line = text.lines().find_map(|line| line.strip_prefix("listen = "));
    line.expect("an address").trim_matches('"').to_owned()
}

#[test]
fn services_and_jobs_outlive_each_controller_in_turn() {
    let mut three = Three::start("outlive");
    let file = idle_service(&three.folder, "web", 3);
    three
        .cli()
        .good(&["services", "create", word(&file), "--wait"]);
    let before = identities(&three.steady("web", 3));
    let mut jobs = Vec::new();
    for round in 0..3 {
        let primary = three.primary();
        three.kill(&primary);
        // The same command reaches whoever leads next.
        jobs.push(three.cli().submit(&["-m", "16MiB", "--", "true"]));
        assert_ne!(three.primary(), primary, "round {round}");
        assert_eq!(identities(&three.steady("web", 3)), before, "round {round}");
        three.up(&primary);
    }
    for job in &jobs {
        patience::until(&format!("job {job} has ended"), || {
            three.cli().job(job)["state"] == "DONE"
        });
    }
    three.cli().good(&["audit"]);
}

#[test]
fn the_leadership_is_handed_over_and_controllers_come_and_go() {
    let mut three = Three::start("members");
    let first = three.primary();
    let next = if first == "c2" { "c3" } else { "c2" };
    three.cli().good(&["cluster", "transfer-leader", next]);
    assert_eq!(three.primary(), next);
    let refused = three.cli().run(&["cluster", "remove", next]).refused(1);
    assert!(refused.contains("is the primary"), "{refused}");
    let refused = three.cli().run(&["cluster", "remove", "c9"]).refused(1);
    assert!(refused.contains("there is no controller 9"), "{refused}");
    let gone = ["c1", "c2", "c3"]
        .into_iter()
        .find(|name| *name != next && *name != "c1");
    let gone = gone.expect("three names");
    three.cli().good(&["cluster", "remove", gone]);
    three.kill(gone);
    // Its number is never given again.
    three.add_controller("c4");
    three.cli().submit(&["-m", "16MiB", "--", "true"]);
    let damaged = three.xced(&["join", "xce-join-1.AAAA", "--listen", "127.0.0.1:1"], "x");
    assert!(damaged.failed().contains("damaged"));
    // An empty state directory founds nothing by itself.
    let home = three.home("c1");
    three.kill("c1");
    std::fs::rename(home.join("controller/log"), home.join("log")).expect("the log is there");
    std::fs::remove_file(home.join("controller/IDENTITY")).expect("the file is there");
    let config = home.join("controller.toml");
    let answer = three
        .xced(&["controller", "--config", word(&config)], "c1")
        .failed();
    assert!(answer.contains("holds no state"), "{answer}");
}

#[test]
fn a_rolling_update_goes_on_under_another_primary() {
    let mut three = Three::start("update");
    let sleeper = r#"["sh", "-c", "sleep 1; touch ready; exec sleep 100000"]"#;
    let more = "rollout = { max_surge = 1, max_unavailable = 0 }\n[probes.readiness]\n\
                exec = { command = [\"test\", \"-e\", \"ready\"] }\nperiod = \"200ms\"";
    let file = service(&three.folder, "web", 4, sleeper, more);
    three
        .cli()
        .good(&["services", "create", word(&file), "--wait"]);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    let changed = text.replace("sleep 1;", "sleep 1; true;");
    std::fs::write(&file, changed).expect("the folder can be written");
    three.cli().good(&["services", "update", word(&file)]);
    for _ in 0..2 {
        let primary = three.primary();
        three.kill(&primary);
        let service = three.cli().service("web");
        assert!(service["available"].as_u64() >= Some(3), "{service}");
        three.up(&primary);
    }
    let service = three.steady("web", 4);
    assert_eq!(service["version"], 2);
    let restarts = super::rows(&service, "replicas").iter().map(|replica| {
        replica["restarts"].as_u64().unwrap_or(1) + replica["run"].as_u64().unwrap_or(9)
    });
    assert!(
        restarts.into_iter().all(|sum| sum == 1),
        "moved or restarted: {service}"
    );
    three.cli().good(&["audit"]);
}
