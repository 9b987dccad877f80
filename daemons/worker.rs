//! The worker's process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use xce_config::WorkerConfig;
use xce_link::hello::VersionRange;
use xce_worker::Settings;

use crate::Daemon;
use crate::lifeline::{self, Ready, Stop};
use crate::reload::Reloader;

/// Size at which a run's stdout and stderr are rotated, each with one old part kept.
/// Source: chosen; a hundred chatty jobs fill some 25 GiB at most.
const OUTPUT_BYTES_MAX: u64 = 128 << 20;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
    /// Stop the jobs of this host when the worker stops; without it they go on and are taken up
    /// again at the next start.
    #[arg(long)]
    stop_jobs: bool,
}

/// Runs a worker until it is asked to stop.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let daemon = &arguments.daemon;
    let (home, sources) = (daemon.home()?, daemon.sources());
    let config: WorkerConfig = xce_config::load(&home, &sources)?;
    let logs = xce_config::logging::start(&config.log, std::env::var("XCE_LOG").ok().as_deref())?;
    crate::arm_failpoints()?;
    let settings = settings(&config)?;
    say_if_out_of_time(&config);
    let group = settings.cgroup_parent.clone();
    let runtime = crate::runtime()?;
    let outcome = runtime.block_on(async {
        let worker = xce_worker::start(settings).await?;
        tracing::info!(name = %config.name, incarnation = %worker.incarnation(), "worker ready");
        if daemon.lifeline {
            Ready { address: None }.announce();
        }
        let state_dir = config.state_dir.clone();
        let reloader = Reloader::new((home, sources), config, &state_dir, logs, |_| {});
        let ended = tokio::select! {
            stop = lifeline::wait(daemon.lifeline) => Ok(stop?),
            why = worker.ended() => Err(why),
            error = reloader.on_hangup() => return Err(error.into()),
        };
        match ended {
            Ok(stop) => {
                worker
                    .stop(stop == Stop::Asked && !arguments.stop_jobs)
                    .await;
                leave(group.as_deref());
                Ok(ExitCode::SUCCESS)
            }
            Err(why) => {
                let why = why.unwrap_or_else(|| "its actors were stopped".to_owned());
                Err(anyhow::anyhow!("the worker ended: {why}"))
            }
        }
    });
    // The wait for the supervisor's word blocks a thread that would hold up an orderly end for ever.
    runtime.shutdown_background();
    outcome
}

/// Jobs go on without the cluster, so that a worker starts all the same; but it is said.
fn say_if_out_of_time(config: &WorkerConfig) {
    if let Ok(identity) = xce_link::Identity::load(&config.identity_dir)
        && let Err(error) = crate::prepare::in_time(&identity)
    {
        tracing::error!(%error, "the cluster will not let this worker join");
    }
}

fn settings(config: &WorkerConfig) -> anyhow::Result<Settings> {
    let shim = match &config.shim {
        Some(path) => path.clone(),
        None => shim_beside()?,
    };
    let controllers = config
        .controllers
        .iter()
        .map(|text| {
            text.parse()
                .with_context(|| format!("`{text}` is not an address:port"))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (state_dir, identity_dir) = (config.state_dir.clone(), config.identity_dir.clone());
    let protocol = VersionRange::up_to(config.compatibility.protocol_max)
        .map_err(|text| anyhow::anyhow!("compatibility.protocol_max: {text}"))?;
    Ok(Settings {
        protocol,
        output_bytes_max: Some(OUTPUT_BYTES_MAX),
        cgroup_parent: cgroup_parent(config),
        cpus: config.cpus,
        memory: config.memory,
        labels: config.labels.clone().into_iter().collect(),
        address: config.address.to_string(),
        ports: (config.ports.first, config.ports.last),
        beat: config.beat,
        keep_ended: config.keep_ended,
        sync: config.sync,
        ..Settings::new(&config.name, state_dir, controllers, identity_dir, shim)
    })
}

/// Removes the worker's control group where no job is left in it, and the cluster's with the last.
fn leave(group: Option<&str>) {
    let (Some(mount), Some(group)) = (xce_shim::cgroup::v2_mount(), group) else {
        return;
    };
    let path = mount.join(group);
    // Only empty ones can be removed, so jobs that go on keep theirs.
    if std::fs::remove_dir(&path).is_ok()
        && let Some(above) = path.parent().filter(|above| *above != mount)
    {
        let _ = std::fs::remove_dir(above);
    }
}

/// The control group below which each run gets its own: the one that is configured, else one of
/// this worker where control groups of version 2 can be made; none otherwise, and trees are then
/// killed by walking them.
fn cgroup_parent(config: &WorkerConfig) -> Option<String> {
    if let Some(path) = &config.cgroup_parent {
        return Some(path.display().to_string());
    }
    let mount = xce_shim::cgroup::v2_mount()?;
    // Two workers of different clusters on one machine may have the same name.
    let state = blake3::hash(config.state_dir.as_os_str().as_encoded_bytes());
    let parent = format!("xce/{}-{}", config.name, &state.to_hex()[..8]);
    std::fs::create_dir_all(mount.join(&parent))
        .ok()
        .map(|()| parent)
}

/// The shim beside this program.
pub fn shim_beside() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the own program")?;
    let path = program.with_file_name("xce-shim");
    anyhow::ensure!(
        Path::new(&path).exists(),
        "there is no {}: build it (`cargo build`), or name it with the setting `shim`",
        path.display()
    );
    Ok(path)
}
