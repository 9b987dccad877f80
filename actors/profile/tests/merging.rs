//! Precedence of the layers, for every kind of leaf; where values came from.

use serde_json::{Value, json};
use xce_model::spec::ProbeAction;
use xce_model::{Millis, Origin, Source};

use super::{ada, file, layered, resolved};
use crate::document::ServiceFile;
use crate::{Purpose, layers, resolve, unfold};

/// A value at a dotted place of a document.
fn at(path: &str, value: &Value) -> Value {
    let mut whole = value.clone();
    for name in path.rsplit('.') {
        whole = json!({ name: whole });
    }
    whole
}

fn source(leaves: &crate::Leaves, path: &str) -> String {
    leaves.source(path).expect(path).to_string()
}

/// Leaves of every kind with three different values.
fn leaves() -> Vec<(&'static str, [Value; 3])> {
    let numbers = |path| (path, [json!(1), json!(2), json!(3)]);
    let times = |path| (path, [json!("11s"), json!("12s"), json!("13s")]);
    let texts = |path| (path, [json!("a"), json!("b"), json!("c")]);
    vec![
        numbers("replicas"),
        numbers("resources.cpus"),
        (
            "resources.memory",
            [json!("16MiB"), json!("32MiB"), json!("8MiB")],
        ),
        texts("queue"),
        ("command", [json!(["a", "b"]), json!(["c"]), json!(["d"])]),
        texts("env.COLOUR"),
        texts("labels.team"),
        texts("constraints.zone"),
        ("cwd", [json!("/a"), json!("/b"), json!("/c")]),
        (
            "ports",
            [
                json!([{"name": "a"}, {"name": "b", "port": 81}]),
                json!([{"name": "c"}]),
                json!([{"name": "d", "port": 80}]),
            ],
        ),
        times("run_limit"),
        (
            "restart.mode",
            [json!("never"), json!("always"), json!("on_failure")],
        ),
        times("restart.delay"),
        numbers("restart.max_restarts"),
        times("stop.drain"),
        times("stop.grace"),
        ("stop.signal", [json!("QUIT"), json!(40), json!("INT")]),
        numbers("spread.max_per_host"),
        (
            "spread.mode",
            [json!("best_effort"), json!("strict"), json!("best_effort")],
        ),
        texts("spread.label"),
        ("rollout.max_surge", [json!("10%"), json!(2), json!("30%")]),
        times("rollout.min_ready"),
        times("rollout.progress_deadline"),
        (
            "rollout.on_stuck",
            [json!("rollback"), json!("stop"), json!("rollback")],
        ),
        numbers("rollout.history_limit"),
        times("replacement.stable_after"),
        numbers("replacement.crash_limit"),
    ]
}

/// The value of a leaf in a resolved specification, as its document says it.
fn value(spec: &xce_model::spec::ServiceSpec, path: &str) -> Value {
    let whole = serde_json::to_value(unfold::service(spec)).expect("it is a document");
    path.split('.')
        .fold(whole, |value, name| value[name].clone())
}

#[test]
fn a_later_layer_wins_for_every_kind_of_leaf() {
    let nothing = json!({});
    for (path, [low, middle, high]) in leaves() {
        let (profile, project, request) = (at(path, &low), at(path, &middle), at(path, &high));
        let rows = [
            ([&profile, &nothing, &nothing], &low, "profile p"),
            ([&profile, &project, &nothing], &middle, "project shop"),
            ([&nothing, &project, &nothing], &middle, "project shop"),
            ([&profile, &project, &request], &high, "request"),
            ([&profile, &nothing, &request], &high, "request"),
        ];
        for ([profile, project, request], wanted, from) in rows {
            let leaves = layered(profile, project, request);
            assert_eq!(source(&leaves, path), from, "{path}");
            let spec = resolved(profile, project, request).expect(path);
            let found = value(&spec, path);
            let same = match (found.as_f64(), wanted.as_f64()) {
                (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-9,
                (_, _) => found == *wanted,
            };
            assert!(same, "{path}: {found} is not {wanted}");
            let origin = spec.origins.iter().find(|origin| origin.path == path);
            assert_eq!(origin.expect(path).source.to_string(), from, "{path}");
        }
    }
}

#[test]
fn tables_merge_by_key_and_lists_do_not() {
    let spec = resolved(
        &json!({"env": {"A": "p", "B": "p", "PATH": "/p"}, "ports": [{"name": "a"}, {"name": "b"}]}),
        &json!({"env": {"B": "s", "C": "s"}, "labels": {"a.b": "s"}}),
        &json!({"env": {"C": "r"}, "ports": [{"name": "c"}], "labels": {"x": "r"}}),
    )
    .unwrap();
    let env: Vec<String> = spec
        .template
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(env, ["A=p", "B=s", "C=r", "HOME=/home/ada", "PATH=/p"]);
    assert_eq!(spec.template.ports.len(), 1);
    let source = |path: &str| {
        let found = spec.origins.iter().find(|origin| origin.path == path);
        found.map(|origin| origin.source.to_string())
    };
    assert_eq!(source("env.HOME").as_deref(), Some("account"));
    assert_eq!(source("env.PATH").as_deref(), Some("profile p"));
    assert_eq!(source("labels.\"a.b\"").as_deref(), Some("project shop"));
    assert_eq!(source("resources.cpus"), None, "built-in ones are not kept");
}

#[test]
fn the_action_of_a_probe_is_one_value_and_its_settings_merge() {
    let profile = json!({"probes": {"readiness": {
        "http": {"port": 80, "path": "/ready"}, "period": "2s", "timeout": "3s"
    }}});
    let request = json!({"probes": {"readiness": {"tcp": {"port": 81}, "period": "1s"}}});
    let spec = resolved(&profile, &json!({}), &request).unwrap();
    let probe = spec.template.probes.readiness.unwrap();
    let wanted = ProbeAction::Tcp {
        port: "81".to_owned(),
        host: "127.0.0.1".to_owned(),
    };
    assert_eq!(probe.action, wanted);
    assert_eq!((probe.period, probe.timeout), (Millis(1000), Millis(3000)));
    // One of the same kind replaces the whole action: its path is the default again.
    let request = json!({"probes": {"readiness": {"http": {"port": 82}}}});
    let spec = resolved(&profile, &json!({}), &request).unwrap();
    let ProbeAction::Http { port, path, .. } = spec.template.probes.readiness.unwrap().action
    else {
        panic!("it is by http");
    };
    assert_eq!((port.as_str(), path.as_str()), ("82", "/"));
    let grpc = json!({"probes": {"liveness": {"grpc": {"port": 83, "service": "db"}}}});
    let spec = resolved(&json!({}), &json!({}), &grpc).unwrap();
    assert!(matches!(
        spec.template.probes.liveness.unwrap().action,
        ProbeAction::Grpc { .. }
    ));
}

#[test]
fn defaults_for_a_probe_that_nobody_has_make_none() {
    let settings = json!({"probes": {"startup": {"period": "1s"}}});
    let spec = resolved(&settings, &json!({}), &json!({})).unwrap();
    assert_eq!(spec.template.probes.startup, None);
    let refused = resolved(&json!({}), &json!({}), &settings).unwrap_err();
    assert_eq!(
        refused,
        "`probes.startup`: a probe needs one of http, tcp, exec, grpc"
    );
}

#[test]
fn what_is_wrong_is_named_with_the_layer_it_came_from() {
    let rows = [
        (
            json!({"restart": {"delay": "2m"}}),
            json!({}),
            "`restart.delay`: 2m is above delay_max 1m (from profile p)",
        ),
        (
            json!({}),
            json!({"probes": {"liveness": {"tcp": {"port": "htp"}}}, "ports": [{"name": "http"}]}),
            "`probes.liveness.tcp.port`: there is no port `htp`; did you mean `http`? \
             (declared ports: http; or a number from 1 to 65535)",
        ),
        (
            json!({"probes": {"liveness": {"tcp": {"port": "http"}, "success_threshold": 2}}}),
            json!({"ports": [{"name": "http"}]}),
            "`probes.liveness.success_threshold`: 2 is not a whole number from 1 to 1 \
             (from profile p)",
        ),
        (
            json!({}),
            json!({"user": "bob"}),
            "`user`: it is `bob`, the request was made for `ada`",
        ),
    ];
    for (profile, request, wanted) in rows {
        let found = resolved(&profile, &json!({}), &request).unwrap_err();
        assert_eq!(found, wanted);
    }
}

#[test]
fn an_update_takes_a_count_only_from_the_request() {
    for (request, wanted) in [(json!({}), None), (json!({"replicas": 5}), Some(5))] {
        let leaves = layered(&json!({"replicas": 3}), &json!({}), &request);
        let spec = resolve::service(&leaves, &ada().user, Purpose::Update).unwrap();
        assert_eq!(spec.replicas, wanted);
    }
}

#[test]
fn a_patch_changes_single_values_of_what_is_there() {
    let mut current = resolved(
        &json!({"env": {"A": "p", "B": "p"}, "resources": {"cpus": 1}}),
        &json!({}),
        &json!({"labels": {"x": "y"}}),
    )
    .unwrap();
    current.origins = xce_model::origins::stamped(&current.origins, 1);
    let patch: ServiceFile = file(&json!({"env": {"B": "r"}, "resources": {"memory": "64MiB"}}));
    let leaves = layers::patch(&current, &ada(), &patch);
    let spec = resolve::service(&leaves, &ada().user, Purpose::Update).unwrap();
    let mut wanted = current.clone();
    wanted.replicas = None;
    wanted.template.resources.memory.0 = 64 << 20;
    let pairs = wanted.template.env.iter_mut();
    pairs
        .filter(|pair| pair.0 == "B")
        .for_each(|pair| pair.1 = "r".to_owned());
    assert_eq!(
        (&spec.template, &spec.settings),
        (&wanted.template, &wanted.settings)
    );
    let source = |path: &str| source(&leaves, path);
    assert_eq!(source("env.A"), "profile p");
    assert_eq!(source("env.B"), "request");
    assert_eq!(source("labels.x"), "request of version 1");
    assert_eq!(source("resources.memory"), "request");
    assert_eq!(source("resources.cpus"), "profile p");
}

#[test]
fn a_patch_of_the_user_brings_the_other_account() {
    let current = resolved(&json!({}), &json!({}), &json!({"env": {"HOME": "/data"}})).unwrap();
    let mut bob = ada();
    bob.user.name = "bob".to_owned();
    bob.env = vec![
        ("HOME".to_owned(), "/home/bob".to_owned()),
        ("PATH".to_owned(), "/bob".to_owned()),
    ];
    let patch: ServiceFile = file(&json!({"user": "bob"}));
    let leaves = layers::patch(&current, &bob, &patch);
    let spec = resolve::service(&leaves, &bob.user, Purpose::Update).unwrap();
    assert_eq!(spec.template.user, bob.user);
    let wanted = [("HOME", "/data"), ("PATH", "/bob")];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(spec.template.env, wanted);
}

#[test]
fn what_is_committed_unfolds_to_what_it_was_made_of() {
    let spec = resolved(
        &json!({"probes": {"readiness": {"http": {"port": "a", "headers": {"x": "y"}}}}}),
        &json!({"stop": {"signal": 40}}),
        &json!({"ports": [{"name": "a"}], "spread": {"max_per_host": 2}}),
    )
    .unwrap();
    let leaves = layers::committed(&spec);
    let again = resolve::service(&leaves, &ada().user, Purpose::Create).unwrap();
    assert_eq!(again, spec);
    let whole = Origin {
        path: "stop.signal".to_owned(),
        source: Source::Project("shop".to_owned()),
    };
    assert!(spec.origins.contains(&whole));
}
