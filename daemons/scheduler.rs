//! The scheduler's process.

use std::process::ExitCode;

use anyhow::Context;
use xce_config::SchedulerConfig;
use xce_link::Identity;
use xce_model::Incarnation;
use xce_scheduler::Settings;

use crate::Daemon;
use crate::lifeline::{self, Ready};

/// Runs a scheduler until it is asked to stop.
pub fn run(arguments: &Daemon) -> anyhow::Result<ExitCode> {
    let home = arguments.home()?;
    let config: SchedulerConfig = xce_config::load(&home, &arguments.sources())?;
    xce_config::logging::start(&config.log, std::env::var("XCE_LOG").ok().as_deref())?;
    let settings = settings(&config)?;
    let incarnation = incarnation()?;
    let runtime = crate::runtime()?;
    let outcome = runtime.block_on(async {
        tracing::info!(principal = %settings.identity.principal(), "scheduler ready");
        if arguments.lifeline {
            Ready { address: None }.announce();
        }
        tokio::select! {
            stop = lifeline::wait(arguments.lifeline) => {
                stop?;
                Ok(ExitCode::SUCCESS)
            }
            ended = xce_scheduler::run(settings, incarnation) => {
                let error = ended.context("the scheduler ended");
                error.map(|()| ExitCode::SUCCESS)
            }
        }
    });
    // The wait for the supervisor's word blocks a thread that would hold up an orderly end for ever.
    runtime.shutdown_background();
    outcome
}

fn settings(config: &SchedulerConfig) -> anyhow::Result<Settings> {
    let identity = Identity::load(&config.identity_dir).with_context(|| {
        format!(
            "no identity in {}: `xcecli cluster invite --scheduler NAME` and `xced join` make one",
            config.identity_dir.display()
        )
    })?;
    let controllers = config.controllers.iter().map(|text| {
        text.parse()
            .with_context(|| format!("`{text}` is not an address:port"))
    });
    Ok(Settings {
        identity,
        controllers: controllers.collect::<anyhow::Result<Vec<_>>>()?,
    })
}

/// Of this process: it holds nothing of an earlier one.
fn incarnation() -> anyhow::Result<Incarnation> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    Ok(Incarnation(bytes))
}
