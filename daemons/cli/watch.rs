//! `watch`: changes as they are committed; and the option `--watch` of lists.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use xce_session::wire::{Changes, WatchFilter};

use super::arguments::{Form, Global};
use super::connection::Connection;
use super::failure::Failure;
use super::print::{self, Look, visible};

/// What is watched.
#[derive(Debug, Clone, Args)]
pub struct What {
    /// Kinds of objects; all when none is given.
    #[arg(value_enum)]
    pub kinds: Vec<Kind>,
    /// Of all projects.
    #[arg(short = 'A', long, conflicts_with = "project")]
    pub all_projects: bool,
    /// Only changes after this position; without it the present state comes first.
    #[arg(
        long,
        value_name = "LSN",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub after: u64,
}

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Services.
    Services,
    /// Jobs.
    Jobs,
    /// Hosts.
    Hosts,
}

impl What {
    /// The filter that the cluster is asked for.
    pub fn filter(&self, global: &Global) -> WatchFilter {
        let wants = |kind| self.kinds.is_empty() || self.kinds.contains(&kind);
        WatchFilter {
            services: wants(Kind::Services),
            jobs: wants(Kind::Jobs),
            hosts: wants(Kind::Hosts),
            project: (!self.all_projects).then(|| global.project().to_owned()),
            after: self.after,
        }
    }
}

/// Prints changes until it is stopped or nobody reads.
///
/// # Errors
/// When the cluster refuses.
pub async fn run(what: &What, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    connection.subscribe(what.filter(global)).await?;
    loop {
        // A lost connection goes on after the last change that was printed, so nothing is missing.
        let Some(changes) = connection.next_change().await? else {
            continue;
        };
        if !print::bytes(rendered(global.output, &changes)?.as_bytes())? {
            return Ok(());
        }
    }
}

/// Changes as text: one line an object for people, one object a line for programs.
///
/// # Errors
/// When they have no JSON.
pub fn rendered(form: Form, changes: &Changes) -> Result<String, Failure> {
    match form {
        Form::Json => serde_json::to_string(changes)
            .map(|text| format!("{text}\n"))
            .map_err(|error| Failure::Local(format!("cannot be printed as JSON: {error}"))),
        Form::Yaml => print::yaml(changes).map(|text| format!("---\n{text}")),
        Form::Table | Form::Wide | Form::Name | Form::Plain | Form::Dns => Ok(lines(form, changes)),
    }
}

fn lines(form: Form, changes: &Changes) -> String {
    let mut lines = Vec::new();
    let services = changes.services.iter().map(|service| {
        let counts = format!(
            "{} {}/{} available, {} live, {} stopping",
            service.condition.word(),
            service.available,
            service.desired,
            service.live,
            service.stopping
        );
        (
            format!("service/{}", service.name),
            with_reason(&counts, &service.reason),
        )
    });
    lines.extend(services);
    lines.extend(changes.jobs.iter().map(|job| {
        let place = job
            .host
            .as_ref()
            .map(|host| format!(" on {host}"))
            .unwrap_or_default();
        let text = format!("{} {}{place}", job.name, job.state);
        (format!("job/{}", job.id), with_reason(&text, &job.reason))
    }));
    lines.extend(changes.hosts.iter().map(|host| {
        (
            format!("host/{}", host.name),
            with_reason(host.state.word(), &host.reason),
        )
    }));
    lines.extend(
        changes
            .gone
            .iter()
            .map(|name| (name.clone(), "gone".to_owned())),
    );
    lines
        .into_iter()
        .map(|(name, text)| match form {
            Form::Name | Form::Plain | Form::Dns => format!("{}\n", visible(&name)),
            Form::Table | Form::Wide | Form::Json | Form::Yaml => {
                format!("{} {} {}\n", changes.lsn, visible(&name), visible(&text))
            }
        })
        .collect()
}

fn with_reason(text: &str, reason: &str) -> String {
    if reason.is_empty() {
        text.to_owned()
    } else {
        format!("{text}: {reason}")
    }
}

/// Prints once, or with `--watch` again after each change of the filter's objects.
///
/// # Errors
/// As `print` and [`Connection::subscribe`].
pub async fn repeat(
    connection: &mut Connection,
    watching: bool,
    form: Form,
    filter: WatchFilter,
    mut print: impl AsyncFnMut(&mut Connection, &Look) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !watching {
        return print(connection, &Look::of(form)).await;
    }
    let after = connection.position().await?;
    connection
        .subscribe(WatchFilter { after, ..filter })
        .await?;
    loop {
        if std::io::stdout().is_terminal() && matches!(form, Form::Table | Form::Wide) {
            // Source: ECMA-48, erase in page and cursor position.
            print::text("\x1b[2J\x1b[H")?;
        }
        print(connection, &Look::of(form)).await?;
        connection.next_change().await?;
        connection.drain();
    }
}
