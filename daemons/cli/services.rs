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
    /// Looking.
    #[command(flatten)]
    Read(ReadVerb),
    /// Changing.
    #[command(flatten)]
    Change(ChangeVerb),
}

/// How services are looked at.
#[derive(Debug, Subcommand)]
pub enum ReadVerb {
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
    /// Say why it is not where it should be.
    Explain {
        /// Its name.
        name: String,
    },
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

/// How services are changed.
#[derive(Debug, Subcommand)]
pub enum ChangeVerb {
    /// Create a service from a file.
    Create(FileChange),
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
    match verb {
        Verb::Read(verb) => read(verb, global, connection).await,
        Verb::Change(verb) => {
            let change = change_of(verb, global)?;
            carry_out(change, global, connection).await
        }
    }
}

async fn read(verb: ReadVerb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        ReadVerb::List {
            all_projects,
            watch,
        } => list(all_projects, watch, global, connection).await,
        ReadVerb::Show { name, watch } => show(&name, watch, global, connection).await,
        ReadVerb::Explain { name } => explain(&name, global, connection).await,
        ReadVerb::Endpoints { name, watch } => endpoints(&name, watch, global, connection).await,
        ReadVerb::Events { name, watch } => all_events(&name, watch, global, connection).await,
    }
}

fn change_of(verb: ChangeVerb, global: &Global) -> Result<Change, Failure> {
    let service = |name: String| ServiceName {
        project: global.project().to_owned(),
        name,
    };
    let simple = |named: NamedChange, ask: fn(ServiceName) -> AskService| {
        let name = service(named.name);
        Change::new(ask(name.clone()), name, named.change)
    };
    Ok(match verb {
        ChangeVerb::Create(file) => {
            let mut spec = read_file(&file.file, global)?;
            spec.replicas.get_or_insert(xce_config::defaults::REPLICAS);
            let name = name_of(&spec);
            Change::new(AskService::Create(Box::new(spec)), name, file.change)
        }
        ChangeVerb::Update { file, take_count } => {
            let spec = Box::new(read_file(&file.file, global)?);
            let name = name_of(&spec);
            Change::new(AskService::Update { spec, take_count }, name, file.change)
        }
        ChangeVerb::Scale {
            name,
            replicas,
            remove,
            change,
        } => {
            let name = service(name);
            let ask = AskService::Scale {
                name: name.clone(),
                desired: replicas,
                remove,
            };
            Change::new(ask, name, change)
        }
        ChangeVerb::Kill {
            name,
            index,
            change,
        } => {
            let name = service(name);
            let ask = AskService::Kill {
                name: name.clone(),
                index,
            };
            Change::new(ask, name, change)
        }
        ChangeVerb::Rollback { name, to, change } => {
            let name = service(name);
            let ask = AskService::Rollback {
                name: name.clone(),
                to,
            };
            Change::new(ask, name, change)
        }
        ChangeVerb::Delete(named) => Change {
            gone: true,
            ..simple(named, AskService::Delete)
        },
        ChangeVerb::Pause(named) => simple(named, AskService::Pause),
        ChangeVerb::Resume(named) => simple(named, AskService::Resume),
        ChangeVerb::Restart(named) => simple(named, AskService::Restart),
    })
}

fn name_of(spec: &ServiceSpec) -> ServiceName {
    ServiceName {
        project: spec.project.clone(),
        name: spec.name.clone(),
    }
}

/// One change of a service, and what is waited for after it.
struct Change {
    ask: AskService,
    service: ServiceName,
    options: ChangeOptions,
    /// Whether the service is to be gone, else steady.
    gone: bool,
}

impl Change {
    fn new(ask: AskService, service: ServiceName, options: ChangeOptions) -> Self {
        Self {
            ask,
            service,
            options,
            gone: false,
        }
    }
}

async fn carry_out(
    change: Change,
    global: &Global,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let Change {
        ask,
        service,
        options,
        gone,
    } = change;
    let ServiceName { project, name } = &service;
    let operation = options.operation(connection)?;
    let accepted = match connection.change(Ask::Service(ask), operation).await {
        Ok(accepted) => accepted,
        Err(failure) if failure.is_not_found() => {
            return Err(with_proposal(failure, project, name, connection).await);
        }
        Err(failure) => return Err(failure),
    };
    print::accepted(global.output, &accepted, name)?;
    if gone {
        wait::deleted(connection, project, name, options.wait).await
    } else {
        wait::steady(connection, project, name, options.wait).await
    }
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
