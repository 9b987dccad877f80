//! Three controllers on one machine, each with its own state; workers and users that know all three.
//!
//! Daemons are named `c1`, `c2`, `c3` and `h1`, `h2`; each has its home and its log below
//! [`Three::folder`], by its name.

use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::cli::{self, Answer, Cli};
use super::network::Network;
use super::{binaries, patience, processes, programs};

/// Settings of every controller, unless a test asks for others.
const SETTINGS: [&str; 2] = ["beat=500ms", "host_grace=5s"];

/// Where controllers on hosts of their own listen. Source: chosen; nobody else is there.
const PORT: u16 = 7_000;

/// A daemon of the cluster, down or running.
#[derive(Debug)]
struct Daemon {
    name: String,
    words: Vec<String>,
    environment: Vec<(String, String)>,
    child: Option<Child>,
}

/// A cluster of three controllers and two workers; everything that it started ends with it.
#[derive(Debug)]
pub struct Three {
    folder: PathBuf,
    settings: Vec<String>,
    daemons: Vec<Daemon>,
    network: Option<Network>,
}

impl Three {
    /// Three controllers that lead or may, and two workers that are up.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    /// As [`Three::start`], with more settings of every controller, each `key=value`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start_with(name: &str, settings: &[&str]) -> Self {
        Self::begin(name, settings, None, &["h1", "h2"])
    }

    /// As [`Three::start_with`], with four workers, each daemon on a host of its own of the network;
    /// users are on the host `user`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn on(network: Network, name: &str, settings: &[&str]) -> Self {
        Self::begin(name, settings, Some(network), &["h1", "h2", "h3", "h4"])
    }

    /// The hosts of a network for [`Three::on`].
    pub const HOSTS: [&str; 8] = ["c1", "c2", "c3", "h1", "h2", "h3", "h4", "user"];

    fn begin(name: &str, settings: &[&str], network: Option<Network>, workers: &[&str]) -> Self {
        let mut three = Self::controllers(name, settings, network, &|_home| ());
        let user = three.invite("c1", &["--user", "root"]);
        three.xced(&["join", &user], "user").good();
        for host in workers {
            three.add_worker(host);
        }
        patience::until("all hosts are up", || {
            let hosts = three.cli().json(&["hosts", "list"]);
            let up = |host: &Value| host["state"] == "up";
            hosts
                .as_array()
                .is_some_and(|hosts| hosts.len() == workers.len() && hosts.iter().all(up))
        });
        three
    }

    /// Three controllers and a user, without a worker; the home of the first is prepared before its
    /// first start.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn without_workers(name: &str, settings: &[&str], prepare: &dyn Fn(&Path)) -> Self {
        let three = Self::controllers(name, settings, None, prepare);
        let user = three.invite("c1", &["--user", "root"]);
        three.xced(&["join", &user], "user").good();
        three
    }

    /// The first controller alone, with a user, and one worker, `h1`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn one(name: &str) -> Self {
        Self::one_with(name, &[])
    }

    /// As [`Three::one`], with more settings of the controller.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn one_with(name: &str, settings: &[&str]) -> Self {
        let mut one = Self::first(name, settings, None, &|_home| ());
        let user = one.invite("c1", &["--user", "root"]);
        one.xced(&["join", &user], "user").good();
        one.add_worker("h1");
        one.wait_for_host("h1");
        one
    }

    /// Waits until a host is up.
    ///
    /// # Panics
    /// When it does not come.
    pub fn wait_for_host(&self, host: &str) {
        patience::until(&format!("{host} is up"), || {
            let words = ["-o", "json", "hosts", "show", host];
            let answer = self.cli().run(&words);
            answer.stdout.contains("\"state\": \"up\"")
        });
    }

    /// Three controllers, no worker and no user of their own.
    fn controllers(
        name: &str,
        settings: &[&str],
        network: Option<Network>,
        prepare: &dyn Fn(&Path),
    ) -> Self {
        let mut three = Self::first(name, settings, network, prepare);
        for name in ["c2", "c3"] {
            three.add_controller(name);
        }
        three
    }

    /// The first controller.
    fn first(
        name: &str,
        settings: &[&str],
        network: Option<Network>,
        prepare: &dyn Fn(&Path),
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("xce-{name}-"))
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let settings = SETTINGS.iter().chain(settings);
        let mut three = Self {
            folder,
            settings: settings.map(|one| (*one).to_owned()).collect(),
            daemons: Vec::new(),
            network,
        };
        let listen = three.listen("c1");
        three.xced(&["init", "--listen", &listen], "c1").good();
        prepare(&three.home("c1"));
        three.controller("c1");
        three
    }

    /// The network of [`Three::on`].
    ///
    /// # Panics
    /// When there is none.
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("it was started on a network")
    }

    /// Words that enter the host of that name, or that of the users; none without a network.
    fn entry(&self, host: &str) -> Vec<String> {
        let host = if Self::HOSTS.contains(&host) {
            host
        } else {
            "user"
        };
        let network = self.network.as_ref();
        network.map_or_else(Vec::new, |network| network.entry(host))
    }

    /// Where a new controller is to listen.
    fn listen(&self, name: &str) -> String {
        match &self.network {
            None => free_port(),
            Some(network) => format!("{}:{PORT}", network.address(name)),
        }
    }

    /// Where everything of this cluster lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The home of a daemon or of a user.
    pub fn home(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What a daemon has said so far.
    pub fn log(&self, name: &str) -> String {
        let path = self.folder.join(format!("{name}.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// The user's command line, which knows all controllers.
    pub fn cli(&self) -> Cli {
        Cli::new(&self.home("user")).on(self.entry("user"))
    }

    /// The user's command line on another host of the network.
    pub fn cli_on(&self, host: &str) -> Cli {
        Cli::new(&self.home("user")).on(self.entry(host))
    }

    /// Runs `xced` with a home, to its end.
    pub fn xced(&self, words: &[&str], home: &str) -> Answer {
        let mut command = cli::entered(&self.entry(home), &binaries::path("xced"));
        command.args(words).arg("--home").arg(self.home(home));
        cli::run(command, None)
    }

    /// A token that a controller issues.
    pub fn invite(&self, by: &str, whom: &[&str]) -> String {
        let words = ["--retry-for", "60s", "cluster", "invite"];
        let words: Vec<&str> = words.iter().chain(whom).copied().collect();
        let cli = Cli::new(&self.home(by)).on(self.entry(by));
        cli.good(&words).trim().to_owned()
    }

    /// Takes in one more controller by a token of `c1`, and waits for its vote.
    ///
    /// # Panics
    /// When it gets none.
    pub fn add_controller(&mut self, name: &str) {
        let token = self.invite("c1", &["--controller"]);
        let listen = self.listen(name);
        self.xced(&["join", &token, "--listen", &listen], name)
            .good();
        self.controller(name);
        self.wait_for_vote("c1", name);
    }

    /// Waits until a controller has a vote, in the eyes of another one.
    ///
    /// # Panics
    /// When it gets none.
    pub fn wait_for_vote(&self, of: &str, name: &str) {
        patience::until(&format!("{name} has a vote"), || {
            let cli = Cli::new(&self.home(of)).on(self.entry(of));
            // A large state keeps the two from agreeing for a moment.
            let members = cli.run(&["-o", "json", "cluster", "members"]).stdout;
            let members: Value = serde_json::from_str(&members).unwrap_or_default();
            let members = members.as_array().cloned().unwrap_or_default();
            members
                .iter()
                .any(|member| member["name"] == name && member["role"] == "standby")
        });
    }

    /// Starts the controller of a home for the first time.
    pub fn controller(&mut self, name: &str) {
        let home = self.home(name);
        let config = home.join("controller.toml");
        let mut words = vec!["controller".to_owned()];
        for (key, path) in [("--home", &home), ("--config", &config)] {
            words.extend([key.to_owned(), path.display().to_string()]);
        }
        for setting in &self.settings {
            words.extend(["--set".to_owned(), setting.clone()]);
        }
        self.add(name, words);
    }

    /// Takes in a worker and starts it; it knows the three controllers.
    pub fn add_worker(&mut self, host: &str) {
        let token = self.invite("c1", &["--worker", host]);
        self.xced(&["join", &token], "workers").good();
        let home = self.home("workers");
        let state = home.join(host);
        let addresses: Vec<String> = ["c1", "c2", "c3"]
            .iter()
            .filter(|name| self.home(name).exists())
            .map(|name| self.address(name))
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
        self.add(host, words);
    }

    /// Takes in a scheduler and starts it; it knows the three controllers.
    pub fn add_scheduler(&mut self, name: &str) {
        let token = self.invite("c1", &["--scheduler", name]);
        self.xced(&["join", &token], name).good();
        let addresses = ["c1", "c2", "c3"].map(|controller| self.address(controller));
        let mut words = vec!["scheduler".to_owned(), "--home".to_owned()];
        words.push(self.home(name).display().to_string());
        let controllers = format!("controllers={}", addresses.join(","));
        words.extend(["--set".to_owned(), controllers]);
        self.add(name, words);
    }

    fn add(&mut self, name: &str, words: Vec<String>) {
        self.daemons.push(Daemon {
            name: name.to_owned(),
            words,
            environment: Vec::new(),
            child: None,
        });
        self.up(name);
    }

    /// Where a controller listens, as its settings say.
    ///
    /// # Panics
    /// When they say nothing.
    pub fn address(&self, name: &str) -> String {
        let path = self.home(name).join("controller.toml");
        let text = std::fs::read_to_string(path).expect("its settings");
        let line = text.lines().find_map(|line| line.strip_prefix("listen = "));
        line.expect("an address").trim_matches('"').to_owned()
    }

    fn daemon(&self, name: &str) -> &Daemon {
        let found = self.daemons.iter().find(|daemon| daemon.name == name);
        found.expect("a daemon of that name")
    }

    fn daemon_mut(&mut self, name: &str) -> &mut Daemon {
        let found = self.daemons.iter_mut().find(|daemon| daemon.name == name);
        found.expect("a daemon of that name")
    }

    /// Adds a setting, `key=value`, of a daemon from its next start on; a later one wins.
    pub fn set(&mut self, name: &str, setting: &str) {
        let words = &mut self.daemon_mut(name).words;
        words.extend(["--set".to_owned(), setting.to_owned()]);
    }

    /// Sets a variable of a daemon's environment from its next start on.
    pub fn environment(&mut self, name: &str, key: &str, value: &str) {
        let pair = (key.to_owned(), value.to_owned());
        self.daemon_mut(name).environment.push(pair);
    }

    /// Forgets what [`Three::environment`] set.
    pub fn clear_environment(&mut self, name: &str) {
        self.daemon_mut(name).environment.clear();
    }

    /// Starts a daemon that is down.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn up(&mut self, name: &str) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{name}.log")))
            .expect("the log can be written");
        let mut command = cli::entered(&self.entry(name), &binaries::path("xced"));
        let daemon = self.daemon_mut(name);
        command
            .args(&daemon.words)
            .envs(daemon.environment.iter().cloned())
            .env("PATH", programs::search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        daemon.child = Some(command.spawn().expect("xced starts"));
    }

    /// Stops a daemon in order, as by SIGTERM.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&mut self, name: &str) {
        if let Some(pid) = self.pid(name) {
            processes::signal(pid, nix::sys::signal::Signal::SIGTERM);
            self.wait_for_end(name);
        }
    }

    /// Kills a daemon, as by SIGKILL.
    pub fn kill(&mut self, name: &str) {
        if let Some(mut child) = self.daemon_mut(name).child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// The process of a daemon that was started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.daemon(name).child.as_ref().map(Child::id)
    }

    /// Waits until a daemon has ended by itself; gives its exit code.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_for_end(&mut self, name: &str) -> Option<i32> {
        let mut child = self.daemon_mut(name).child.take().expect("it runs");
        let mut code = None;
        patience::until(&format!("{name} ends"), || {
            let ended = child.try_wait().expect("it is our child");
            code = ended.and_then(|status| status.code());
            ended.is_some()
        });
        code
    }

    /// The name of the one that leads, when it has been seen to.
    ///
    /// # Panics
    /// When none does for long.
    pub fn primary(&self) -> String {
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

    /// A controller that is not the primary, nor `c1` by which others are invited.
    pub fn standby(&self) -> String {
        let primary = self.primary();
        let names = ["c3", "c2"].into_iter();
        let found = names.filter(|name| **name != *primary).map(str::to_owned);
        found.into_iter().next().expect("two names")
    }

    /// Waits until a service has its replicas and rests; gives it.
    ///
    /// # Panics
    /// When it does not come to rest.
    pub fn steady(&self, name: &str, replicas: u64) -> Value {
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
                eprintln!("--- {name}\n{}", self.log(name));
            }
        }
        names.iter().for_each(|name| self.kill(name));
        for process in processes::of_folder(&self.folder) {
            processes::kill_hard(process.pid);
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// An address on this machine where nobody listens.
///
/// # Panics
/// When there is none.
pub fn free_port() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("its address").to_string()
}
