//! `services events`: what happened to a service, and with `-f` what happens next.

use clap::Args;
use xce_service::view::{EventView, ServiceView};
use xce_session::wire::WatchFilter;

use super::arguments::{Form, Global};
use super::connection::Connection;
use super::failure::Failure;
use super::present::service::event_cells;
use super::present::time;
use super::print::{self, Look, table_text, talk};
use super::services_shown::{fetch, fetch_or_propose};

/// What is listed.
#[derive(Debug, Clone, Args)]
pub struct Events {
    /// Name of the service.
    pub name: String,
    /// Go on with what happens next, until the service is gone or this is stopped.
    #[arg(short, long, visible_alias = "watch")]
    pub follow: bool,
}

/// Width of the kinds, of which `crash-loop` is the longest.
const KIND: usize = 10;
/// Headings of events.
const HEAD: [&str; 4] = ["TIME", "LSN", "EVENT", "TEXT"];

/// Prints the events that are kept, and follows.
///
/// # Errors
/// See [`Failure`].
pub async fn run(
    asked: &Events,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let (project, name) = (global.project(), asked.name.as_str());
    if !asked.follow {
        let service = fetch_or_propose(connection, project, name).await?;
        return list(&service.events, global.output);
    }
    let after = connection.position().await?;
    let filter = WatchFilter {
        services: true,
        project: Some(project.to_owned()),
        after,
        ..WatchFilter::default()
    };
    connection.subscribe(filter).await?;
    let mut follower = Follower::of(fetch_or_propose(connection, project, name).await?);
    let mut shown = follower.news(None).to_owned();
    loop {
        if !shown.is_empty() && !print::bytes(lines(&shown, global.output)?.as_bytes())? {
            return Ok(());
        }
        // Also after a lost connection: what happened meanwhile is in the state that is asked for.
        connection.next_change().await?;
        connection.drain();
        let service = match fetch(connection, project, name).await {
            Ok(service) if service.id == follower.service.id => service,
            Ok(_) => return gone(name),
            Err(failure) if failure.is_not_found() => return gone(name),
            Err(failure) => return Err(failure),
        };
        let before = std::mem::replace(&mut follower, Follower::of(service));
        shown = follower.news(before.service.events.last()).to_owned();
    }
}

fn gone(name: &str) -> Result<(), Failure> {
    talk(&format!("service {name} is gone"));
    Ok(())
}

/// A service as it was last seen.
pub struct Follower {
    service: ServiceView,
}

impl Follower {
    /// Of a service as it is.
    pub fn of(service: ServiceView) -> Self {
        Self { service }
    }

    /// The events after one that was printed; those of later positions where it is kept no longer.
    pub fn news(&self, last: Option<&EventView>) -> &[EventView] {
        let events = &self.service.events;
        let Some(last) = last else { return events };
        let from = match events.iter().rposition(|event| event == last) {
            Some(place) => place + 1,
            None => {
                let later = events.iter().position(|event| event.lsn > last.lsn);
                later.unwrap_or(events.len())
            }
        };
        &events[from..]
    }
}

fn list(events: &[EventView], form: Form) -> Result<(), Failure> {
    print::text(&match form {
        Form::Table | Form::Wide => {
            let look = Look::of(form);
            let rows = events
                .iter()
                .map(|event| event_cells(event, &look))
                .collect();
            table_text(&HEAD, rows, look.coloured)
        }
        Form::Json => print::json(events)?,
        Form::Yaml => print::yaml(events)?,
        Form::Name | Form::Plain | Form::Dns => kinds(events),
    })
}

/// Events as they are followed: one a line, for programs one object a line.
///
/// # Errors
/// When they have no JSON.
fn lines(events: &[EventView], form: Form) -> Result<String, Failure> {
    let mut text = String::new();
    match form {
        Form::Table | Form::Wide => {
            let look = Look::of(form);
            for event in events {
                let when = time(&event.time, &look.now);
                let line = format!(
                    "{when}  {}  {:<KIND$}  {}",
                    event.lsn, event.kind, event.text
                );
                text.push_str(&print::visible(&line));
                text.push('\n');
            }
        }
        Form::Json => {
            for event in events {
                let line = serde_json::to_string(event)
                    .map_err(|error| Failure::Local(format!("an event has no JSON: {error}")))?;
                text.push_str(&line);
                text.push('\n');
            }
        }
        Form::Yaml => {
            for event in events {
                text.push_str("---\n");
                text.push_str(&print::yaml(event)?);
            }
        }
        Form::Name | Form::Plain | Form::Dns => text = kinds(events),
    }
    Ok(text)
}

fn kinds(events: &[EventView]) -> String {
    let kinds = events.iter().map(|event| format!("{}\n", event.kind));
    kinds.collect()
}
