//! A whole cluster on this machine: a small supervisor of the daemons as child processes.
//!
//! ```text
//!   xced dev
//!    ├─ xced controller      with the embedded scheduler
//!    ├─ xced scheduler       instead of that, with `--set scheduler=daemon`
//!    ├─ xced worker w1       jobs run below their shims, not below the worker
//!    └─ xced worker w2
//! ```
//!
//! Children that end are started again. They end when this process does, however that happens,
//! since they read its end from their standard input; jobs go on then, and are taken up again at
//! the next start.

mod child;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use xce_config::Home;
use xce_link::Role;

use crate::prepare;
use child::{Child, Event, Stopping};

/// Most workers of one machine. Source: derived; the port ranges of 1 000 each end at 29 999.
const WORKERS_MAX: u16 = 10;
/// First port of the first worker's range. Source: below the kernel's ephemeral ports, 32 768 on.
const PORT_FIRST: u16 = 20_000;
/// Ports of one worker where nothing else is asked for.
/// Source: derived; far above the jobs of one host.
const PORTS_EACH: u16 = 1000;

/// Log level of the children: what somebody must look at. `XCE_LOG` and `--set log.level=` win.
const LOG_LEVEL: &str = "warn,openraft=error,ractor=off";

/// Ports to choose from where any free one will do.
/// Source: chosen; apart from the workers' ranges and below the kernel's ephemeral ports.
const FREE_PORTS: std::ops::RangeInclusive<u16> = 12_000..=17_999;

/// Name of the scheduler, where it is a daemon. Source: chosen.
const SCHEDULER: &str = "s1";

/// Longest wait for the workers before the cluster is announced.
/// Source: chosen; a worker starts in a fraction of a second.
const WORKERS_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory of the cluster's state [default: $XCE_HOME or ~/.xce].
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// UDP port of the controller on 127.0.0.1; 0 for any free one.
    #[arg(long, default_value_t = xce_config::controller::PORT)]
    port: u16,
    /// Workers, named w1, w2, ...
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    workers: u16,
    /// First port that services may be given; worker k has the k-th range of `--ports-each`.
    #[arg(long, default_value_t = PORT_FIRST, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1024..=60_000))]
    ports_from: u16,
    /// Ports of each worker.
    #[arg(long, default_value_t = PORTS_EACH, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4000))]
    ports_each: u16,
    /// Leave jobs running on Ctrl-C; the next start takes them up again.
    #[arg(long)]
    keep_jobs: bool,
    /// One setting of the controller, such as `host_grace=10s`.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = crate::pair)]
    settings: Vec<(String, String)>,
    /// One setting of every worker, such as `cpus=4`.
    #[arg(long = "set-worker", value_name = "KEY=VALUE", value_parser = crate::pair)]
    worker_settings: Vec<(String, String)>,
}

/// Runs the cluster until Ctrl-C.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let home = crate::find_home(arguments.home.as_deref())?;
    prepare::directory(home.path())?;
    // A relative home would be another one for children and clients with other directories.
    let path = std::fs::canonicalize(home.path())
        .with_context(|| format!("cannot resolve {}", home.path().display()))?;
    let home = Home::new(path);
    let _lock = lock(&home)?;
    let authority = prepare::authority(&home)?;
    let user = prepare::login_name()?;
    prepare::identity(&authority, &home.client(), Role::User, &user)?;
    let controller = home.controller();
    prepare::directory(&controller)?;
    prepare::identity(
        &authority,
        &xce_config::home::identity_dir(&controller),
        Role::Controller,
        "c1",
    )?;
    for name in names(arguments.workers) {
        let path = home.worker(&name);
        prepare::directory(&path)?;
        prepare::identity(
            &authority,
            &xce_config::home::identity_dir(&path),
            Role::Worker,
            &name,
        )?;
    }
    if has_scheduler(&arguments) {
        let path = xce_config::home::identity_dir(&home.scheduler());
        prepare::identity(&authority, &path, Role::Scheduler, SCHEDULER)?;
    }
    let cluster = authority.cluster();
    crate::runtime()?.block_on(supervise(&arguments, &home, cluster))
}

/// Whether the controller is told to work with a scheduler that is a daemon.
fn has_scheduler(arguments: &Arguments) -> bool {
    let last = arguments.settings.iter().rev();
    let mut named = last.filter(|(key, _)| key == "scheduler");
    named.next().is_some_and(|(_, value)| value == "daemon")
}

fn names(workers: u16) -> impl Iterator<Item = String> {
    (1..=workers).map(|number| format!("w{number}"))
}

/// Holds the home for this process alone.
fn lock(home: &Home) -> anyhow::Result<std::fs::File> {
    let path = home.path().join("dev.lock");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    file.try_lock().map_err(|error| match error {
        std::fs::TryLockError::WouldBlock => anyhow::anyhow!(
            "{} is in use: another `xced dev` runs there; stop it, or give another --home",
            home.path().display()
        ),
        std::fs::TryLockError::Error(error) => {
            anyhow::Error::from(error).context(format!("cannot lock {}", path.display()))
        }
    })?;
    Ok(file)
}

async fn supervise(
    arguments: &Arguments,
    home: &Home,
    cluster: xce_model::ClusterId,
) -> anyhow::Result<ExitCode> {
    let (events, mut happened) = mpsc::channel(64);
    let (stop, stopping) = watch::channel(Stopping::No);
    let listen = listen(arguments.port)?;
    let mut controller = Child::start(
        controller_arguments(arguments, home, listen),
        events.clone(),
        stopping.clone(),
    );
    let address = controller.first_ready(&mut happened).await?;
    // A controller that starts again must be where it was.
    controller.set_arguments(controller_arguments(arguments, home, address));
    prepare::client(home, cluster, address)?;
    let mut children = vec![controller];
    if has_scheduler(arguments) {
        let mut line = child::Line::new("scheduler", home);
        // It ends before the controller.
        line.is_worker = true;
        line.set("log.level", LOG_LEVEL);
        line.set("controllers", &address.to_string());
        children.push(Child::start(line, events.clone(), stopping.clone()));
    }
    for (place, name) in (0u16..).zip(names(arguments.workers)) {
        let line = worker_arguments(arguments, home, address, (place, &name));
        children.push(Child::start(line, events.clone(), stopping.clone()));
    }
    if let Err(error) = first_workers(arguments.workers, &mut happened).await {
        stop.send_replace(Stopping::All);
        for child in children {
            child.ended().await;
        }
        return Err(error);
    }
    greet(arguments, home, address);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            event = happened.recv() => match event {
                Some(Event::Ended { name, status }) => {
                    say_ended(&name, &status);
                }
                Some(Event::Ready { .. }) | None => {}
            },
        }
    }
    end(arguments.keep_jobs, &stop, children, &mut interrupt).await;
    eprintln!("xced dev: stopped");
    Ok(ExitCode::SUCCESS)
}

/// Ends workers, then the controller; another interrupt ends what does not end by itself.
async fn end(
    keep_jobs: bool,
    stop: &watch::Sender<Stopping>,
    mut children: Vec<Child>,
    interrupt: &mut tokio::signal::unix::Signal,
) {
    let fate = if keep_jobs {
        "jobs go on"
    } else {
        "jobs are stopped"
    };
    eprintln!("xced dev: stopping; {fate}");
    stop.send_replace(if keep_jobs {
        Stopping::Workers
    } else {
        Stopping::WorkersWithJobs
    });
    let all = async {
        let controller = children.remove(0);
        for child in children {
            child.ended().await;
        }
        stop.send_if_modified(|how| {
            let further = *how != Stopping::Now;
            if further {
                *how = Stopping::All;
            }
            further
        });
        controller.ended().await;
    };
    tokio::pin!(all);
    loop {
        tokio::select! {
            () = &mut all => break,
            _ = interrupt.recv() => {
                stop.send_replace(Stopping::Now);
            }
        }
    }
}

/// The address to listen on. A port that is free to choose is taken from below those that the system
/// gives to clients, so that none of them has it when the controller starts again.
fn listen(port: u16) -> anyhow::Result<SocketAddr> {
    let address = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if port != 0 {
        return Ok(address(port));
    }
    let span = FREE_PORTS.end() - FREE_PORTS.start();
    let first = FREE_PORTS.start() + u16::try_from(std::process::id() % u32::from(span))?;
    let order = (first..=*FREE_PORTS.end()).chain(*FREE_PORTS.start()..first);
    let free = order
        .map(address)
        .find(|address| std::net::UdpSocket::bind(address).is_ok());
    free.with_context(|| {
        format!(
            "no free UDP port from {} to {}",
            FREE_PORTS.start(),
            FREE_PORTS.end()
        )
    })
}

/// Waits until every worker is ready, within a bound. One that ends before it ever was ready has a
/// setting or a state that cannot be; it has said which.
async fn first_workers(workers: u16, happened: &mut mpsc::Receiver<Event>) -> anyhow::Result<()> {
    let mut missing: std::collections::BTreeSet<String> = names(workers).collect();
    let all = async {
        while !missing.is_empty() {
            match happened.recv().await {
                Some(Event::Ready { name, .. }) => {
                    missing.remove(&name);
                }
                Some(Event::Ended { name, status }) => {
                    anyhow::bail!("{name} did not start ({status}); its message stands above")
                }
                None => break,
            }
        }
        Ok(())
    };
    match tokio::time::timeout(WORKERS_WITHIN, all).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => {
            let missing: Vec<String> = missing.into_iter().collect();
            eprintln!(
                "xced dev: not ready yet: {}; it is tried on",
                missing.join(", ")
            );
            Ok(())
        }
    }
}

fn say_ended(name: &str, status: &str) {
    eprintln!("xced dev: {name} ended ({status}); it is started again");
}

fn controller_arguments(arguments: &Arguments, home: &Home, listen: SocketAddr) -> child::Line {
    let mut line = child::Line::new("controller", home);
    line.flag("--create");
    line.set("log.level", LOG_LEVEL);
    line.set("listen", &listen.to_string());
    for (key, value) in &arguments.settings {
        line.set(key, value);
    }
    line
}

fn worker_arguments(
    arguments: &Arguments,
    home: &Home,
    controller: SocketAddr,
    (place, name): (u16, &str),
) -> child::Line {
    let mut line = child::Line::new("worker", home);
    line.name = name.to_owned();
    line.is_worker = true;
    line.set("log.level", LOG_LEVEL);
    let each = arguments.ports_each;
    let first = arguments
        .ports_from
        .saturating_add(place.saturating_mul(each));
    let state_dir = home.worker(name);
    line.set("name", name);
    line.set("state_dir", &state_dir.display().to_string());
    line.set(
        "identity_dir",
        &xce_config::home::identity_dir(&state_dir)
            .display()
            .to_string(),
    );
    line.set("controllers", &controller.to_string());
    line.set("ports.first", &first.to_string());
    line.set("ports.last", &first.saturating_add(each - 1).to_string());
    for (key, value) in &arguments.worker_settings {
        line.set(key, value);
    }
    line
}

fn greet(arguments: &Arguments, home: &Home, address: SocketAddr) {
    let workers: Vec<String> = names(arguments.workers).collect();
    let fate = if arguments.keep_jobs {
        "jobs go on"
    } else {
        "jobs stop; --keep-jobs leaves them"
    };
    println!(
        "xce runs: controller on {address}, workers {}",
        workers.join(", ")
    );
    println!("state:    {} (kept over restarts)", home.path().display());
    println!("stop:     Ctrl-C ({fate})");
    println!("next, in another terminal:  {}", next_command(home));
}

/// The next command to type; it names the home where that is not the default.
fn next_command(home: &Home) -> String {
    let program = std::env::current_exe().ok().and_then(|path| {
        let beside = path.with_file_name("xcecli");
        beside.exists().then(|| beside.display().to_string())
    });
    let program = program.unwrap_or_else(|| "xcecli".to_owned());
    let default = Home::find(None, |name| std::env::var(name).ok());
    let is_default = default
        .and_then(|home| std::fs::canonicalize(home.path()).ok())
        .is_some_and(|path| path == home.path());
    if is_default {
        format!("{program} services create examples/web.toml")
    } else {
        format!(
            "XCE_HOME={} {program} services create examples/web.toml",
            home.path().display()
        )
    }
}
