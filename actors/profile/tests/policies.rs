//! Documents of policies, and names that nobody defined.

use serde_json::{Value, json};

use super::file;
use crate::policy::unknown;
use crate::{PolicyFile, PolicyKind};

fn checked(kind: PolicyKind, document: &Value) -> Result<(), String> {
    file::<PolicyFile>(document)
        .check(kind)
        .map_err(|refusal| refusal.text)
}

#[test]
fn good_policies_pass() {
    let rows = [
        (
            PolicyKind::Profile,
            json!({"name": "web", "kind": "service", "service": {
                "probes": {"readiness": {"http": {"port": "http"}}}, "queue": "fast"
            }}),
        ),
        (
            PolicyKind::Profile,
            json!({"name": "sim", "kind": "batch", "batch": {"run_limit": "1h"}}),
        ),
        (
            PolicyKind::Profile,
            json!({"name": "service", "kind": "service", "service": {"replicas": 2}}),
        ),
        (
            PolicyKind::Project,
            json!({"name": "shop", "service": {"profile": "web"}, "batch": {"queue": "night"},
                   "caps": {"replicas": 10}}),
        ),
        (
            PolicyKind::Queue,
            json!({"name": "fast", "priority": 10, "description": "soon"}),
        ),
    ];
    for (kind, document) in rows {
        assert_eq!(checked(kind, &document), Ok(()), "{document}");
    }
}

#[test]
fn what_does_not_belong_is_named() {
    use PolicyKind::{Profile, Project, Queue};
    let rows = [
        (
            Profile,
            json!({"name": "web"}),
            "`kind`: it is missing: `service` or `batch`, what the profile is for",
        ),
        (
            Profile,
            json!({"name": "batch", "kind": "service"}),
            "`kind`: profile `batch` is built in, of kind batch",
        ),
        (
            Profile,
            json!({"name": "w", "kind": "service", "batch": {}}),
            "`batch`: a profile of kind service has defaults in [service] only",
        ),
        (
            Profile,
            json!({"name": "w", "kind": "batch", "caps": {}}),
            "`caps`: a profile has none; it is of a project or a queue",
        ),
        (
            Project,
            json!({"name": "w", "priority": 1}),
            "`priority`: a project has none; it is of a queue",
        ),
        (
            Queue,
            json!({"name": "w", "service": {}}),
            "`service`: a queue has none; it is of a profile or a project",
        ),
        (
            Profile,
            json!({"name": "w", "kind": "service", "service": {"name": "x", "user": "y"}}),
            "`service.name`: a profile cannot set it: the request says it\n\
             `service.user`: a profile cannot set it: the request says it",
        ),
        (
            Profile,
            json!({"name": "w", "kind": "service", "service": {"resources": {"memory": "1MiB"}}}),
            "`service.resources.memory`: 1MiB is too little, the least is 2MiB \
             (from request)",
        ),
    ];
    for (kind, document, wanted) in rows {
        let found = checked(kind, &document).unwrap_err();
        let wanted = wanted.trim_end_matches(" (from request)");
        assert_eq!(found, wanted, "{document}");
    }
    assert!(checked(Queue, &json!({"name": "Upper"})).is_err());
}

#[test]
fn unknown_fields_and_long_documents_are_refused() {
    let refused = PolicyFile::parse(r#"{"name": "x", "defaults": {}}"#).unwrap_err();
    assert!(
        refused.text.contains("unknown field `defaults`"),
        "{refused}"
    );
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20));
    assert_eq!(PolicyFile::parse(&long).unwrap_err().code, "bad_document");
}

#[test]
fn an_unknown_name_is_refused_with_a_proposal() {
    let known = ["default", "night"];
    let refused = unknown(PolicyKind::Queue, "nigt", &known);
    assert_eq!(refused.code, "unknown_queue");
    assert_eq!(
        refused.text,
        "there is no queue `nigt`; did you mean `night`? (known: default, night)"
    );
    let refused = unknown(PolicyKind::Profile, "zzz", &["service"]);
    assert_eq!(refused.text, "there is no profile `zzz` (known: service)");
}
