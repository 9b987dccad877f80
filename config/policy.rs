//! Files of profiles, projects and queues.

use xce_model::limits::ARRAY_ELEMENTS_MAX;
use xce_profile::caps::{CapsFile, RolloutCaps, StopCaps};
use xce_profile::document::JobFile;
use xce_profile::{PolicyFile, PolicyKind, ProfileKind};

use crate::document::{Document, Section, read};
use crate::fault::Faults;
use crate::service::{self, Reading};

/// Fields of what a batch job may say.
const JOB: &[&str] = &[
    "name",
    "profile",
    "project",
    "queue",
    "command",
    "env",
    "cwd",
    "user",
    "resources",
    "ports",
    "restart",
    "stop",
    "run_limit",
    "constraints",
    "single_copy",
    "array",
    "held",
    "rerunnable",
];
const CAPS: &[&str] = &[
    "replicas",
    "elements",
    "ports",
    "resources",
    "run_limit",
    "stop",
    "rollout",
];

/// Fields of a file of each kind.
const fn fields(kind: PolicyKind) -> &'static [&'static str] {
    match kind {
        PolicyKind::Profile => &["name", "description", "kind", "service", "batch"],
        PolicyKind::Project => &["name", "description", "service", "batch", "caps"],
        PolicyKind::Queue => &["name", "description", "priority", "caps"],
    }
}

/// Reads a profile, a project or a queue.
///
/// Whether its defaults make sense together is for [`PolicyFile::check`].
///
/// # Errors
/// Every fault of the file, each with its line and what is allowed.
pub fn read_policy(document: &Document<'_>, kind: PolicyKind) -> Result<PolicyFile, Faults> {
    read(document, fields(kind), |root| policy(root, kind))
}

fn policy(root: &Section<'_>, kind: PolicyKind) -> PolicyFile {
    let name = match root.field("name") {
        Some(field) => service::checked_name(&field, kind.word()),
        None => {
            let word = kind.word();
            root.fault(format!("`name` is missing: the name of the {word}"));
            None
        }
    };
    let kinds = [
        ("service", ProfileKind::Service),
        ("batch", ProfileKind::Batch),
    ];
    if kind == PolicyKind::Profile && root.field("kind").is_none() {
        root.fault("`kind` is missing: service or batch, what the profile is for");
    }
    // A user here may be unknown, and another machine's; and whatever is left out is left open.
    let reading = Reading {
        knows_user: &|_| true,
        whole: false,
    };
    PolicyFile {
        name: name.unwrap_or_default(),
        description: root.field("description").and_then(|field| field.text()),
        kind: root.field("kind").and_then(|field| field.word(&kinds)),
        priority: root.field("priority").and_then(|field| field.signed()),
        service: root
            .section("service", service::FIELDS)
            .map(|section| service::partial(&section, reading)),
        batch: root
            .section("batch", JOB)
            .map(|section| job(&section, reading)),
        caps: root.section("caps", CAPS).map(|section| caps(&section)),
    }
}

fn job(root: &Section<'_>, reading: Reading<'_>) -> JobFile {
    let runs = service::partial(root, reading);
    JobFile {
        name: runs.name,
        profile: runs.profile,
        project: runs.project,
        queue: runs.queue,
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
        array: root.field("array").and_then(|field| {
            let text = field.text()?;
            text.parse()
                .map_err(|sentence: String| field.fault(sentence))
                .ok()
        }),
        held: root.field("held").and_then(|field| field.boolean()),
        rerunnable: root.field("rerunnable").and_then(|field| field.boolean()),
    }
}

fn caps(root: &Section<'_>) -> CapsFile {
    let count = |section: &Section<'_>, name: &str| service::count(section, name, 0..=u32::MAX);
    CapsFile {
        replicas: count(root, "replicas"),
        elements: root
            .field("elements")
            .and_then(|field| field.integer(0..=ARRAY_ELEMENTS_MAX)),
        ports: count(root, "ports"),
        resources: service::resources(root),
        run_limit: service::quantity(root, "run_limit"),
        stop: root
            .section("stop", &["drain", "grace"])
            .map(|stop| StopCaps {
                drain: service::quantity(&stop, "drain"),
                grace: service::quantity(&stop, "grace"),
            }),
        rollout: root
            .section(
                "rollout",
                &["progress_deadline", "min_ready", "history_limit"],
            )
            .map(|rollout| RolloutCaps {
                progress_deadline: service::quantity(&rollout, "progress_deadline"),
                min_ready: service::quantity(&rollout, "min_ready"),
                history_limit: count(&rollout, "history_limit"),
            }),
    }
}
