//! Profiles, projects and queues: merging what is asked for, caps, and the policies themselves.
//!
//! Names are looked up when a request comes, and never again: what is resolved is what is kept.

use xce_ledger::{PolicyFact, PolicyRecord, Precondition, View};
use xce_model::spec::{JobSpec, ServiceSpec};
use xce_model::{OperationId, Refusal, RefusalKind, ServiceId};
use xce_profile::caps::{check_count, check_job, check_service};
use xce_profile::document::{JobFile, ServiceFile};
use xce_profile::layers::{self, Between};
use xce_profile::policy::{read_json, unknown};
use xce_profile::{
    Leaves, OwnedCaps, Path, PolicyFile, PolicyKind, ProfileKind, Purpose, defaults, refusal,
    resolve,
};
use xce_service::rules::Base;
use xce_session::policy_wire::{AskPolicy, JobRequest, PolicyView, ResolvedValue, ServiceRequest};
use xce_session::wire::{Accepted, Reply, ServiceName};

use super::{Caller, refusal_of, services};
use crate::views::time;

/// The specification that a request for a service means, checked against caps.
pub(super) fn service_spec(
    caller: &Caller<'_>,
    request: &ServiceRequest,
    purpose: Purpose,
) -> Result<ServiceSpec, Refusal> {
    let view = caller.control.view();
    let mut file: ServiceFile = read_json(&request.document)?;
    file.name = Some(request.name.clone());
    file.project = Some(request.project.clone());
    let project = policy(&view, PolicyKind::Project, &request.project)?;
    let of_project = project.and_then(|project| project.service);
    let named = of_project.as_ref().and_then(|file| file.profile.clone());
    let wanted = file.profile.clone().or(named);
    let name = wanted.unwrap_or_else(|| defaults::SERVICE_PROFILE.to_owned());
    let of_profile = profile(&view, &name, ProfileKind::Service)?.service;
    let between = Between {
        profile: of_profile.as_ref().map(|file| (&*name, file)),
        project: of_project.as_ref().map(|file| (&*request.project, file)),
    };
    let leaves = layers::service(&request.run_as, between, &file);
    finish(&view, &leaves, request, purpose)
}

/// The specification that single values make of a service, and what it was made of.
pub(super) fn patched(
    caller: &Caller<'_>,
    request: &ServiceRequest,
    unset: &[String],
) -> Result<(ServiceId, ServiceSpec, Base), Refusal> {
    let name = ServiceName {
        project: request.project.clone(),
        name: request.name.clone(),
    };
    let id = services::find(caller, &name)?;
    let view = caller.control.view();
    let Some(service) = view.service(id) else {
        return Err(Refusal::not_found("service", &name.name));
    };
    let file: ServiceFile = read_json(&request.document)?;
    let fixed = [
        ("name", file.name.as_ref(), &service.name),
        ("project", file.project.as_ref(), &service.project),
        ("profile", file.profile.as_ref(), &service.profile),
    ];
    for (field, given, kept) in fixed {
        if given.is_some_and(|given| given != kept) {
            let text = format!("`{field}` cannot be changed by itself: give the whole file");
            return Err(Refusal::new(RefusalKind::Usage, "not_a_single_value", text));
        }
    }
    let current = service.resolved();
    let mut leaves = layers::patch(&current, &request.run_as, &file);
    take_out(&mut leaves, unset)?;
    let mut request = request.clone();
    if file.user.is_none() {
        request.run_as.user = current.template.user;
    }
    let spec = finish(&view, &leaves, &request, Purpose::Update)?;
    Ok((id, spec, Base::of(service)))
}

/// Takes values out by name; one that is not there is a slip of whoever asks.
fn take_out(leaves: &mut Leaves, unset: &[String]) -> Result<(), Refusal> {
    if let Some(missing) = unset.iter().find(|name| leaves.source(name).is_none()) {
        let text = format!("`{missing}` is not set, so it cannot be taken out");
        return Err(Refusal::new(RefusalKind::Usage, "not_set", text));
    }
    let paths: Vec<Path> = unset.iter().map(|name| Path::of(name)).collect();
    leaves.drop_all(&paths);
    Ok(())
}

fn finish(
    view: &View,
    leaves: &Leaves,
    request: &ServiceRequest,
    purpose: Purpose,
) -> Result<ServiceSpec, Refusal> {
    let spec = resolve::service(leaves, &request.run_as.user, purpose)
        .map_err(|problems| refusal(&problems))?;
    check_service(&spec, &caps(view, &spec.project, &spec.queue)?)?;
    Ok(spec)
}

/// The specification that a request for a job means, checked against caps.
pub(super) fn job_spec(caller: &Caller<'_>, request: &JobRequest) -> Result<JobSpec, Refusal> {
    let view = caller.control.view();
    let mut file: JobFile = read_json(&request.document)?;
    file.project = Some(request.project.clone());
    let project = policy(&view, PolicyKind::Project, &request.project)?;
    let of_project = project.and_then(|project| project.batch);
    let named = of_project.as_ref().and_then(|file| file.profile.clone());
    let wanted = file.profile.clone().or(named);
    let name = wanted.unwrap_or_else(|| defaults::BATCH_PROFILE.to_owned());
    let of_profile = profile(&view, &name, ProfileKind::Batch)?.batch;
    let between = Between {
        profile: of_profile.as_ref().map(|file| (&*name, file)),
        project: of_project.as_ref().map(|file| (&*request.project, file)),
    };
    let leaves = layers::job(&request.run_as, between, &file);
    let spec = resolve::job(&leaves, &request.run_as.user, Purpose::Create)
        .map_err(|problems| refusal(&problems))?;
    check_job(&spec, &caps(&view, &spec.project, &spec.queue)?)?;
    Ok(spec)
}

/// Checks a count that a service is scaled to.
pub(super) fn check_scale(view: &View, id: ServiceId, desired: u32) -> Result<(), Refusal> {
    let Some(service) = view.service(id) else {
        return Ok(());
    };
    // A queue that was deleted meanwhile caps nothing any more.
    let queue = policy(view, PolicyKind::Queue, &service.current().spec.queue)?;
    let project = policy(view, PolicyKind::Project, &service.project)?;
    let sets = [("queue", queue), ("project", project)];
    check_count(desired, &owned(sets))
}

/// The caps of a project and of a queue, which must exist.
fn caps(view: &View, project: &str, queue: &str) -> Result<Vec<OwnedCaps>, Refusal> {
    let found = policy(view, PolicyKind::Queue, queue)?;
    if found.is_none() {
        return Err(unknown(
            PolicyKind::Queue,
            queue,
            &known(view, PolicyKind::Queue),
        ));
    }
    let project = policy(view, PolicyKind::Project, project)?;
    Ok(owned([("queue", found), ("project", project)]))
}

fn owned(sets: [(&str, Option<PolicyFile>); 2]) -> Vec<OwnedCaps> {
    let of = |(kind, file): (&str, Option<PolicyFile>)| {
        let file = file?;
        let owner = format!("{kind} {}", file.name);
        file.caps.map(|caps| OwnedCaps { owner, caps })
    };
    sets.into_iter().filter_map(of).collect()
}

fn profile(view: &View, name: &str, kind: ProfileKind) -> Result<PolicyFile, Refusal> {
    let of_kind: Vec<&str> = known(view, PolicyKind::Profile)
        .into_iter()
        .filter(|name| matches!(policy(view, PolicyKind::Profile, name), Ok(Some(file)) if file.kind == Some(kind)))
        .collect();
    match policy(view, PolicyKind::Profile, name)? {
        Some(found) if found.kind == Some(kind) => Ok(found),
        Some(found) => {
            let text = format!(
                "profile `{name}` is of kind {}, one of kind {} is needed (known: {})",
                found.kind.map_or("none", ProfileKind::word),
                kind.word(),
                of_kind.join(", ")
            );
            Err(Refusal::new(RefusalKind::Usage, "wrong_profile_kind", text))
        }
        None => Err(unknown(PolicyKind::Profile, name, &of_kind)),
    }
}

/// A policy that somebody defined, or one that is built in.
fn policy(view: &View, kind: PolicyKind, name: &str) -> Result<Option<PolicyFile>, Refusal> {
    match view.policy(kind, name) {
        Some(record) => PolicyFile::parse(&record.document).map(Some),
        None => Ok(PolicyFile::built_in(kind, name)),
    }
}

fn known(view: &View, kind: PolicyKind) -> Vec<&str> {
    let defined = view.policies().keys().filter(|(of, _)| *of == kind);
    let mut names: Vec<&str> = defined.map(|(_, name)| &**name).collect();
    names.extend(kind.built_in());
    names.sort_unstable();
    names.dedup();
    names
}

/// Every value of a service with where it came from.
pub(super) fn resolved(caller: &Caller<'_>, name: &ServiceName) -> Result<Reply, Refusal> {
    let id = services::find(caller, name)?;
    let view = caller.control.view();
    let Some(service) = view.service(id) else {
        return Err(Refusal::not_found("service", &name.name));
    };
    let leaves = layers::committed(&service.resolved());
    let value = |(path, value, source): (&xce_profile::Path, &_, &xce_model::Source)| {
        let path = path.to_string();
        let scaled = path == "replicas" && service.scaled_by_operator;
        ResolvedValue {
            source: if scaled {
                "scale".to_owned()
            } else {
                source.to_string()
            },
            path,
            value: serde_json::Value::to_string(value),
        }
    };
    Ok(Reply::Resolved(leaves.iter().map(value).collect()))
}

/// Answers what is asked about policies.
pub(super) async fn answer(caller: &Caller<'_>, ask: AskPolicy) -> Result<Reply, Refusal> {
    match ask {
        AskPolicy::Set {
            kind,
            name,
            document,
            update,
        } => set(caller, kind, &name, (&document, update)).await,
        AskPolicy::Show { kind, name } => {
            let view = caller.control.view();
            match seen(&view, kind, &name) {
                Some(shown) => Ok(Reply::Policies(vec![shown])),
                None => Err(unknown(kind, &name, &known(&view, kind))),
            }
        }
        AskPolicy::List(kind) => {
            let view = caller.control.view();
            let names = known(&view, kind).into_iter();
            let rows = names.filter_map(|name| seen(&view, kind, name)).collect();
            Ok(Reply::Policies(rows))
        }
        AskPolicy::Delete { kind, name } => delete(caller, kind, &name).await,
    }
}

fn seen(view: &View, kind: PolicyKind, name: &str) -> Option<PolicyView> {
    let built_in = PolicyFile::built_in(kind, name);
    let record: Option<&PolicyRecord> = view.policy(kind, name).map(|record| &**record);
    let document = match (record, &built_in) {
        (Some(record), _) => record.document.clone(),
        (None, Some(file)) => file.canonical(),
        (None, None) => return None,
    };
    Some(PolicyView {
        kind,
        name: name.to_owned(),
        built_in: built_in.is_some(),
        generation: record.map_or(0, |record| record.generation),
        author: record.map_or_else(String::new, |record| record.author.clone()),
        time: record.map_or_else(String::new, |record| time(record.time)),
        services: users(view, kind, name),
        document,
    })
}

/// Services that name a policy now.
fn users(view: &View, kind: PolicyKind, name: &str) -> u32 {
    let services = view.services().values().filter(|service| match kind {
        PolicyKind::Profile => service.profile == name,
        PolicyKind::Project => service.project == name,
        PolicyKind::Queue => service.current().spec.queue == name,
    });
    u32::try_from(services.count()).unwrap_or(u32::MAX)
}

fn operation_id(caller: &Caller<'_>) -> OperationId {
    caller
        .operation
        .map_or_else(OperationId::default, |operation| operation.id)
}

async fn set(
    caller: &Caller<'_>,
    kind: PolicyKind,
    name: &str,
    (document, update): (&str, bool),
) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let file = PolicyFile::parse(document)?;
    if file.name != name {
        let text = format!(
            "the document is of {} `{}`, the request of `{name}`: both name the same",
            kind.word(),
            xce_profile::checks::shown(&file.name)
        );
        return Err(Refusal::new(RefusalKind::Usage, "other_name", text));
    }
    file.check(kind)?;
    let view = caller.control.view();
    let before = view.policy(kind, name);
    let is_there = before.is_some() || PolicyFile::built_in(kind, name).is_some();
    if is_there && !update {
        let text = format!("{} `{name}` exists already: use update", kind.word());
        return Err(Refusal::refused("name_in_use", text));
    }
    if !is_there && update {
        return Err(unknown(kind, name, &known(&view, kind)));
    }
    check_kind_kept(before.map(|record| &**record), &file)?;
    let fact = PolicyFact::Set {
        kind,
        name: name.to_owned(),
        document: file.canonical(),
        generation: before.map_or(1, |record| record.generation.saturating_add(1)),
        author: caller.name().to_owned(),
        operation: operation_id(caller),
    };
    let verb = if update { "updated" } else { "created" };
    let mut text = format!("{} {name} {verb}", kind.word());
    let used = users(&view, kind, name);
    if used > 0 {
        text += &format!("; {used} services that use it stay as they are until they are updated");
    }
    let changed = before.map_or(0, |record| record.changed);
    commit(caller, (kind, name, changed), fact, text).await
}

/// What a profile is for stays: services and jobs name it for that.
fn check_kind_kept(before: Option<&PolicyRecord>, file: &PolicyFile) -> Result<(), Refusal> {
    let Some(record) = before else { return Ok(()) };
    let old = PolicyFile::parse(&record.document)?;
    match (old.kind, file.kind) {
        (Some(old), Some(new)) if old != new => {
            let text = format!(
                "profile `{}` is of kind {}, which stays: delete it, or choose another name",
                file.name,
                old.word()
            );
            Err(Refusal::refused("wrong_profile_kind", text))
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

async fn delete(caller: &Caller<'_>, kind: PolicyKind, name: &str) -> Result<Reply, Refusal> {
    if let Some(answer) = caller.remembered() {
        return Ok(answer);
    }
    let view = caller.control.view();
    let built_in = PolicyFile::built_in(kind, name).is_some();
    let Some(record) = view.policy(kind, name) else {
        if built_in {
            let text = format!(
                "{} `{name}` is built in and says nothing, so there is nothing to delete",
                kind.word()
            );
            return Err(Refusal::refused("built_in", text));
        }
        return Err(unknown(kind, name, &known(&view, kind)));
    };
    let fact = PolicyFact::Removed {
        kind,
        name: name.to_owned(),
        author: caller.name().to_owned(),
        operation: operation_id(caller),
    };
    let mut text = format!("{} {name} deleted", kind.word());
    if built_in {
        text = format!("{} {name} is as it was built in", kind.word());
    }
    let used = users(&view, kind, name);
    if used > 0 {
        text += &format!("; {used} services that use it stay as they are");
        if kind != PolicyKind::Project && !built_in {
            text += &format!(", their next update must name another {}", kind.word());
        }
    }
    commit(caller, (kind, name, record.changed), fact, text).await
}

async fn commit(
    caller: &Caller<'_>,
    (kind, name, lsn): (PolicyKind, &str, u64),
    fact: PolicyFact,
    text: String,
) -> Result<Reply, Refusal> {
    let unchanged = Precondition::PolicyUnchanged {
        kind,
        name: name.to_owned(),
        lsn,
    };
    let group = caller
        .control
        .group("policy")
        .on_behalf(caller.name(), caller.operation)
        .given(unchanged)
        .with(fact);
    let committed = caller.control.commit(&group).await.map_err(refusal_of)?;
    Ok(Reply::Accepted(Accepted {
        lsn: committed.answer.lsn,
        ids: vec![name.to_owned()],
        text,
    }))
}
