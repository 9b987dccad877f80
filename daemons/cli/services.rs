//! `services`: create, look at, scale, kill, update, delete.

use std::io::Read;

use clap::{Args, Subcommand};
use xce_config::service_file::{Context, resolve};
use xce_model::JobId;
use xce_model::limits::REPLICAS_MAX;
use xce_model::spec::ServiceSpec;
use xce_session::wire::{Ask, AskService, ServiceName};

use super::arguments::{ChangeOptions, Global, WatchOption};
use super::connection::Connection;
use super::failure::Failure;
use super::services_shown::{all_events, endpoints, explain, list, show, with_proposal};
use super::{account, print, wait};

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
