//! Services: create, read, and commands for their actors.

use xce_ledger::{Answer, Created, Precondition, View};
use xce_model::spec::ServiceSpec;
use xce_model::{JobId, OperationId, Refusal, ServiceId};
use xce_profile::Purpose;
use xce_service::ServiceFact;
use xce_service::rules::{Command, Which, check_spec};
use xce_session::policy_wire::ServiceRequest;
use xce_session::wire::{Accepted, AskService, Reply, ServiceName};

use super::{Caller, needs_primary, planning, profiles, refusal_of};
use crate::views::Seer;
use crate::{checking, service};

pub async fn answer(caller: &Caller<'_>, ask: AskService) -> Result<Reply, Refusal> {
    match ask {
        AskService::Create(request) => {
            if let Some(answer) = created_before(caller, &request.name) {
                return Ok(answer);
            }
            let spec = profiles::service_spec(caller, &request, Purpose::Create)?;
            create(caller, spec).await
        }
        AskService::List { .. } | AskService::Show(_) | AskService::Explain(_) => {
            let view = caller.control.view();
            read(&view, &caller.control.seer(&view), &ask)
        }
        AskService::Kill { name, index } => {
            let cause = xce_model::Cause::TermOwner;
            command(
                caller,
                &name,
                Command::Kill {
                    which: Which::Index(index),
                    cause,
                },
                "kill",
            )
            .await
        }
        AskService::Scale {
            name,
            desired,
            remove,
        } => scale(caller, &name, desired, remove).await,
        AskService::Delete(name) => command(caller, &name, Command::Delete, "delete").await,
        AskService::Update {
            request,
            take_count,
        } => update(caller, &request, take_count).await,
        AskService::Patch {
            request,
            unset,
            take_count,
        } => patch(caller, &request, &unset, take_count).await,
        AskService::Resolved(name) => profiles::resolved(caller, &name),
        AskService::Pause(name) => command(caller, &name, Command::Pause, "pause").await,
        AskService::Resume(name) => command(caller, &name, Command::Resume, "resume").await,
        AskService::Rollback { name, to } => {
            command(caller, &name, Command::Rollback { to }, "rollback").await
        }
        AskService::Restart(name) => command(caller, &name, Command::Restart, "restart").await,
        AskService::History { name, version } => planning::history(caller, &name, version),
        AskService::Endpoints { .. } => Err(Refusal::new(
            xce_model::RefusalKind::Usage,
            "malformed_request",
            "reading endpoints is a request of its session",
        )),
    }
}

pub(super) fn check(caller: &Caller<'_>, spec: &ServiceSpec) -> Result<(), Refusal> {
    check_spec(spec)?;
    checking::single_copy(&caller.control.settings, &spec.template)?;
    checking::template(caller.principal, &spec.template)
}

async fn create(caller: &Caller<'_>, spec: ServiceSpec) -> Result<Reply, Refusal> {
    check(caller, &spec)?;
    let (name, project) = (spec.name.clone(), spec.project.clone());
    let control = caller.control;
    let room = Precondition::Room {
        jobs: u64::from(spec.replicas.unwrap_or(1)),
    };
    let free = Precondition::NameFree {
        project,
        name: name.clone(),
    };
    let fact = ServiceFact::Created {
        spec: Box::new(spec),
        author: caller.name().to_owned(),
        operation: caller
            .operation
            .map_or_else(OperationId::default, |operation| operation.id),
    };
    let group = control
        .group("create")
        .on_behalf(caller.name(), caller.operation)
        .given(free)
        .given(room)
        .with(fact);
    let committed = control.commit(&group).await.map_err(refusal_of)?;
    Ok(created(&name, &committed.answer))
}

/// The first answer of a creation that is repeated, whatever became of its profile.
fn created_before(caller: &Caller<'_>, name: &str) -> Option<Reply> {
    let operation = caller.operation?;
    let answer = caller.control.view().answer(caller.name(), operation.id)?;
    Some(created(name, &answer))
}

fn created(name: &str, answer: &Answer) -> Reply {
    let id = answer.created.iter().find_map(|created| match created {
        Created::Service(id) => Some(*id),
        Created::Job(_) | Created::Replicas { .. } | Created::Session(_) => None,
    });
    let text = format!("service {name} created");
    let ids = id.map(|id| id.to_string()).into_iter().collect();
    Reply::Accepted(Accepted {
        lsn: answer.lsn,
        ids,
        text,
    })
}

pub(super) fn find(caller: &Caller<'_>, name: &ServiceName) -> Result<ServiceId, Refusal> {
    find_service(&caller.control.view(), name)
}

/// The service that bears a name now.
pub(crate) fn find_service(view: &View, name: &ServiceName) -> Result<ServiceId, Refusal> {
    match view.service_named(&name.project, &name.name) {
        Some(service) => Ok(service.id),
        None => {
            let shown: String = name
                .name
                .chars()
                .take(64)
                .flat_map(char::escape_default)
                .collect();
            Err(Refusal::not_found(
                "service",
                format_args!("{shown}` in project `{}", name.project),
            ))
        }
    }
}

/// Answers from one position, whoever leads.
pub(super) fn read(view: &View, seer: &Seer<'_>, ask: &AskService) -> Result<Reply, Refusal> {
    match ask {
        AskService::List { project } => {
            let project = project.as_deref();
            let services = view.services().values();
            let wanted = services
                .filter(|service| project.is_none_or(|project| service.project == project))
                .filter_map(|service| seer.service(service.id));
            Ok(Reply::Services(wanted.collect()))
        }
        AskService::Show(name) => {
            let shown = seer.service(find_service(view, name)?);
            Ok(Reply::Services(shown.into_iter().collect()))
        }
        AskService::Explain(name) => Ok(Reply::Lines(seer.explain(find_service(view, name)?))),
        AskService::Create(_)
        | AskService::Scale { .. }
        | AskService::Delete(_)
        | AskService::Kill { .. }
        | AskService::Update { .. }
        | AskService::Pause(_)
        | AskService::Resume(_)
        | AskService::Rollback { .. }
        | AskService::Restart(_)
        | AskService::Endpoints { .. }
        | AskService::History { .. }
        | AskService::Patch { .. }
        | AskService::Resolved(_) => Err(needs_primary()),
    }
}

async fn command(
    caller: &Caller<'_>,
    name: &ServiceName,
    command: Command,
    cause: &'static str,
) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let id = find(caller, name)?;
    let (principal, operation) = (caller.name(), caller.operation);
    service::command(caller.control, id, command, cause, principal, operation)
        .await
        .map(Reply::Accepted)
}

async fn update(
    caller: &Caller<'_>,
    request: &ServiceRequest,
    take_count: bool,
) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let spec = profiles::service_spec(caller, request, Purpose::Update)?;
    check(caller, &spec)?;
    let name = ServiceName {
        project: spec.project.clone(),
        name: spec.name.clone(),
    };
    let update = Command::Update {
        spec: Box::new(spec),
        take_count,
    };
    command(caller, &name, update, "update").await
}

/// How often single values are put on top of a service that changes meanwhile.
/// Source: chosen; each time somebody else was faster, which people are not so often in a row.
const PATCH_TRIES: u32 = 5;

async fn patch(
    caller: &Caller<'_>,
    request: &ServiceRequest,
    unset: &[String],
    take_count: bool,
) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let mut tries = 0;
    loop {
        tries += 1;
        let (id, spec, base) = profiles::patched(caller, request, unset)?;
        check(caller, &spec)?;
        let amend = Command::Amend {
            spec: Box::new(spec),
            base,
            take_count,
        };
        let (principal, operation) = (caller.name(), caller.operation);
        let answer = service::command(caller.control, id, amend, "update", principal, operation);
        match answer.await {
            Err(refusal) if refusal.code == "changed" && tries < PATCH_TRIES => {}
            answer => return answer.map(Reply::Accepted),
        }
    }
}

async fn scale(
    caller: &Caller<'_>,
    name: &ServiceName,
    desired: u32,
    remove: Vec<JobId>,
) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let id = find(caller, name)?;
    profiles::check_scale(&caller.control.view(), id, desired)?;
    command(caller, name, Command::Scale { desired, remove }, "scale").await
}
