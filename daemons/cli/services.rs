//! `services`: create, look at, scale, kill, update, delete.

use clap::{Args, Subcommand};
use xce_config::Faults;
use xce_config::service::{read_request, read_service};
use xce_model::JobId;
use xce_model::limits::REPLICAS_MAX;
use xce_profile::RunAs;
use xce_profile::document::ServiceFile;
use xce_session::policy_wire::ServiceRequest;
use xce_session::wire::{Ask, AskService, ServiceName};

use super::arguments::{ChangeOptions, Global, WatchOption};
use super::connection::Connection;
use super::failure::Failure;
use super::plan::PlanOption;
use super::services_shown::{explain, fetch, list, show, show_resolved, with_proposal};
use super::source::SourceFile;
use super::{account, endpoints, events, history, plan, print, updating, validate, wait};

/// What is done with services.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Looking.
    #[command(flatten)]
    Read(ReadVerb),
    /// Changing.
    #[command(flatten)]
    Change(ChangeVerb),
    /// Check service files, without a cluster: print every fault, and what is doubtful.
    Validate(validate::Options),
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
        /// Print each value that it has, and where that came from.
        #[arg(long, conflicts_with = "watch")]
        resolved: bool,
        /// Printing again.
        #[command(flatten)]
        watch: WatchOption,
    },
    /// Say why it is not where it should be.
    Explain {
        /// Its name.
        name: String,
    },
    /// List where clients reach it, and keep others up to date; `-o plain` gives `host:port` lines,
    /// `-o dns` lines of a zone.
    Endpoints(endpoints::Reading),
    /// List its last events.
    Events(events::Events),
    /// List its versions, or print what one of them runs.
    History(history::History),
    /// Print what creating or updating it from a file would do; writes nothing.
    ///
    /// Exit code 0 when it would be carried out, 1 when it would come to a halt.
    Plan {
        /// The service.
        #[command(flatten)]
        source: SourceFile,
        /// The file's count wins over an operator's.
        #[arg(long)]
        take_count: bool,
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
        /// Planning.
        #[command(flatten)]
        plan: PlanOption,
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
    /// Make a new version from a file or from single values.
    Update(Box<updating::Update>),
    /// Freeze the mix of versions.
    Pause(NamedChange),
    /// Let a paused, stuck or crashing service go on.
    Resume(NamedChange),
    /// Go back to an earlier version, as a new version.
    Rollback(Rollback),
    /// Replace all replicas by new ones of the same template.
    Restart(NamedChange),
}

/// A change by a file.
#[derive(Debug, Args)]
pub struct FileChange {
    /// The service.
    #[command(flatten)]
    pub source: SourceFile,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Going back to an earlier version.
#[derive(Debug, Args)]
pub struct Rollback {
    /// Name of the service.
    pub name: String,
    /// Version to copy [default: the last completed other than the current].
    #[arg(long, value_name = "VERSION")]
    pub to: Option<u32>,
    /// Let a paused service go on as well, so that the rollback starts at once.
    #[arg(long, conflicts_with = "plan")]
    pub resume: bool,
    /// Planning.
    #[command(flatten)]
    pub plan: PlanOption,
    /// Token and waiting.
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// A change of a named service.
#[derive(Debug, Args)]
pub struct NamedChange {
    /// Its name.
    pub name: String,
    /// Planning.
    #[command(flatten)]
    pub plan: PlanOption,
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
        Verb::Validate(options) => validate::online(&options, global, connection).await,
    }
}

async fn read(verb: ReadVerb, global: &Global, connection: &mut Connection) -> Result<(), Failure> {
    match verb {
        ReadVerb::List {
            all_projects,
            watch,
        } => list(all_projects, watch, global, connection).await,
        ReadVerb::Show {
            name,
            resolved: true,
            ..
        } => show_resolved(&name, global, connection).await,
        ReadVerb::Show { name, watch, .. } => show(&name, watch, global, connection).await,
        ReadVerb::Explain { name } => explain(&name, global, connection).await,
        ReadVerb::Endpoints(reading) => endpoints::run(reading, global, connection).await,
        ReadVerb::Events(asked) => events::run(&asked, global, connection).await,
        ReadVerb::History(asked) => history::run(&asked, global, connection).await,
        ReadVerb::Plan { source, take_count } => {
            let ask = create_or_update(&source, take_count, global, connection).await?;
            plan::run(ask, global, connection).await
        }
    }
}

fn change_of(verb: ChangeVerb, global: &Global) -> Result<Change, Failure> {
    let service = |name: String| ServiceName {
        project: global.project().to_owned(),
        name,
    };
    let simple = |named: NamedChange, ask: fn(ServiceName) -> AskService| {
        let name = service(named.name);
        Change {
            plan: named.plan.plan,
            ..Change::new(ask(name.clone()), name, named.change)
        }
    };
    Ok(match verb {
        ChangeVerb::Create(file) => {
            let (request, suspects) = read_suspecting(&file.source, global)?;
            let name = name_of(&request);
            Change {
                suspects,
                ..Change::new(AskService::Create(Box::new(request)), name, file.change)
            }
        }
        ChangeVerb::Update(asked) => {
            let (ask, name) = asked.request(global)?;
            Change {
                plan: asked.plan.plan,
                ..Change::new(ask, name, asked.change)
            }
        }
        ChangeVerb::Scale {
            name,
            replicas,
            remove,
            plan,
            change,
        } => {
            let name = service(name);
            let ask = AskService::Scale {
                name: name.clone(),
                desired: replicas,
                remove,
            };
            Change {
                plan: plan.plan,
                ..Change::new(ask, name, change)
            }
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
        ChangeVerb::Rollback(asked) => rollback(asked, service),
        ChangeVerb::Delete(named) => Change {
            gone: true,
            ..simple(named, AskService::Delete)
        },
        ChangeVerb::Pause(named) => simple(named, AskService::Pause),
        ChangeVerb::Resume(named) => simple(named, AskService::Resume),
        ChangeVerb::Restart(named) => simple(named, AskService::Restart),
    })
}

fn rollback(asked: Rollback, service: impl Fn(String) -> ServiceName) -> Change {
    let name = service(asked.name);
    let ask = AskService::Rollback {
        name: name.clone(),
        to: asked.to,
    };
    Change {
        plan: asked.plan.plan,
        resume: asked.resume,
        ..Change::new(ask, name, asked.change)
    }
}

/// The service that a request is about.
pub fn name_of(spec: &ServiceRequest) -> ServiceName {
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
    /// Whether it is resumed afterwards.
    resume: bool,
    /// Whether it is only planned.
    plan: bool,
    /// What is wrong with its file unless a profile or project gives what the file leaves out.
    suspects: Option<Faults>,
}

impl Change {
    fn new(ask: AskService, service: ServiceName, options: ChangeOptions) -> Self {
        Self {
            ask,
            service,
            options,
            gone: false,
            resume: false,
            plan: false,
            suspects: None,
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
        resume,
        plan,
        suspects,
    } = change;
    let ServiceName { project, name } = &service;
    if plan {
        let names_version = matches!(&ask, AskService::Rollback { to: Some(_), .. });
        return match plan::run(ask, global, connection).await {
            Err(failure) if failure.is_not_found() && !names_version => {
                Err(with_proposal(failure, project, name, connection).await)
            }
            outcome => outcome,
        };
    }
    let operation = options.operation(connection)?;
    let mut accepted = match connection.change(Ask::Service(ask), operation).await {
        Ok(accepted) => accepted,
        Err(failure) if failure.is_not_found() => {
            return Err(with_proposal(failure, project, name, connection).await);
        }
        Err(failure) => return Err(placed(failure, suspects)),
    };
    if resume {
        let operation = options.second_operation(connection)?;
        let ask = Ask::Service(AskService::Resume(service.clone()));
        let resumed = connection.change(ask, operation).await?;
        accepted.lsn = accepted.lsn.max(resumed.lsn);
        accepted.text = format!("{}; {}", accepted.text, resumed.text);
    }
    if gone && options.wait.wait {
        // Said when it is so; what is waited for goes to stderr meanwhile.
        wait::deleted(connection, project, name, options.wait).await?;
        accepted.text = format!("service {name} is deleted");
        return print::accepted(global.output, &accepted, name);
    }
    print::accepted(global.output, &accepted, name)?;
    if gone {
        return Ok(());
    }
    wait::steady(connection, project, name, options.wait).await
}

/// The request that makes a service be as a file says.
async fn create_or_update(
    source: &SourceFile,
    take_count: bool,
    global: &Global,
    connection: &mut Connection,
) -> Result<AskService, Failure> {
    let request = Box::new(read_file(source, global)?);
    ask_of(request, take_count, connection).await
}

/// The change that makes a service be as a request says: a creation, or an update where it is.
///
/// # Errors
/// See [`Failure`].
pub async fn ask_of(
    request: Box<ServiceRequest>,
    take_count: bool,
    connection: &mut Connection,
) -> Result<AskService, Failure> {
    match fetch(connection, &request.project, &request.name).await {
        Ok(_) => Ok(AskService::Update {
            request,
            take_count,
        }),
        Err(failure) if failure.is_not_found() => Ok(AskService::Create(request)),
        Err(failure) => Err(failure),
    }
}

/// The request that a file means. Defaults are merged by the controller, which knows the profiles.
///
/// # Errors
/// When the file cannot be read or has faults.
pub fn read_file(source: &SourceFile, global: &Global) -> Result<ServiceRequest, Failure> {
    read_suspecting(source, global).map(|(request, _)| request)
}

/// As [`read_file`], with the faults that the file has where no profile or project mends them.
fn read_suspecting(
    source: &SourceFile,
    global: &Global,
) -> Result<(ServiceRequest, Option<Faults>), Failure> {
    let text = source.read()?;
    let document = text.document();
    let knows_user = |name: &str| account::find(name).is_some();
    let suspects = read_service(&document, &knows_user).err();
    let file = match read_request(&document, &knows_user) {
        Ok(file) => file,
        // What is wrong for certain is among what may be.
        Err(certain) => {
            let faults = suspects.unwrap_or(certain);
            return Err(Failure::Usage(faults.to_string()));
        }
    };
    Ok((request_of(&file, global)?, suspects))
}

/// A refused specification with the places in its file, where those are known.
fn placed(failure: Failure, suspects: Option<Faults>) -> Failure {
    match (failure, suspects) {
        (Failure::Refused(refusal), Some(faults)) if refusal.code == "bad_specification" => {
            Failure::Usage(faults.to_string())
        }
        (failure, Some(_) | None) => failure,
    }
}

/// The request that a document means; the user of a document is one of this machine.
///
/// # Errors
/// When this machine does not know the user.
pub fn request_of(file: &ServiceFile, global: &Global) -> Result<ServiceRequest, Failure> {
    let account = match &file.user {
        Some(name) => account::find(name)
            .ok_or_else(|| Failure::Usage(format!("there is no user `{name}` on this machine")))?,
        None => account::caller()?,
    };
    let project = global.project.as_deref().or(file.project.as_deref());
    let project = project.unwrap_or(global.project()).to_owned();
    let name = file.name.clone().unwrap_or_default();
    Ok(ServiceRequest::of(
        file,
        &name,
        &project,
        RunAs::service(&account),
    ))
}
