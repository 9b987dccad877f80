//! `rollout`: how far the rollout of a service is, followed to its end, and the verbs around it.

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use xce_model::{Millis, Version};
use xce_service::VersionReason;
use xce_service::view::{Condition, ServiceView};
use xce_session::wire::WatchFilter;

use super::arguments::{Form, Global};
use super::connection::Connection;
use super::failure::Failure;
use super::history::History;
use super::present::rollout::{Rollout, line, live_view};
use super::print::{self, Look};
use super::services::{ChangeVerb, NamedChange, Rollback};
use super::services_shown::{fetch, fetch_or_propose};
use super::{history, services};

/// What is done with the rollout of a service.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show how far it is; with `--watch` until it ends.
    ///
    /// Exit code 0 when it is complete (without --watch also while it is under way), 1 when it is
    /// stuck, in a crash loop, rolled back or the service is deleted, 6 when --timeout is over.
    Status(Status),
    /// As `services pause`.
    Pause(NamedChange),
    /// As `services resume`.
    Resume(NamedChange),
    /// As `services history`.
    History(History),
    /// As `services rollback`.
    Undo(Rollback),
    /// As `services restart`.
    Restart(NamedChange),
}

/// Whose rollout is shown, and for how long.
#[derive(Debug, Clone, Args)]
pub struct Status {
    /// Name of the service.
    pub name: String,
    /// Follow it to its end: redrawn in place on a terminal, a line a change elsewhere.
    #[arg(long)]
    pub watch: bool,
    /// Longest wait; then the exit code is 6 [default: no limit].
    #[arg(long, requires = "watch", value_name = "DURATION")]
    pub timeout: Option<Millis>,
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    let change = match verb {
        Verb::Status(asked) => return status(&asked, global, connection).await,
        Verb::History(asked) => return history::run(&asked, global, connection).await,
        Verb::Pause(named) => ChangeVerb::Pause(named),
        Verb::Resume(named) => ChangeVerb::Resume(named),
        Verb::Undo(rollback) => ChangeVerb::Rollback(rollback),
        Verb::Restart(named) => ChangeVerb::Restart(named),
    };
    services::run(services::Verb::Change(change), global, connection).await
}

async fn status(
    asked: &Status,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let mut last = String::from("nothing is known yet");
    let shown = follow(asked, global, connection, &mut last);
    match asked.timeout {
        None => shown.await,
        Some(limit) => match tokio::time::timeout(limit.duration(), shown).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::TimedOut(format!(
                "timed out after {limit}: {last}"
            ))),
        },
    }
}

async fn follow(
    asked: &Status,
    global: &Global,
    connection: &mut Connection,
    last: &mut String,
) -> Result<(), Failure> {
    let (project, name) = (global.project(), asked.name.as_str());
    if asked.watch {
        let after = connection.position().await?;
        let filter = WatchFilter {
            services: true,
            project: Some(project.to_owned()),
            after,
            ..WatchFilter::default()
        };
        connection.subscribe(filter).await?;
    }
    let mut service = fetch_or_propose(connection, project, name).await?;
    let (id, first) = (service.id, service.version);
    let mut screen = Screen::new(global.output, asked.watch);
    loop {
        let rollout = Rollout::of(&service);
        screen.show(&rollout)?;
        let verdict = verdict(&service, first);
        *last = line(&rollout);
        match (verdict, asked.watch) {
            (Verdict::Complete, _) | (Verdict::UnderWay, false) => return Ok(()),
            (Verdict::Failed(text), _) => return Err(Failure::Unmet(text)),
            (Verdict::UnderWay, true) => {}
        }
        connection.next_change().await?;
        connection.drain();
        service = match fetch(connection, project, name).await {
            Ok(service) if service.id == id => service,
            Ok(_) => return Err(gone(name)),
            Err(failure) if failure.is_not_found() => return Err(gone(name)),
            Err(failure) => return Err(failure),
        };
    }
}

fn gone(name: &str) -> Failure {
    Failure::Unmet(format!("service {name} was deleted"))
}

/// Where a rollout that is followed has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The version is complete.
    Complete,
    /// It goes on, or waits for somebody.
    UnderWay,
    /// It will not become complete by itself.
    Failed(String),
}

/// The verdict about a service whose version was `first` when it began to be followed.
pub fn verdict(service: &ServiceView, first: Version) -> Verdict {
    let text = |what: &str| format!("{} {what}: {}", service.name, service.reason);
    match service.condition {
        Condition::Deleting => return Verdict::Failed(text("is being deleted")),
        Condition::CrashLoop => return Verdict::Failed(text("is in a crash loop")),
        Condition::Stuck => return Verdict::Failed(text("is stuck")),
        Condition::Paused | Condition::Rolling | Condition::Short | Condition::Steady => {}
    }
    if service.rollout.phase != "complete" {
        return Verdict::UnderWay;
    }
    rolled_back(service, first).map_or(Verdict::Complete, Verdict::Failed)
}

/// Says which version XCE itself made in place of the one that was followed, where it did.
pub fn rolled_back(service: &ServiceView, first: Version) -> Option<String> {
    let later = service.history.iter().find(|version| {
        version.number > first && matches!(version.reason, VersionReason::AutomaticRollbackOf(_))
    })?;
    Some(format!(
        "{} was rolled back from version {first}: version {} is a copy of {}",
        service.name,
        later.number,
        later.reason.copy_of().unwrap_or_default()
    ))
}

/// Where the status is drawn.
struct Screen {
    form: Form,
    /// Drawn over what was drawn before.
    in_place: bool,
    /// Lines drawn last.
    height: usize,
    said: String,
    watch: bool,
}

impl Screen {
    fn new(form: Form, watch: bool) -> Self {
        let people = matches!(form, Form::Table | Form::Wide);
        Self {
            form,
            in_place: watch && people && std::io::stdout().is_terminal(),
            height: 0,
            said: String::new(),
            watch,
        }
    }

    fn show(&mut self, rollout: &Rollout) -> Result<(), Failure> {
        match self.form {
            Form::Table | Form::Wide if self.in_place || !self.watch => self.draw(rollout),
            Form::Table | Form::Wide => self.say(line(rollout)),
            Form::Json if self.watch => {
                let text = serde_json::to_string(rollout)
                    .map_err(|error| Failure::Local(format!("it has no JSON: {error}")))?;
                self.say(text)
            }
            Form::Yaml if self.watch => self.say(format!("---\n{}", print::yaml(rollout)?)),
            Form::Json | Form::Yaml => print::show(self.form, rollout, |_| line(rollout)),
            Form::Name | Form::Plain | Form::Dns => self.say(rollout.phase.clone()),
        }
    }

    /// Draws the whole, over what was drawn before.
    fn draw(&mut self, rollout: &Rollout) -> Result<(), Failure> {
        let text = live_view(rollout, &Look::of(self.form));
        let mut whole = String::new();
        if self.height > 0 {
            // Source: ECMA-48, cursor up and erase to the end of the page.
            whole.push_str(&format!("\x1b[{}A\x1b[J", self.height));
        }
        whole.push_str(&text);
        self.height = text.lines().count();
        print::text(&whole)
    }

    /// Says what is not said already.
    fn say(&mut self, text: String) -> Result<(), Failure> {
        if text != self.said {
            print::text(&format!("{}\n", text.trim_end()))?;
            self.said = text;
        }
        Ok(())
    }
}
