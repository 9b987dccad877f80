//! `jobs`: submit, look at, kill, hold, requeue.

use clap::{Args, Subcommand};
use xce_model::{JobId, JobState};
use xce_replica::view::JobView;
use xce_session::wire::{Ask, AskJob, JobFilter, Reply, WatchFilter};

use super::arguments::{ChangeOptions, Global, WatchOption};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::job::details;
use super::{logs, print, quarantine, submit, wait, watch};

/// What is done with jobs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Submit a job: `jobs submit [options] -- command arguments`.
    Submit(Box<submit::Options>),
    /// List jobs that have not ended.
    #[command(visible_alias = "ls")]
    List(ListOptions),
    /// Show one job, array or element.
    Show {
        /// Its id, such as 17 or 17[3].
        id: JobId,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// Stop jobs for good.
    Kill {
        /// Which.
        #[command(flatten)]
        change: JobsChange,
        /// Only send this signal, such as USR1 or 10.
        #[arg(short, long, value_parser = xce_config::service_file::signal_number)]
        signal: Option<i32>,
    },
    /// Keep pending jobs from being placed.
    Hold(JobsChange),
    /// Let held jobs be placed.
    Release(JobsChange),
    /// Stop the runs of jobs and start new ones.
    Requeue(JobsChange),
    /// Stop the processes of jobs for a while.
    Suspend(JobsChange),
    /// Let suspended jobs go on.
    Resume(JobsChange),
    /// Say that the runs of jobs are known to be dead, although no worker confirms it: the last resort.
    ConfirmDead(JobsChange),
    /// Print the output of a job.
    Logs(logs::Options),
    /// Runs of a time that the cluster lost, after a restore: left alone until somebody decides.
    #[command(subcommand)]
    Quarantine(quarantine::Verb),
}

/// Which jobs are listed.
#[derive(Debug, Clone, Args)]
pub struct ListOptions {
    /// Also those that ended.
    #[arg(short, long)]
    pub all: bool,
    /// Of all projects.
    #[arg(short = 'A', long, conflicts_with = "project")]
    pub all_projects: bool,
    /// Only of this owner.
    #[arg(long, value_name = "USER")]
    pub owner: Option<String>,
    /// Only replicas of this service.
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Only with this name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only on this host.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// At most so many, the oldest first [default: no limit].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Printing again.
    #[command(flatten)]
    pub watch: WatchOption,
}

/// A change of jobs.
#[derive(Debug, Args)]
pub struct JobsChange {
    /// Ids of jobs, arrays (17) or elements (17[3]).
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<JobId>,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        Verb::Submit(options) => submit::run(&options, global, connection).await,
        Verb::List(options) => list(&options, global, connection).await,
        Verb::Show { id, watch } => show(id, watch, global, connection).await,
        Verb::Logs(options) => logs::run(&options, connection).await,
        Verb::Quarantine(verb) => quarantine::run(verb, global, connection).await,
        Verb::Kill { change, signal } => {
            let ask = AskJob::Kill {
                jobs: change.ids.clone(),
                signal,
            };
            carry_out(ask, &change, global, connection).await?;
            if signal.is_some() {
                // A signal promises nothing that could be waited for.
                return Ok(());
            }
            wait::ended(connection, &change.ids, change.change.wait, false).await
        }
        Verb::Hold(change) => {
            carry_out(
                AskJob::Hold(change.ids.clone()),
                &change,
                global,
                connection,
            )
            .await?;
            until(connection, &change, |job| job.state == JobState::Held).await
        }
        Verb::Release(change) => {
            carry_out(
                AskJob::Release(change.ids.clone()),
                &change,
                global,
                connection,
            )
            .await?;
            until(connection, &change, |job| job.state != JobState::Held).await
        }
        Verb::Requeue(change) => requeue(&change, global, connection).await,
        Verb::Suspend(change) => {
            carry_out(
                AskJob::Suspend(change.ids.clone()),
                &change,
                global,
                connection,
            )
            .await?;
            until(connection, &change, |job| job.state == JobState::Susp).await
        }
        Verb::ConfirmDead(change) => {
            let ask = AskJob::ConfirmDead(change.ids.clone());
            carry_out(ask, &change, global, connection).await?;
            until(connection, &change, |job| job.host.is_none()).await
        }
        Verb::Resume(change) => {
            carry_out(
                AskJob::Resume(change.ids.clone()),
                &change,
                global,
                connection,
            )
            .await?;
            until(connection, &change, |job| job.state != JobState::Susp).await
        }
    }
}

async fn carry_out(
    ask: AskJob,
    change: &JobsChange,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let operation = change.change.operation(connection)?;
    let accepted = connection.change(Ask::Job(ask), operation).await?;
    let names: Vec<String> = change.ids.iter().map(ToString::to_string).collect();
    print::accepted(global.output, &accepted, &names.join("\n"))
}

/// Waits until each job is as wanted or has ended.
async fn until(
    connection: &mut Connection,
    change: &JobsChange,
    wanted: impl Fn(&JobView) -> bool,
) -> Result<(), Failure> {
    let satisfied = |job: &JobView| job.terminal || wanted(job);
    wait::for_jobs(connection, &change.ids, change.change.wait, satisfied).await
}

/// Requeues; a wait lasts until each job has a later run than before.
async fn requeue(
    change: &JobsChange,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let mut before = std::collections::BTreeMap::new();
    if change.change.wait.wait {
        for id in &change.ids {
            before.insert(id.to_string(), fetch(connection, *id).await?.run);
        }
    }
    carry_out(
        AskJob::Requeue(change.ids.clone()),
        change,
        global,
        connection,
    )
    .await?;
    let later =
        |job: &JobView| job.array.is_some() || before.get(&job.id).is_none_or(|run| job.run > *run);
    wait::for_jobs(connection, &change.ids, change.change.wait, later).await
}

/// One job.
///
/// # Errors
/// As [`Connection::ask`].
pub async fn fetch(connection: &mut Connection, id: JobId) -> Result<JobView, Failure> {
    match connection.ask(Ask::Job(AskJob::Show(id))).await? {
        Reply::Jobs { jobs, .. } => jobs
            .into_iter()
            .next()
            .ok_or_else(|| xce_model::Refusal::not_found("job", id).into()),
        other => Err(unexpected(kind_of(&other))),
    }
}

/// Jobs that match, asked for page by page.
async fn fetch_all(
    connection: &mut Connection,
    mut filter: JobFilter,
    limit: Option<u32>,
) -> Result<Vec<JobView>, Failure> {
    let mut rows: Vec<JobView> = Vec::new();
    let most = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX);
    loop {
        filter.limit = match limit {
            None => 0,
            Some(_) => u32::try_from(most - rows.len()).unwrap_or(u32::MAX),
        };
        let (jobs, more) = match connection
            .ask(Ask::Job(AskJob::List(filter.clone())))
            .await?
        {
            Reply::Jobs { jobs, more } => (jobs, more),
            other => return Err(unexpected(kind_of(&other))),
        };
        let last = jobs.last().and_then(|job| job.id.parse::<JobId>().ok());
        rows.extend(jobs);
        // A page that gets no further would be asked for for ever.
        if !more || rows.len() >= most || last.is_none() || last == filter.after {
            rows.truncate(most);
            return Ok(rows);
        }
        filter.after = last;
    }
}

async fn list(
    options: &ListOptions,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let project = (!options.all_projects).then(|| global.project().to_owned());
    let filter = JobFilter {
        all: options.all,
        owner: options.owner.clone(),
        project: project.clone(),
        service: options.service.clone(),
        name: options.name.clone(),
        host: options.host.clone(),
        after: None,
        limit: 0,
    };
    let watched = WatchFilter {
        jobs: true,
        project,
        ..WatchFilter::default()
    };
    let watching = options.watch.watch;
    watch::repeat(
        connection,
        watching,
        global.output,
        watched,
        async |connection, _look| {
            let jobs = fetch_all(connection, filter.clone(), options.limit).await?;
            print::list(global.output, &jobs)
        },
    )
    .await
}

async fn show(
    id: JobId,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let watched = WatchFilter {
        jobs: true,
        ..WatchFilter::default()
    };
    watch::repeat(
        connection,
        watching.watch,
        global.output,
        watched,
        async |connection, _look| {
            let job = fetch(connection, id).await?;
            print::show(global.output, &job, |look| details(&job, look))
        },
    )
    .await
}
