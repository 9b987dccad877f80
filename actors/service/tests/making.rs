//! Templates, settings and commands of services in tests.

use xce_model::spec::*;
use xce_model::*;

use crate::*;

/// A template that differs by its command; the text names its behaviour. A probe tells when it is
/// ready.
pub fn template(text: &str) -> Template {
    let probe = Probe {
        action: ProbeAction::Exec {
            command: vec!["probe".to_owned()],
        },
        initial_delay: Millis(0),
        period: Millis::seconds(10),
        timeout: Millis::seconds(1),
        success_threshold: 1,
        failure_threshold: 3,
    };
    let mut template = bare_template(text);
    template.probes.readiness = Some(Box::new(probe));
    template
}

/// As [`template`], without a probe: ready as soon as it runs.
pub fn bare_template(text: &str) -> Template {
    Template {
        command: vec![text.to_owned()],
        env: Vec::new(),
        cwd: None,
        user: User {
            name: "ada".to_owned(),
            uid: 1000,
            gid: 1000,
        },
        resources: Resources {
            cpus: MilliCpu(100),
            memory: Bytes(1 << 20),
        },
        ports: Vec::new(),
        probes: Probes::default(),
        restart: RestartPolicy {
            mode: RestartMode::Never,
            delay: Millis(100),
            delay_max: Millis::seconds(60),
            max_restarts: 5,
            window: Millis::seconds(600),
            stable_after: Millis::seconds(60),
        },
        stop: StopPolicy {
            drain: Millis(0),
            signal: 15,
            grace: Millis::seconds(30),
        },
        run_limit: None,
        constraints: Vec::new(),
        single_copy: xce_model::spec::SingleCopy::None,
    }
}

/// The design's defaults.
pub fn settings() -> ServiceSettings {
    ServiceSettings {
        spread: Spread::default(),
        rollout: RolloutSettings {
            max_surge: Amount::Percent(25),
            max_unavailable: Amount::Percent(25),
            min_ready: Millis(0),
            progress_deadline: Millis::seconds(600),
            on_stuck: OnStuck::Stop,
            history_limit: 10,
        },
        replacement: ReplacementSettings {
            stable_after: Millis::seconds(60),
            delay: Millis::seconds(1),
            delay_max: Millis::seconds(300),
            crash_limit: 5,
            crash_window: Millis::seconds(600),
        },
        labels: Vec::new(),
    }
}

pub fn spec(replicas: u32, surge: u32, unavailable: u32) -> ServiceSpec {
    let mut settings = settings();
    settings.rollout.max_surge = Amount::Count(surge);
    settings.rollout.max_unavailable = Amount::Count(unavailable);
    ServiceSpec {
        name: "web".to_owned(),
        project: "default".to_owned(),
        queue: "normal".to_owned(),
        profile: "service".to_owned(),
        replicas: Some(replicas),
        origins: Vec::new(),
        template: template("v1"),
        settings,
    }
}

/// An update to another template that keeps the rest.
pub fn update(record: &ServiceRecord, text: &str) -> Command {
    update_to(record, template(text))
}

/// As [`update`], to any template.
pub fn update_to(record: &ServiceRecord, template: Template) -> Command {
    let spec = ServiceSpec {
        name: record.name.clone(),
        project: record.project.clone(),
        queue: "normal".to_owned(),
        profile: record.profile.clone(),
        replicas: None,
        origins: Vec::new(),
        template,
        settings: record.settings.clone(),
    };
    Command::Update {
        spec: Box::new(spec),
        take_count: false,
    }
}
