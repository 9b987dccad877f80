//! What a state holds, in words that do not depend on its form.

use serde_json::{Value, json};
use xce_ledger::View;

/// Everything that a user could tell of a state.
pub fn summary(view: &View) -> Value {
    let jobs = view.jobs().values().map(|job| {
        json!({
            "id": job.id.to_string(),
            "name": job.spec.name,
            "owner": &*job.owner,
            "state": format!("{:?}", job.state),
            "run": job.run,
            "host": job.host.as_deref(),
            "ports": job.ports,
            "restarts": job.restarts,
            "cause": job.exit.as_ref().map(|exit| format!("{:?}", exit.cause)),
            "replica": job.service.map(|part| (part.service.0, part.version, part.index)),
            "submitted": job.submitted.0,
            "changed": job.changed,
        })
    });
    let arrays = view.arrays().values().map(|array| {
        json!({ "number": array.number, "pending": array.pending.count(), "done": array.done.count() })
    });
    let services = view.services().values().map(|service| {
        let versions = service.versions.iter();
        let versions = versions.map(|version| {
            json!({
                "number": version.number,
                "author": version.author,
                "reason": format!("{:?}", version.reason),
                "outcome": format!("{:?}", version.outcome),
                "want": version.want,
                "command": version.spec.template.command,
            })
        });
        json!({
            "id": service.id.0,
            "name": service.name,
            "project": service.project,
            "desired": service.desired,
            "profile": service.profile,
            "events": service.events.len(),
            "versions": versions.collect::<Vec<_>>(),
        })
    });
    let numbers = view.last_numbers();
    json!({
        "lsn": view.lsn(),
        "term": view.term(),
        "clock_ms": view.clock().last.0,
        "level": view.level(),
        "epoch": view.epoch(),
        "numbers": (numbers.jobs, numbers.services, view.last_controller()),
        "operations": view.operation_count(),
        "sessions": view.sessions().len(),
        "jobs": jobs.collect::<Vec<_>>(),
        "arrays": arrays.collect::<Vec<_>>(),
        "services": services.collect::<Vec<_>>(),
        "hosts": hosts(view),
        "policies": policies(view),
    })
}

fn hosts(view: &View) -> Vec<Value> {
    let hosts = view.hosts().values().map(|host| {
        json!({
            "name": host.inventory.name,
            "life": host.life.word(),
            "closed": host.closed.as_ref().map(|closed| &closed.reason),
            "incarnation": host.inventory.incarnation.to_string(),
            "mark": (host.epoch, host.sequence),
        })
    });
    hosts.collect()
}

fn policies(view: &View) -> Vec<Value> {
    let policies = view.policies().values().map(|policy| {
        json!({ "kind": format!("{:?}", policy.kind), "name": policy.name, "generation": policy.generation })
    });
    policies.collect()
}
