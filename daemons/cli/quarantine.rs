//! `jobs quarantine`: runs of a time that the cluster lost, which it never knew and leaves alone.

use clap::{Args, Subcommand};
use xce_host::view::QuarantinedView;
use xce_model::JobId;
use xce_session::wire::{Ask, AskHost, Reply};

use super::arguments::{ChangeOptions, Global};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::print::{self, Field, Look, Row, cell};
use xce_model::Refusal;

/// What is done with them.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List them; their resources and ports count as used.
    List,
    /// Stop the run of a job; it is drained and killed as any other.
    Stop(Which),
}

/// Which run.
#[derive(Debug, Args)]
pub struct Which {
    /// Its job, as `list` shows it.
    job: JobId,
    /// Its host, where the job has runs on several.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Token and waiting.
    #[command(flatten)]
    change: ChangeOptions,
}

impl Row for QuarantinedView {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec!["JOB", "RUN", "HOST", "NAME", "CPUS", "MEMORY", "PORTS"]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        vec![
            cell(&self.job),
            cell(self.run),
            cell(&self.host),
            cell(&self.name),
            cell(&self.cpus),
            cell(&self.memory),
            cell(ports.join(",")),
        ]
    }

    fn name(&self) -> String {
        self.job.clone()
    }
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::List => print::list(global.output, &all(connection).await?),
        Verb::Stop(which) => stop(which, global, connection).await,
    }
}

async fn all(connection: &mut Connection) -> Result<Vec<QuarantinedView>, Failure> {
    match connection.ask(Ask::Host(AskHost::List)).await? {
        Reply::Hosts(hosts) => Ok(hosts
            .into_iter()
            .flat_map(|host| host.quarantined)
            .collect()),
        other => Err(unexpected(kind_of(&other))),
    }
}

async fn stop(which: Which, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    let job = which.job.to_string();
    let mut found = all(connection).await?;
    found.retain(|one| one.job == job);
    found.retain(|one| which.host.as_ref().is_none_or(|host| *host == one.host));
    let one = match &found[..] {
        [one] => one,
        [] => return Err(Refusal::not_found("run in quarantine of job", job).into()),
        several => {
            let hosts: Vec<&str> = several.iter().map(|one| one.host.as_str()).collect();
            let text = format!(
                "job {job} has runs on {}: say which one with --host",
                hosts.join(", ")
            );
            return Err(Failure::Usage(text));
        }
    };
    let ask = AskHost::StopQuarantined {
        host: one.host.clone(),
        job: which.job,
        run: one.run,
    };
    let operation = which.change.operation(connection)?;
    let accepted = connection.change(Ask::Host(ask), operation).await?;
    print::accepted(global.output, &accepted, &job)
}
