//! Questions about changes that were not made, and about those that were: plans and histories.

use xce_deciding::schedule::queues;
use xce_model::spec::{ServiceSpec, Template};
use xce_model::{OperationId, Refusal, RefusalKind, Version};
use xce_planning::{Bounds, Question, Wanted, plan};
use xce_profile::Purpose;
use xce_service::VersionRecord;
use xce_service::rules::{Author, Command, Which};
use xce_service::view::VersionView;
use xce_session::history::VersionDetails;
use xce_session::wire::{AskService, Reply, ServiceName};

use super::{Caller, profiles, services};
use crate::views::time;

/// Longest command in a summary, in characters. Source: chosen, half a line.
const SUMMARY_CHARS: usize = 60;

/// Answers what would become of a change.
pub async fn answer(caller: &Caller<'_>, ask: AskService) -> Result<Reply, Refusal> {
    let wanted = wanted(caller, ask)?;
    let view = caller.control.view();
    let (now, wall) = caller.control.times();
    let author = Author {
        user: caller.name().to_owned(),
        operation: OperationId::default(),
    };
    // A large service takes its time, which is no other session's.
    let planned = tokio::task::spawn_blocking(move || {
        let question = Question {
            view: &view,
            queues: &queues(&view),
            now,
            wall,
            bounds: Bounds::default(),
        };
        plan(&question, wanted, &author)
    });
    let planned = planned.await.map_err(|_| {
        let text = "the plan could not be made: the fault is logged";
        Refusal::new(RefusalKind::Unavailable, "planning_failed", text)
    })?;
    Ok(Reply::Plan(Box::new(planned?)))
}

/// The change that a request asks for, resolved and checked as the change itself would be.
fn wanted(caller: &Caller<'_>, ask: AskService) -> Result<Wanted, Refusal> {
    let change = |name: &ServiceName, command: Command| {
        let id = services::find(caller, name)?;
        Ok(Wanted::Change(id, Box::new(command)))
    };
    match ask {
        AskService::Create(request) => {
            let spec = profiles::service_spec(caller, &request, Purpose::Create)?;
            services::check(caller, &spec)?;
            Ok(Wanted::Create(Box::new(spec)))
        }
        AskService::Update {
            request,
            take_count,
        } => {
            let spec = profiles::service_spec(caller, &request, Purpose::Update)?;
            let spec = Box::new(spec);
            services::check(caller, &spec)?;
            let name = name_of(&spec);
            change(&name, Command::Update { spec, take_count })
        }
        AskService::Scale {
            name,
            desired,
            remove,
        } => {
            let id = services::find(caller, &name)?;
            profiles::check_scale(&caller.control.view(), id, desired)?;
            change(&name, Command::Scale { desired, remove })
        }
        AskService::Patch {
            request,
            unset,
            take_count,
        } => {
            let (id, spec, base) = profiles::patched(caller, &request, &unset)?;
            services::check(caller, &spec)?;
            let command = Command::Amend {
                spec: Box::new(spec),
                base,
                take_count,
            };
            Ok(Wanted::Change(id, Box::new(command)))
        }
        AskService::Rollback { name, to } => change(&name, Command::Rollback { to }),
        AskService::Restart(name) => change(&name, Command::Restart),
        AskService::Delete(name) => change(&name, Command::Delete),
        AskService::Pause(name) => change(&name, Command::Pause),
        AskService::Resume(name) => change(&name, Command::Resume),
        AskService::Kill { name, index } => {
            let (which, cause) = (Which::Index(index), xce_model::Cause::TermOwner);
            change(&name, Command::Kill { which, cause })
        }
        AskService::List { .. }
        | AskService::Show(_)
        | AskService::Explain(_)
        | AskService::Resolved(_)
        | AskService::Endpoints { .. }
        | AskService::History { .. } => {
            let text = "a reading request changes nothing, so that there is nothing to plan";
            Err(Refusal::new(RefusalKind::Usage, "nothing_to_plan", text))
        }
    }
}

fn name_of(spec: &ServiceSpec) -> ServiceName {
    ServiceName {
        project: spec.project.clone(),
        name: spec.name.clone(),
    }
}

/// The versions that are kept of a service, or one of them with its template.
pub fn history(
    caller: &Caller<'_>,
    name: &ServiceName,
    only: Option<Version>,
) -> Result<Reply, Refusal> {
    let id = services::find(caller, name)?;
    let view = caller.control.view();
    let Some(service) = view.service(id) else {
        return Err(Refusal::not_found("service", &name.name));
    };
    let current = service.current().number;
    let details = |version: &VersionRecord| details(version, current, only.is_some());
    let Some(number) = only else {
        let all = service.versions.iter().map(details).collect();
        return Ok(Reply::Versions(all));
    };
    match service.version(number) {
        Some(version) => Ok(Reply::Versions(vec![details(version)])),
        None => {
            let kept: Vec<String> = service
                .versions
                .iter()
                .map(|version| version.number.to_string())
                .collect();
            let text = format!("there is no version {number}; kept are {}", kept.join(", "));
            Err(Refusal::new(RefusalKind::NotFound, "not_found", text))
        }
    }
}

fn details(version: &VersionRecord, current: Version, whole: bool) -> VersionDetails {
    let template = &version.spec.template;
    VersionDetails {
        version: VersionView {
            number: version.number,
            reason: version.reason,
            author: version.author.clone(),
            time: time(version.time),
            outcome: version.outcome,
            want: version.want,
        },
        current: version.number == current,
        queue: version.spec.queue.clone(),
        summary: summary(template),
        times: version.times,
        template: whole.then(|| Box::new(template.clone())),
    }
}

/// Such as `nginx -g 'daemon off;', 0.5 cpus, 64MiB`.
fn summary(template: &Template) -> String {
    let whole = template.command.join(" ");
    let mut command: String = whole.chars().take(SUMMARY_CHARS).collect();
    if command.len() < whole.len() {
        command.push_str("...");
    }
    let resources = &template.resources;
    let mut text = format!("{command}, {} cpus, {}", resources.cpus, resources.memory);
    if !template.ports.is_empty() {
        let ports: Vec<&str> = template
            .ports
            .iter()
            .map(|port| port.name.as_str())
            .collect();
        text.push_str(&format!(", ports {}", ports.join(", ")));
    }
    text
}
