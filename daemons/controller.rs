//! The controller's process.

use std::process::ExitCode;

use anyhow::Context;
use xce_config::ControllerConfig;
use xce_config::controller::SchedulerPlace;
use xce_controller::Settings;
use xce_controller::peers::{FOUNDER, node_of};
use xce_host::rules::Patience;
use xce_ledger::level::{LEVEL_MAX, LEVEL_MIN};
use xce_link::Identity;
use xce_link::hello::VersionRange;

use crate::Daemon;
use crate::lifeline::{self, Ready};

/// Exit code after a fault that leaves no choice, such as a failed sync.
const FATAL: i32 = 1;

/// Runs a controller until it is asked to stop.
pub fn run(arguments: &Daemon) -> anyhow::Result<ExitCode> {
    let home = arguments.home()?;
    let config: ControllerConfig = xce_config::load(&home, &arguments.sources())?;
    xce_config::logging::start(&config.log, std::env::var("XCE_LOG").ok().as_deref())?;
    crate::arm_failpoints()?;
    let settings = settings(&config, arguments.create)?;
    let runtime = crate::runtime()?;
    let outcome = runtime.block_on(async {
        let mut controller = xce_controller::start(settings, |text| {
            // Nothing may be acknowledged any more: the process ends at once.
            eprintln!("xced controller: {text}");
            std::process::exit(FATAL);
        })
        .await?;
        tracing::info!(address = %controller.address(), lsn = controller.lsn(), "controller ready");
        if arguments.lifeline {
            Ready {
                address: Some(controller.address()),
            }
            .announce();
        }
        let ended = tokio::select! {
            stop = lifeline::wait(arguments.lifeline) => stop.map(|_| None)?,
            why = controller.ended() => Some(why),
        };
        controller.stop().await;
        match ended {
            None => Ok(ExitCode::SUCCESS),
            Some(why) => Err(anyhow::anyhow!("the controller ended: {why}")),
        }
    });
    // The wait for the supervisor's word blocks a thread that would hold up an orderly end for ever.
    runtime.shutdown_background();
    outcome
}

/// What a configuration means for a controller; `create` founds a cluster where there is no state.
fn settings(config: &ControllerConfig, create: bool) -> anyhow::Result<Settings> {
    let identity = Identity::load(&config.identity_dir).with_context(|| {
        format!(
            "no identity in {}: `xced dev`, `xced init` and `xced join` make one",
            config.identity_dir.display()
        )
    })?;
    crate::prepare::directory(&config.state_dir)?;
    settings_of(config, &identity, create)
}

/// The same, for an identity that was read already.
pub fn settings_of(
    config: &ControllerConfig,
    identity: &Identity,
    create: bool,
) -> anyhow::Result<Settings> {
    let name = &identity.principal().name;
    let node = node_of(name).with_context(|| {
        format!("the identity is of `{name}`, which is no name of a controller, such as c1")
    })?;
    let protocol = VersionRange::up_to(config.compatibility.protocol_max)
        .map_err(|text| anyhow::anyhow!("compatibility.protocol_max: {text}"))?;
    let level_max = match config.compatibility.level_max {
        0 => LEVEL_MAX,
        level if (LEVEL_MIN..=LEVEL_MAX).contains(&level) => level,
        other => anyhow::bail!(
            "compatibility.level_max: feature level {other} is not supported here; this program \
             supports {LEVEL_MIN} to {LEVEL_MAX}"
        ),
    };
    Ok(Settings {
        state_dir: config.state_dir.clone(),
        identity_dir: config.identity_dir.clone(),
        authority_dir: config.authority_dir.clone(),
        listen: config.listen,
        cluster: identity.principal().cluster,
        node,
        create,
        join: node != FOUNDER,
        advertise: config.advertised(),
        patience: Patience {
            beat: config.beat,
            grace: config.host_grace,
            away_max: config.away_max,
        },
        mass_loss: config.mass_loss,
        kill_budget: config.kill_budget,
        keep_ended: config.keep_ended,
        scheduler_grace: match config.scheduler {
            SchedulerPlace::Embedded => None,
            SchedulerPlace::Daemon => Some(config.scheduler_grace),
        },
        chaos: config.chaos.enabled,
        snapshot_every: config.snapshot.every_entries,
        snapshot_bytes: config.snapshot.every_bytes.0,
        protocol,
        level_max,
    })
}
