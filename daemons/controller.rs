//! The controller's process.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use xce_config::ControllerConfig;
use xce_config::controller::SchedulerPlace;
use xce_controller::peers::{FOUNDER, name_of, node_of};
use xce_controller::{Live, LiveSettings, Reload, Settings};
use xce_ledger::level::{LEVEL_MAX, LEVEL_MIN};
use xce_link::Identity;
use xce_link::hello::VersionRange;
use xce_model::Refusal;
use xce_session::config_wire::{ReloadView, SettingChange};

use crate::Daemon;
use crate::lifeline::{self, Ready};
use crate::reload::{self, Reloader};

/// Exit code after a fault that leaves no choice, such as a failed sync.
const FATAL: i32 = 1;

/// Runs a controller until it is asked to stop.
pub fn run(arguments: &Daemon) -> anyhow::Result<ExitCode> {
    let home = arguments.home()?;
    let sources = arguments.sources();
    let config: ControllerConfig = xce_config::load(&home, &sources)
        .map_err(|faults| reload::with_kept(faults, &home.controller()))?;
    let logs = xce_config::logging::start(&config.log, std::env::var("XCE_LOG").ok().as_deref())?;
    crate::arm_failpoints()?;
    let mut settings = settings(&config, arguments.create)?;
    let shared = settings.live.clone();
    let state_dir = config.state_dir.clone();
    let reloader = Arc::new(Reloader::new(
        (home, sources),
        config,
        &state_dir,
        logs,
        move |config| {
            shared.set(live(config));
        },
    ));
    settings.reload = reload_by(Arc::clone(&reloader), name_of(settings.node));
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
            error = reloader.on_hangup() => return Err(error.into()),
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

/// What of a configuration may change while a controller runs.
fn live(config: &ControllerConfig) -> LiveSettings {
    LiveSettings {
        away_max: config.hosts.away_max,
        mass_loss: config.hosts.mass_loss,
        keep_ended: config.keep_ended,
        chaos: config.chaos.enabled,
    }
}

/// How a client's wish to read the settings anew is carried out.
fn reload_by(reloader: Arc<Reloader<ControllerConfig>>, daemon: String) -> Reload {
    Reload::by(move || {
        let changes = reloader
            .reload()
            .map_err(|faults| Refusal::refused("bad_config", faults.to_string()))?;
        let changes = changes.into_iter().map(|change| SettingChange {
            option: change.key.to_owned(),
            from: change.from,
            to: change.to,
            how: if change.live { "applied" } else { "restart" }.to_owned(),
        });
        Ok(ReloadView {
            daemon: daemon.clone(),
            file: reloader.file(),
            changes: changes.collect(),
            kept: reloader.kept().display().to_string(),
        })
    })
}

/// What a configuration means for a controller; `create` founds a cluster where there is no state.
fn settings(config: &ControllerConfig, create: bool) -> anyhow::Result<Settings> {
    let identity = Identity::load(&config.identity_dir).with_context(|| {
        format!(
            "no identity in {}: `xced dev`, `xced init` and `xced join` make one",
            config.identity_dir.display()
        )
    })?;
    crate::prepare::in_time(&identity)?;
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
        beat: config.hosts.beat,
        grace: config.hosts.grace,
        kill_budget: config.hosts.kill_budget,
        live: Live::new(live(config)),
        reload: Reload::default(),
        scheduler_grace: match config.scheduler {
            SchedulerPlace::Embedded => None,
            SchedulerPlace::Daemon => Some(config.scheduler_grace),
        },
        snapshot_every: config.snapshot.every_entries,
        snapshot_bytes: config.snapshot.every_bytes.0,
        protocol,
        level_max,
    })
}
