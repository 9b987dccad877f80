//! `services endpoints`: where clients reach a service, printed, written to a file, or given to a program
//! that uses them.
//!
//! ```text
//!   feed ─► newest set ─► stdout
//!                     └─► FILE, then COMMAND ──ended with 0──► "used": drains of stopping replicas end
//! ```

mod forms;
mod front;

use clap::Args;
use std::path::PathBuf;
use xce_model::Lsn;
use xce_service::view::EndpointSet;
use xce_session::wire::ServiceName;

use super::arguments::Global;
use super::connection::{Connection, EndpointsFeed, News};
use super::failure::Failure;
use super::print;
use super::services_shown::with_proposal;
use forms::Shown;
use front::{Front, Step};

/// How endpoints are read.
#[derive(Debug, Args)]
pub struct Reading {
    /// Name of the service.
    pub name: String,
    /// Print again whenever they change.
    #[arg(long)]
    pub watch: bool,
    /// Only ports of this name.
    #[arg(long, value_name = "NAME")]
    pub port: Option<String>,
    /// Keep the set in this file, replaced as a whole, instead of printing it.
    #[arg(long, value_name = "FILE", requires = "watch")]
    pub write: Option<PathBuf>,
    /// Run this by `sh -c` for each set, which it finds on its stdin or in the file of `--write`. When it
    /// ends with 0 the set counts as used, and replicas that stop are drained no longer than that takes.
    #[arg(long, value_name = "COMMAND", requires = "watch")]
    pub exec: Option<String>,
    /// A set counts as used when its generation comes as a line on stdin.
    #[arg(long, requires = "watch", conflicts_with = "exec")]
    pub ack: bool,
}

/// Prints where clients reach a service, or keeps it up to date elsewhere.
///
/// # Errors
/// See [`Failure`]; not found when the service is deleted meanwhile.
pub async fn run(
    reading: Reading,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let name = ServiceName {
        project: global.project().to_owned(),
        name: reading.name.clone(),
    };
    let acknowledges = reading.exec.is_some() || reading.ack;
    let mut feed = EndpointsFeed::new(name.clone(), reading.watch, acknowledges);
    let first = match feed.next(connection).await {
        Err(failure) if failure.is_not_found() => {
            return Err(with_proposal(failure, &name.project, &name.name, connection).await);
        }
        first => first?,
    };
    let shown = Shown {
        service: name,
        form: global.output,
        port: reading.port.clone(),
        watching: reading.watch,
    };
    if !reading.watch {
        return match first {
            News::Set(set) => print::text(&shown.text(&set)?),
            News::Deleted => Err(gone(&shown)),
        };
    }
    let mut front = Front::new(reading, shown);
    let mut news = Some(first);
    loop {
        match news.take() {
            Some(News::Set(set)) => front.take(set)?,
            Some(News::Deleted) => {
                front.take(EndpointSet::default())?;
                front.finish().await;
                return Err(gone(front.shown()));
            }
            None => {}
        }
        if let Some(generation) = front.used() {
            feed.used(connection, generation);
        }
        if front.is_over() {
            return Ok(());
        }
        tokio::select! {
            next = feed.next(connection) => news = Some(next?),
            step = front.step() => match step {
                Step::Done | Step::Again => {}
                Step::Said(generation) => front.say(generation),
            },
        }
    }
}

fn gone(shown: &Shown) -> Failure {
    let text = format!("service {} was deleted", shown.service.name);
    xce_model::Refusal::new(xce_model::RefusalKind::NotFound, "deleted", text).into()
}

/// A generation, where there is one.
type Generation = Option<Lsn>;
