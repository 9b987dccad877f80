//! `jobs logs`: the output of a job, also while it is being written.

use std::time::Duration;

use clap::Args;
use xce_model::JobId;
use xce_replica::wire::Output;
use xce_session::wire::{Ask, AskJob, Reply};

use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::print;

/// Most bytes asked for at once. Source: chosen, an eighth of the largest frame.
const PART_BYTES_MAX: u32 = 1024 * 1024;
/// Wait after an empty answer while following, doubled for each further one.
/// Source: chosen, the delay that a person does not notice.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// Longest such wait. Source: chosen, one question a second costs nobody anything.
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// Which output is printed.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Id of the job.
    pub id: JobId,
    /// Go on until the job ends.
    #[arg(short, long)]
    pub follow: bool,
    /// Its stderr instead of its stdout.
    #[arg(long)]
    pub stderr: bool,
    /// Number of the run [default: the current or last].
    #[arg(long, value_name = "NUMBER")]
    pub run: Option<u32>,
}

/// Prints.
///
/// # Errors
/// When there is no output to be had, with the reason.
pub async fn run(options: &Options, connection: &mut Connection) -> Result<(), Failure> {
    let (mut offset, mut pause, mut told) = (0, PAUSE_FIRST, String::new());
    loop {
        let part = fetch(options, offset, connection).await?;
        if part.offset > offset {
            print::talk(&format!(
                "{} older bytes were dropped",
                part.offset - offset
            ));
        }
        offset = part.offset.max(offset) + part.data.len() as u64;
        if !print::bytes(&part.data)? {
            return Ok(());
        }
        if !part.data.is_empty() {
            pause = PAUSE_FIRST;
            continue;
        }
        if part.complete || !options.follow {
            return match part.problem.as_str() {
                "" => Ok(()),
                problem => Err(Failure::Unmet(format!("job {}: {problem}", options.id))),
            };
        }
        if part.problem != told && !part.problem.is_empty() {
            print::talk(&format!("job {}: {}", options.id, part.problem));
            told = part.problem;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
    }
}

async fn fetch(
    options: &Options,
    offset: u64,
    connection: &mut Connection,
) -> Result<Output, Failure> {
    let ask = AskJob::Output {
        job: options.id,
        run: options.run,
        stderr: options.stderr,
        offset,
        bytes_max: PART_BYTES_MAX,
    };
    match connection.ask(Ask::Job(ask)).await? {
        Reply::Output(output) => Ok(output),
        other => Err(unexpected(kind_of(&other))),
    }
}
