//! A specification as the full document that means it.

use std::collections::BTreeMap;

use xce_model::spec::{
    JobSpec, PortSpec, Probe, ProbeAction, ReplacementSettings, Resources, RestartPolicy,
    RolloutSettings, ServiceSpec, Spread, StopPolicy, Template,
};

use crate::document::{
    Elements, ExecFile, GrpcFile, HttpFile, JobFile, PortFile, PortReference, ProbeFile,
    ProbesFile, ReplacementFile, ReplicaAmount, ResourcesFile, RestartFile, RolloutFile,
    ServiceFile, SignalName, SpreadFile, SpreadMode, StopFile, TcpFile,
};

/// The document of a service with every value in it.
pub fn service(spec: &ServiceSpec) -> ServiceFile {
    let template = &spec.template;
    let settings = &spec.settings;
    ServiceFile {
        name: Some(spec.name.clone()),
        replicas: spec.replicas,
        profile: Some(spec.profile.clone()),
        project: Some(spec.project.clone()),
        queue: Some(spec.queue.clone()),
        probes: Some(probes(template)),
        spread: Some(spread(&settings.spread)),
        rollout: Some(rollout(&settings.rollout)),
        replacement: Some(replacement(&settings.replacement)),
        labels: Some(table(&settings.labels)),
        ..what_runs(template)
    }
}

/// The document of a job with every value in it; the profile it was made with is not part of it.
pub fn job(spec: &JobSpec) -> JobFile {
    let runs = what_runs(&spec.template);
    JobFile {
        name: Some(spec.name.clone()),
        profile: None,
        project: Some(spec.project.clone()),
        queue: Some(spec.queue.clone()),
        command: runs.command,
        env: runs.env,
        cwd: runs.cwd,
        user: runs.user,
        resources: runs.resources,
        ports: runs.ports,
        restart: runs.restart,
        stop: runs.stop,
        run_limit: runs.run_limit,
        constraints: runs.constraints,
        single_copy: runs.single_copy,
        array: spec.array.clone().map(Elements),
        held: Some(spec.held),
        rerunnable: Some(spec.rerunnable),
    }
}

/// What of a template services and jobs have alike.
fn what_runs(template: &Template) -> ServiceFile {
    ServiceFile {
        command: Some(template.command.clone()),
        env: Some(table(&template.env)),
        cwd: template.cwd.clone(),
        user: Some(template.user.name.clone()),
        resources: Some(resources(template.resources)),
        ports: Some(template.ports.iter().map(port).collect()),
        restart: Some(restart(&template.restart)),
        stop: Some(stop(&template.stop)),
        run_limit: template.run_limit,
        constraints: Some(table(&template.constraints)),
        single_copy: Some(template.single_copy),
        ..ServiceFile::default()
    }
}

fn table(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    pairs.iter().cloned().collect()
}

fn port(port: &PortSpec) -> PortFile {
    PortFile {
        name: port.name.clone(),
        port: port.port,
    }
}

pub(crate) fn resources(resources: Resources) -> ResourcesFile {
    ResourcesFile {
        cpus: Some(resources.cpus),
        memory: Some(resources.memory),
    }
}

pub(crate) fn restart(policy: &RestartPolicy) -> RestartFile {
    RestartFile {
        mode: Some(policy.mode),
        delay: Some(policy.delay),
        delay_max: Some(policy.delay_max),
        max_restarts: Some(policy.max_restarts),
        window: Some(policy.window),
        stable_after: Some(policy.stable_after),
    }
}

pub(crate) fn stop(policy: &StopPolicy) -> StopFile {
    StopFile {
        drain: Some(policy.drain),
        signal: Some(SignalName(policy.signal)),
        grace: Some(policy.grace),
    }
}

pub(crate) fn spread(spread: &Spread) -> SpreadFile {
    SpreadFile {
        max_per_host: spread.max_per_host,
        mode: Some(if spread.best_effort {
            SpreadMode::BestEffort
        } else {
            SpreadMode::Strict
        }),
        label: spread.label.clone(),
    }
}

pub(crate) fn rollout(settings: &RolloutSettings) -> RolloutFile {
    RolloutFile {
        max_surge: Some(ReplicaAmount(settings.max_surge)),
        max_unavailable: Some(ReplicaAmount(settings.max_unavailable)),
        min_ready: Some(settings.min_ready),
        progress_deadline: Some(settings.progress_deadline),
        on_stuck: Some(settings.on_stuck),
        history_limit: Some(settings.history_limit),
    }
}

pub(crate) fn replacement(settings: &ReplacementSettings) -> ReplacementFile {
    ReplacementFile {
        stable_after: Some(settings.stable_after),
        delay: Some(settings.delay),
        delay_max: Some(settings.delay_max),
        crash_limit: Some(settings.crash_limit),
        crash_window: Some(settings.crash_window),
    }
}

fn probes(template: &Template) -> ProbesFile {
    let of = |probe: &Option<Box<Probe>>| probe.as_deref().map(probe_file);
    ProbesFile {
        startup: of(&template.probes.startup),
        readiness: of(&template.probes.readiness),
        liveness: of(&template.probes.liveness),
    }
}

fn probe_file(probe: &Probe) -> ProbeFile {
    let mut file = ProbeFile {
        initial_delay: Some(probe.initial_delay),
        period: Some(probe.period),
        timeout: Some(probe.timeout),
        success_threshold: Some(probe.success_threshold),
        failure_threshold: Some(probe.failure_threshold),
        ..ProbeFile::default()
    };
    let port = |port: &String| Some(PortReference(port.clone()));
    match &probe.action {
        ProbeAction::Http {
            port: to,
            host,
            path,
            status_min,
            status_max,
            headers,
        } => {
            file.http = Some(HttpFile {
                port: port(to),
                host: Some(host.clone()),
                path: Some(path.clone()),
                status_min: Some(*status_min),
                status_max: Some(*status_max),
                headers: Some(table(headers)),
            });
        }
        ProbeAction::Tcp { port: to, host } => {
            file.tcp = Some(TcpFile {
                port: port(to),
                host: Some(host.clone()),
            });
        }
        ProbeAction::Exec { command } => {
            file.exec = Some(ExecFile {
                command: Some(command.clone()),
            });
        }
        ProbeAction::Grpc {
            port: to,
            host,
            service,
        } => {
            file.grpc = Some(GrpcFile {
                port: port(to),
                host: Some(host.clone()),
                service: Some(service.clone()),
            });
        }
    }
    file
}
