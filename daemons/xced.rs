//! The daemons of XCE: one program, a role a subcommand.

mod check;
mod config;
mod controller;
mod dev;
mod force_new;
mod join;
mod lifeline;
mod prepare;
mod reload;
mod replay;
mod restore;
mod scheduler;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use xce_config::{Home, Sources};

/// The daemons of XCE, a cluster workload manager for batch jobs and services.
#[derive(Debug, Parser)]
#[command(name = "xced", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

const EXIT_CODES: &str = "Exit codes: 0 stopped in order, 1 failed with a message, 2 usage.";

#[derive(Debug, Subcommand)]
enum Role {
    /// A whole cluster on this machine, in the foreground.
    Dev(dev::Arguments),
    /// Found a cluster: its authority, its first controller, the local user.
    Init(join::Found),
    /// Take part in a cluster by a token of `xcecli cluster invite`.
    Join(join::Join),
    /// Begin a cluster anew, with one controller, from a file of `xcecli cluster backup`.
    Restore(restore::Arguments),
    /// Begin anew with what one controller has, after the others are lost for good.
    ForceNew(force_new::Arguments),
    /// A controller.
    Controller(Daemon),
    /// The worker of one host.
    Worker(worker::Arguments),
    /// A scheduler, for clusters whose controllers are set to `scheduler = "daemon"`.
    Scheduler(Daemon),
    /// Say what is wrong with this machine before it joins a cluster.
    Check(check::Arguments),
    /// Check a file of settings, or bring it up to the newest form.
    #[command(subcommand)]
    Config(config::Verb),
    /// Make the decisions of an exported journal again, and name the first that comes out otherwise.
    Replay(replay::Arguments),
}

/// Arguments that the daemons share.
#[derive(Debug, Args)]
struct Daemon {
    /// File of settings; its options are described in the reference.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of a one-machine cluster, for defaults of paths [default: $XCE_HOME or ~/.xce].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// One setting, such as `host_grace=10s`; wins over the file and the environment.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
    /// Found a cluster where the state directory is empty, as `xced init` does.
    #[arg(long, hide = true)]
    create: bool,
    /// Stop when standard input ends, and print one line of JSON when ready: for a supervisor.
    #[arg(long, hide = true)]
    lifeline: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("a setting is given as KEY=VALUE".to_owned()),
    }
}

impl Daemon {
    fn home(&self) -> anyhow::Result<Home> {
        find_home(self.home.as_deref())
    }

    fn sources(&self) -> Sources {
        self.settings.iter().fold(
            Sources::of_process(self.config.clone()),
            |sources, (key, value)| sources.with_flag(key, value),
        )
    }
}

fn find_home(given: Option<&std::path::Path>) -> anyhow::Result<Home> {
    let variable = |name: &str| std::env::var(name).ok();
    Home::find(given, variable).ok_or_else(|| {
        anyhow::anyhow!("no directory for the cluster: give --home, or set XCE_HOME or HOME")
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Role::Dev(arguments) => dev::run(arguments),
        Role::Init(arguments) => join::init(&arguments),
        Role::Join(arguments) => join::join(&arguments),
        Role::Restore(arguments) => restore::run(&arguments),
        Role::ForceNew(arguments) => force_new::run(&arguments),
        Role::Controller(arguments) => controller::run(&arguments),
        Role::Worker(arguments) => worker::run(&arguments),
        Role::Scheduler(arguments) => scheduler::run(&arguments),
        Role::Check(arguments) => check::run(&arguments),
        Role::Config(verb) => config::run(&verb),
        Role::Replay(arguments) => replay::run(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xced: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Arms the points at which a test wants this process to die, fail or wait, and says so.
fn arm_failpoints() -> anyhow::Result<()> {
    for point in xce_failpoint::arm()? {
        tracing::warn!(
            point,
            "a failpoint is armed: this daemon does harm to itself"
        );
    }
    Ok(())
}

/// A runtime for one daemon.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| anyhow::anyhow!("cannot start threads: {error}"))
}
