//! A merged document as a specification, or everything that is wrong with it.

use std::collections::BTreeMap;

use xce_model::limits::{ARRAY_ELEMENTS_MAX, NAME_BYTES_MAX, PORTS_MAX, REPLICAS_MAX, check_name};
use xce_model::spec::{
    JobSpec, PortSpec, ReplacementSettings, Resources, RestartMode, RestartPolicy, RolloutSettings,
    ServiceSettings, ServiceSpec, Spread, StopPolicy, Template, User,
};
use xce_model::{Millis, Source};

use crate::checks::{
    CRASHES_MAX, HISTORY_MAX, RESTARTS_MAX, command_fault, directory_fault, environment_fault,
    memory_fault, reference_fault, shown, variable_fault,
};
use crate::defaults;
use crate::document::{
    JobFile, PortFile, ReplacementFile, ResourcesFile, RestartFile, RolloutFile, ServiceFile,
    SpreadFile, SpreadMode, StopFile,
};
use crate::leaves::Leaves;
use crate::probing::probes;
use crate::problem::{Problem, Problems};

/// What a specification is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Something new: a count that nobody gives is the lowest layer's.
    Create,
    /// A change of what is there: only a count of the request is one.
    Update,
    /// Only to see whether defaults make sense: name, command and ports may still come from above.
    Defaults,
}

/// The specification of a service that leaves mean.
///
/// # Errors
/// Everything that is wrong, by name, with the profile or project that it came from.
pub fn service(
    leaves: &Leaves,
    user: &User,
    purpose: Purpose,
) -> Result<ServiceSpec, Vec<Problem>> {
    let file: ServiceFile = read(leaves)?;
    let mut problems = Problems::default();
    let template = template(&file, user, purpose, &mut problems);
    let settings = ServiceSettings {
        spread: spread(file.spread.as_ref(), &mut problems),
        rollout: rollout(file.rollout.as_ref(), &mut problems),
        replacement: replacement(file.replacement.as_ref(), &mut problems),
        labels: pairs("labels", file.labels.as_ref(), &mut problems),
    };
    let mut replicas = file.replicas;
    if let Some(count) = replicas.filter(|count| *count > REPLICAS_MAX) {
        let text = format!("{count} is not a whole number from 0 to {REPLICAS_MAX}");
        problems.add("replicas", text);
    }
    let asked = matches!(leaves.source("replicas"), Some(Source::Request(0)));
    if purpose == Purpose::Update && !asked {
        replicas = None;
    }
    let spec = ServiceSpec {
        name: name(&file.name, "service", purpose, &mut problems),
        project: named(&file.project, "project", defaults::PROJECT, &mut problems),
        queue: named(&file.queue, "queue", defaults::QUEUE, &mut problems),
        profile: named(
            &file.profile,
            "profile",
            defaults::SERVICE_PROFILE,
            &mut problems,
        ),
        replicas,
        template,
        settings,
        origins: leaves.origins(),
    };
    finish(spec, problems, leaves)
}

/// The specification of a job that leaves mean.
///
/// # Errors
/// As for [`service`].
pub fn job(leaves: &Leaves, user: &User, purpose: Purpose) -> Result<JobSpec, Vec<Problem>> {
    let file: JobFile = read(leaves)?;
    let mut problems = Problems::default();
    let runs = ServiceFile {
        command: file.command,
        env: file.env,
        cwd: file.cwd,
        user: file.user,
        resources: file.resources,
        ports: file.ports,
        restart: file.restart,
        stop: file.stop,
        run_limit: file.run_limit,
        constraints: file.constraints,
        single_copy: file.single_copy,
        ..ServiceFile::default()
    };
    let template = template(&runs, user, purpose, &mut problems);
    let array = file.array.map(|elements| elements.0);
    if let Some(count) = array
        .as_ref()
        .map(xce_model::spec::ArraySpec::count)
        .filter(|count| *count > ARRAY_ELEMENTS_MAX)
    {
        let text = format!("{count} elements are too many, at most {ARRAY_ELEMENTS_MAX}");
        problems.add("array", text);
    }
    let spec = JobSpec {
        name: name(&file.name, "job", purpose, &mut problems),
        project: named(&file.project, "project", defaults::PROJECT, &mut problems),
        queue: named(&file.queue, "queue", defaults::QUEUE, &mut problems),
        template,
        array,
        held: file.held.unwrap_or(false),
        rerunnable: file.rerunnable.unwrap_or(false),
    };
    finish(spec, problems, leaves)
}

fn read<T: serde::de::DeserializeOwned>(leaves: &Leaves) -> Result<T, Vec<Problem>> {
    leaves.document().map_err(|text| {
        vec![Problem {
            path: String::new(),
            text,
        }]
    })
}

fn finish<T>(spec: T, problems: Problems, leaves: &Leaves) -> Result<T, Vec<Problem>> {
    let problems = problems.attributed(leaves);
    if problems.is_empty() {
        Ok(spec)
    } else {
        Err(problems)
    }
}

fn name(given: &Option<String>, what: &str, purpose: Purpose, problems: &mut Problems) -> String {
    match given {
        Some(name) => {
            problems.check(
                "name",
                check_name(what, name).map_err(|refusal| refusal.text),
            );
            name.clone()
        }
        None => {
            if purpose != Purpose::Defaults {
                problems.add("name", format!("it is missing: the name of the {what}"));
            }
            String::new()
        }
    }
}

fn named(given: &Option<String>, what: &str, default: &str, problems: &mut Problems) -> String {
    let name = given.clone().unwrap_or_else(|| default.to_owned());
    problems.check(
        what,
        check_name(what, &name).map_err(|refusal| refusal.text),
    );
    name
}

fn template(
    file: &ServiceFile,
    user: &User,
    purpose: Purpose,
    problems: &mut Problems,
) -> Template {
    let ports = ports(file.ports.as_deref().unwrap_or_default(), problems);
    let known = (purpose != Purpose::Defaults).then_some(&*ports);
    let probes = probes(file.probes.as_ref(), known, problems);
    let command = file.command.clone().unwrap_or_default();
    match &file.command {
        Some(command) => problems.check("command", command_fault(command)),
        None if purpose == Purpose::Defaults => {}
        None => problems.add(
            "command",
            "it is missing: a list with the program and its arguments",
        ),
    }
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    if purpose != Purpose::Defaults {
        problems.check("command", reference_fault(&command, &names));
    }
    let env = file.env.clone().unwrap_or_default();
    for (name, value) in &env {
        problems.check("env", variable_fault(name, value));
    }
    problems.check("env", environment_fault(&env));
    if let Some(path) = &file.cwd {
        problems.check("cwd", directory_fault(path));
    }
    if let Some(name) = file.user.as_ref().filter(|name| **name != user.name) {
        let text = format!(
            "it is `{}`, the request was made for `{}`",
            shown(name),
            user.name
        );
        problems.add("user", text);
    }
    if file.run_limit == Some(Millis(0)) {
        problems.add(
            "run_limit",
            "a limit of 0 would let nothing run; leave it out for no limit",
        );
    }
    Template {
        command,
        env: env.into_iter().collect(),
        cwd: file.cwd.clone(),
        user: user.clone(),
        resources: resources(file.resources.as_ref(), problems),
        ports,
        probes,
        restart: restart(file.restart.as_ref(), problems),
        stop: stop(file.stop.as_ref()),
        run_limit: file.run_limit,
        constraints: pairs("constraints", file.constraints.as_ref(), problems),
        single_copy: file.single_copy.unwrap_or_default(),
    }
}

fn ports(files: &[PortFile], problems: &mut Problems) -> Vec<PortSpec> {
    let mut ports: Vec<PortSpec> = Vec::new();
    if files.len() > PORTS_MAX {
        let text = format!("{} ports, at most {PORTS_MAX} are allowed", files.len());
        problems.add("ports", text);
        return ports;
    }
    for file in files {
        problems.check(
            "ports",
            check_name("port", &file.name).map_err(|refusal| refusal.text),
        );
        if ports.iter().any(|known| known.name == file.name) {
            problems.add(
                "ports",
                format!("there are two ports `{}`", shown(&file.name)),
            );
        }
        let is_same = |known: &PortSpec| file.port.is_some() && known.port == file.port;
        if file.port == Some(0) {
            problems.add("ports", "0 is not a whole number from 1 to 65535");
        } else if ports.iter().any(is_same) {
            problems.add("ports", "two ports of one replica have the same number");
        }
        ports.push(PortSpec {
            name: file.name.clone(),
            port: file.port,
        });
    }
    ports
}

fn resources(file: Option<&ResourcesFile>, problems: &mut Problems) -> Resources {
    let default = defaults::SERVICE_RESOURCES;
    let memory = file.and_then(|file| file.memory).unwrap_or(default.memory);
    problems.check("resources.memory", memory_fault(memory));
    Resources {
        cpus: file.and_then(|file| file.cpus).unwrap_or(default.cpus),
        memory,
    }
}

fn restart(file: Option<&RestartFile>, problems: &mut Problems) -> RestartPolicy {
    let default = defaults::restart(RestartMode::Never);
    let Some(file) = file else {
        return default;
    };
    let policy = RestartPolicy {
        mode: file.mode.unwrap_or(default.mode),
        delay: file.delay.unwrap_or(default.delay),
        delay_max: file.delay_max.unwrap_or(default.delay_max),
        max_restarts: file.max_restarts.unwrap_or(default.max_restarts),
        window: file.window.unwrap_or(default.window),
        stable_after: file.stable_after.unwrap_or(default.stable_after),
    };
    range(
        "restart.max_restarts",
        policy.max_restarts,
        0,
        RESTARTS_MAX,
        problems,
    );
    delays("restart.delay", policy.delay, policy.delay_max, problems);
    policy
}

fn stop(file: Option<&StopFile>) -> StopPolicy {
    let default = defaults::STOP;
    let Some(file) = file else {
        return default;
    };
    StopPolicy {
        drain: file.drain.unwrap_or(default.drain),
        signal: file.signal.map_or(default.signal, |signal| signal.0),
        grace: file.grace.unwrap_or(default.grace),
    }
}

fn spread(file: Option<&SpreadFile>, problems: &mut Problems) -> Spread {
    let Some(file) = file else {
        return Spread::default();
    };
    if let Some(most) = file.max_per_host {
        range("spread.max_per_host", most, 1, REPLICAS_MAX, problems);
    }
    if let Some(label) = &file.label {
        problems.check(
            "spread.label",
            check_name("label", label).map_err(|refusal| refusal.text),
        );
    }
    Spread {
        max_per_host: file.max_per_host,
        best_effort: matches!(file.mode, Some(SpreadMode::BestEffort)),
        label: file.label.clone(),
    }
}

fn rollout(file: Option<&RolloutFile>, problems: &mut Problems) -> RolloutSettings {
    let default = defaults::ROLLOUT;
    let Some(file) = file else {
        return default;
    };
    let settings = RolloutSettings {
        max_surge: file.max_surge.map_or(default.max_surge, |amount| amount.0),
        max_unavailable: file
            .max_unavailable
            .map_or(default.max_unavailable, |amount| amount.0),
        min_ready: file.min_ready.unwrap_or(default.min_ready),
        progress_deadline: file.progress_deadline.unwrap_or(default.progress_deadline),
        on_stuck: file.on_stuck.unwrap_or(default.on_stuck),
        history_limit: file.history_limit.unwrap_or(default.history_limit),
    };
    range(
        "rollout.history_limit",
        settings.history_limit,
        1,
        HISTORY_MAX,
        problems,
    );
    settings
}

fn replacement(file: Option<&ReplacementFile>, problems: &mut Problems) -> ReplacementSettings {
    let default = defaults::REPLACEMENT;
    let Some(file) = file else {
        return default;
    };
    let settings = ReplacementSettings {
        stable_after: file.stable_after.unwrap_or(default.stable_after),
        delay: file.delay.unwrap_or(default.delay),
        delay_max: file.delay_max.unwrap_or(default.delay_max),
        crash_limit: file.crash_limit.unwrap_or(default.crash_limit),
        crash_window: file.crash_window.unwrap_or(default.crash_window),
    };
    range(
        "replacement.crash_limit",
        settings.crash_limit,
        1,
        CRASHES_MAX,
        problems,
    );
    let path = "replacement.delay";
    delays(path, settings.delay, settings.delay_max, problems);
    settings
}

fn range(path: &str, value: u32, least: u32, most: u32, problems: &mut Problems) {
    if !(least..=most).contains(&value) {
        let text = format!("{value} is not a whole number from {least} to {most}");
        problems.add(path, text);
    }
}

fn delays(path: &str, delay: Millis, delay_max: Millis, problems: &mut Problems) {
    if delay > delay_max {
        problems.add(path, format!("{delay} is above delay_max {delay_max}"));
    }
}

fn pairs(
    path: &str,
    table: Option<&BTreeMap<String, String>>,
    problems: &mut Problems,
) -> Vec<(String, String)> {
    let Some(table) = table else {
        return Vec::new();
    };
    for (label, value) in table {
        if let Err(refusal) = check_name("label", label) {
            problems.add(path, refusal.text);
        } else if value.len() > NAME_BYTES_MAX || value.chars().any(char::is_control) {
            let text = format!(
                "`{label}`: a label's value has at most {NAME_BYTES_MAX} bytes and no control characters"
            );
            problems.add(path, text);
        }
    }
    table.clone().into_iter().collect()
}
