//! `services`: create, look at, scale, kill, update, delete.

use std::io::Read;

use clap::{Args, Subcommand};
use xce_config::service_file::{Context, resolve};
use xce_model::limits::REPLICAS_MAX;
use xce_model::spec::ServiceSpec;
use xce_model::{JobId, OperationId};
use xce_service::view::ServiceView;
use xce_session::wire::{Ask, AskService, Reply, ServiceName, WatchFilter};

use super::arguments::{Form, Global, WaitOptions, WatchOption};
use super::connection::{Connection, kind_of};
use super::failure::{Failure, unexpected};
use super::present::service::{details, events};
use super::print::{self, Look};
use super::{account, operation, wait, watch};

/// What is done with services.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create a service from a file.
    Create(FileChange),
    /// List services.
    #[command(visible_alias = "ls")]
    List {
        /// Of all projects.
        #[arg(short = 'A', long, conflicts_with = "project")]
        all_projects: bool,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// Show one with its replicas, endpoints and last events.
    Show {
        /// Its name.
        name: String,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// Set the wanted number of replicas.
    Scale {
        /// Its name.
        name: String,
        /// Wanted number.
        #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(REPLICAS_MAX)))]
        replicas: u32,
        /// A replica, by its job, that goes first when it shrinks; may be repeated.
        #[arg(long, value_name = "JOB")]
        remove: Vec<JobId>,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Kill one replica; it is replaced.
    Kill {
        /// Name of the service.
        name: String,
        /// Index of the replica.
        index: u32,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Stop all replicas and forget the service.
    #[command(visible_alias = "rm")]
    Delete(NamedChange),
    /// Say why it is not where it should be.
    Explain {
        /// Its name.
        name: String,
    },
    /// Make a new version from a file.
    Update {
        /// The file and waiting.
        #[command(flatten)]
        file: FileChange,
        /// The file's count wins over an operator's.
        #[arg(long)]
        take_count: bool,
    },
    /// Freeze the mix of versions.
    Pause(NamedChange),
    /// Let a paused, stuck or crashing service go on.
    Resume(NamedChange),
    /// Go back to an earlier version, as a new version.
    Rollback {
        /// Its name.
        name: String,
        /// Version to copy [default: the last completed other than the current].
        #[arg(long, value_name = "VERSION")]
        to: Option<u32>,
        /// Token and waiting.
        #[command(flatten)]
        change: ChangeOptions,
    },
    /// Replace all replicas by new ones of the same template.
    Restart(NamedChange),
    /// List where clients reach it; `-o name` gives `host:port` lines.
    Endpoints {
        /// Its name.
        name: String,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// List its last events.
    Events {
        /// Its name.
        name: String,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
}

/// A change by a file.
#[derive(Debug, Args)]
pub struct FileChange {
    /// Service file; `-` reads it from stdin.
    pub file: String,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// A change of a named service.
#[derive(Debug, Args)]
pub struct NamedChange {
    /// Its name.
    pub name: String,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// What every change takes.
#[derive(Debug, Clone, Args)]
pub struct ChangeOptions {
    /// Names this change: the same token again has no second effect and gets the first answer.
    #[arg(long, value_name = "TEXT")]
    pub token: Option<String>,
    /// Waiting.
    #[command(flatten)]
    pub wait: WaitOptions,
}

impl ChangeOptions {
    /// The operation that this change is.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn operation(&self, connection: &Connection) -> Result<OperationId, Failure> {
        match &self.token {
            Some(token) => Ok(operation::of_token(&connection.principal(), token)),
            None => operation::random(),
        }
    }
}

/// Runs a verb.
///
/// # Errors
/// See [`Failure`].
pub async fn run(verb: Verb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    let named = |name: &str| ServiceName {
        project: global.project().to_owned(),
        name: name.to_owned(),
    };
    let to_steady = |ask, name: String, change| Change {
        ask,
        name,
        change,
        gone: false,
    };
    let change = match verb {
        Verb::List {
            all_projects,
            watch,
        } => {
            return list(all_projects, watch, global, connection).await;
        }
        Verb::Show { name, watch } => return show(&name, watch, global, connection).await,
        Verb::Explain { name } => return explain(&name, global, connection).await,
        Verb::Endpoints { name, watch } => {
            return endpoints(&name, watch, global, connection).await;
        }
        Verb::Events { name, watch } => return all_events(&name, watch, global, connection).await,
        Verb::Create(file) => return create(file, global, connection).await,
        Verb::Update { file, take_count } => {
            return update(file, take_count, global, connection).await;
        }
        Verb::Scale {
            name,
            replicas,
            remove,
            change,
        } => {
            let ask = AskService::Scale {
                name: named(&name),
                desired: replicas,
                remove,
            };
            to_steady(ask, name, change)
        }
        Verb::Kill {
            name,
            index,
            change,
        } => to_steady(
            AskService::Kill {
                name: named(&name),
                index,
            },
            name,
            change,
        ),
        Verb::Delete(NamedChange { name, change }) => Change {
            ask: AskService::Delete(named(&name)),
            name,
            change,
            gone: true,
        },
        Verb::Pause(NamedChange { name, change }) => {
            to_steady(AskService::Pause(named(&name)), name, change)
        }
        Verb::Resume(NamedChange { name, change }) => {
            to_steady(AskService::Resume(named(&name)), name, change)
        }
        Verb::Rollback { name, to, change } => to_steady(
            AskService::Rollback {
                name: named(&name),
                to,
            },
            name,
            change,
        ),
        Verb::Restart(NamedChange { name, change }) => {
            to_steady(AskService::Restart(named(&name)), name, change)
        }
    };
    carry_out(change, global.project(), global, connection).await
}

/// One change of a service, and what is waited for after it.
struct Change {
    ask: AskService,
    name: String,
    change: ChangeOptions,
    /// Whether the service is to be gone, else steady.
    gone: bool,
}

async fn carry_out(
    change: Change,
    project: &str,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let Change {
        ask,
        name,
        change,
        gone,
    } = change;
    let operation = change.operation(connection)?;
    let accepted = match connection.change(Ask::Service(ask), operation).await {
        Ok(accepted) => accepted,
        Err(failure) if failure.is_not_found() => {
            return Err(with_proposal(failure, project, &name, connection).await);
        }
        Err(failure) => return Err(failure),
    };
    print::accepted(global.output, &accepted, &name)?;
    if gone {
        wait::deleted(connection, project, &name, change.wait).await
    } else {
        wait::steady(connection, project, &name, change.wait).await
    }
}

async fn create(
    file: FileChange,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let mut spec = read_file(&file.file, global)?;
    spec.replicas.get_or_insert(xce_config::defaults::REPLICAS);
    let (name, project) = (spec.name.clone(), spec.project.clone());
    let ask = AskService::Create(Box::new(spec));
    let change = Change {
        ask,
        name,
        change: file.change,
        gone: false,
    };
    carry_out(change, &project, global, connection).await
}

async fn update(
    file: FileChange,
    take_count: bool,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let spec = read_file(&file.file, global)?;
    let (name, project) = (spec.name.clone(), spec.project.clone());
    let ask = AskService::Update {
        spec: Box::new(spec),
        take_count,
    };
    let change = Change {
        ask,
        name,
        change: file.change,
        gone: false,
    };
    carry_out(change, &project, global, connection).await
}

fn read_file(path: &str, global: &Global) -> Result<ServiceSpec, Failure> {
    let text = if path == "-" {
        let mut text = String::new();
        // One byte more than is allowed, so that a larger text is noticed and never read whole.
        let most = xce_config::document::TEXT_BYTES_MAX as u64 + 1;
        std::io::stdin()
            .lock()
            .take(most)
            .read_to_string(&mut text)
            .map(|_| text)
    } else {
        let most = xce_config::document::TEXT_BYTES_MAX as u64 + 1;
        std::fs::File::open(path).and_then(|file| {
            let mut text = String::new();
            file.take(most).read_to_string(&mut text).map(|_| text)
        })
    };
    let shown = if path == "-" { "stdin" } else { path };
    let text = text.map_err(|error| Failure::Usage(format!("{shown} cannot be read: {error}")))?;
    let context = Context {
        project: global.project.as_deref(),
        account: account::caller()?,
        find_account: &account::find,
    };
    resolve(shown, &text, &context).map_err(|faults| Failure::Usage(faults.to_string()))
}

/// One service.
///
/// # Errors
/// As [`Connection::ask`].
pub async fn fetch(
    connection: &mut Connection,
    project: &str,
    name: &str,
) -> Result<ServiceView, Failure> {
    let service = ServiceName {
        project: project.to_owned(),
        name: name.to_owned(),
    };
    match connection
        .ask(Ask::Service(AskService::Show(service)))
        .await?
    {
        Reply::Services(services) => services
            .into_iter()
            .next()
            .ok_or_else(|| xce_model::Refusal::not_found("service", name).into()),
        other => Err(unexpected(kind_of(&other))),
    }
}

async fn fetch_or_propose(
    connection: &mut Connection,
    project: &str,
    name: &str,
) -> Result<ServiceView, Failure> {
    match fetch(connection, project, name).await {
        Err(failure) if failure.is_not_found() => {
            Err(with_proposal(failure, project, name, connection).await)
        }
        outcome => outcome,
    }
}

/// Adds a name that may have been meant.
async fn with_proposal(
    failure: Failure,
    project: &str,
    name: &str,
    connection: &mut Connection,
) -> Failure {
    let Ok(services) = fetch_all(connection, Some(project.to_owned())).await else {
        return failure;
    };
    let names = services.iter().map(|service| service.name.as_str());
    match (failure, xce_config::closest(name, names)) {
        (Failure::Refused(mut refusal), Some(near)) if near != name => {
            refusal.text.push_str(&format!("; did you mean `{near}`?"));
            Failure::Refused(refusal)
        }
        (failure, Some(_) | None) => failure,
    }
}

async fn fetch_all(
    connection: &mut Connection,
    project: Option<String>,
) -> Result<Vec<ServiceView>, Failure> {
    match connection
        .ask(Ask::Service(AskService::List { project }))
        .await?
    {
        Reply::Services(services) => Ok(services),
        other => Err(unexpected(kind_of(&other))),
    }
}

async fn list(
    all_projects: bool,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let project = (!all_projects).then(|| global.project().to_owned());
    let filter = WatchFilter {
        services: true,
        project: project.clone(),
        ..WatchFilter::default()
    };
    watch::repeat(
        connection,
        watching.watch,
        global.output,
        filter,
        async |connection, _look| {
            let services = fetch_all(connection, project.clone()).await?;
            print::list(global.output, &services)
        },
    )
    .await
}

/// Prints one service in some way, again with `--watch`.
async fn each(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
    print: impl Fn(&ServiceView, &Look) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let project = global.project();
    let filter = WatchFilter {
        services: true,
        project: Some(project.to_owned()),
        ..WatchFilter::default()
    };
    watch::repeat(
        connection,
        watching.watch,
        global.output,
        filter,
        async |connection, look| print(&fetch_or_propose(connection, project, name).await?, look),
    )
    .await
}

async fn show(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    each(name, watching, global, connection, |service, _look| {
        print::show(global.output, service, |look| details(service, look))
    })
    .await
}

async fn endpoints(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    each(name, watching, global, connection, |service, _look| {
        print::list(global.output, &service.endpoints)
    })
    .await
}

async fn all_events(
    name: &str,
    watching: WatchOption,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    each(
        name,
        watching,
        global,
        connection,
        |service, look| match global.output {
            Form::Table | Form::Wide => {
                print::text(events(service, look, usize::MAX).trim_start_matches('\n'))
            }
            Form::Json => print::text(&print::json(&service.events)?),
            Form::Yaml => print::text(&print::yaml(&service.events)?),
            Form::Name => print::text(
                &service
                    .events
                    .iter()
                    .map(|event| format!("{}\n", event.kind))
                    .collect::<String>(),
            ),
        },
    )
    .await
}

async fn explain(name: &str, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    let service = ServiceName {
        project: global.project().to_owned(),
        name: name.to_owned(),
    };
    match connection
        .ask(Ask::Service(AskService::Explain(service)))
        .await
    {
        Ok(Reply::Lines(lines)) => print::lines(global.output, &lines),
        Ok(other) => Err(unexpected(kind_of(&other))),
        Err(failure) if failure.is_not_found() => {
            Err(with_proposal(failure, global.project(), name, connection).await)
        }
        Err(failure) => Err(failure),
    }
}
