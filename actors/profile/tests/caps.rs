//! Caps: equal, lower and higher; of a queue and of a project.

use serde_json::{Value, json};

use super::{file, job, resolved};
use crate::OwnedCaps;
use crate::caps::{check_count, check_job, check_service};

fn sets(owner: &str, caps: &Value) -> Vec<OwnedCaps> {
    vec![OwnedCaps {
        owner: owner.to_owned(),
        caps: file(caps),
    }]
}

/// A capped value: the request, the cap that it equals, one that it is below, one that it is above,
/// and what is said then.
fn rows() -> Vec<(Value, [Value; 3], &'static str)> {
    let cap = |path: &str, values: [Value; 3]| {
        values.map(|value| {
            path.rsplit('.')
                .fold(value, |inner, name| json!({ name: inner }))
        })
    };
    vec![
        (
            json!({"replicas": 5}),
            cap("replicas", [json!(5), json!(6), json!(4)]),
            "`replicas`: 5 is above 4",
        ),
        (
            json!({"resources": {"cpus": 0.5}}),
            cap("resources.cpus", [json!(0.5), json!(1), json!(0.4)]),
            "`resources.cpus`: 0.5 is above 0.4",
        ),
        (
            json!({"resources": {"memory": "1GiB"}}),
            cap(
                "resources.memory",
                [json!("1024MiB"), json!("2GiB"), json!("1023MiB")],
            ),
            "`resources.memory`: 1GiB is above 1023MiB",
        ),
        (
            json!({"run_limit": "1h"}),
            cap("run_limit", [json!("60m"), json!("2h"), json!("59m")]),
            "`run_limit`: 1h is above 59m",
        ),
        (
            json!({"ports": [{"name": "a"}, {"name": "b"}]}),
            cap("ports", [json!(2), json!(3), json!(1)]),
            "`ports`: 2 is above 1",
        ),
        (
            json!({"stop": {"drain": "10s"}}),
            cap("stop.drain", [json!("10s"), json!("11s"), json!("9s")]),
            "`stop.drain`: 10s is above 9s",
        ),
        (
            json!({"stop": {"grace": "10s"}}),
            cap("stop.grace", [json!("10s"), json!("11s"), json!("9s")]),
            "`stop.grace`: 10s is above 9s",
        ),
        (
            json!({"rollout": {"progress_deadline": "1h"}}),
            cap(
                "rollout.progress_deadline",
                [json!("1h"), json!("2h"), json!("30m")],
            ),
            "`rollout.progress_deadline`: 1h is above 30m",
        ),
    ]
}

#[test]
fn equal_and_lower_values_pass_and_higher_ones_are_refused_by_name() {
    for (request, [equal, above, below], text) in rows() {
        let spec = resolved(&json!({}), &json!({}), &request).unwrap();
        for owner in ["queue fast", "project shop"] {
            assert_eq!(check_service(&spec, &sets(owner, &equal)), Ok(()), "{text}");
            assert_eq!(check_service(&spec, &sets(owner, &above)), Ok(()), "{text}");
            let refused = check_service(&spec, &sets(owner, &below)).unwrap_err();
            assert_eq!(refused.code, "above_cap");
            assert_eq!(refused.text, format!("{text}, the cap of {owner}"));
        }
    }
}

#[test]
fn both_owners_are_named_when_both_are_exceeded() {
    let spec = resolved(&json!({}), &json!({}), &json!({"replicas": 9})).unwrap();
    let mut both = sets("queue fast", &json!({"replicas": 3}));
    both.extend(sets(
        "project shop",
        &json!({"replicas": 4, "resources": {"cpus": 0.05}}),
    ));
    let refused = check_service(&spec, &both).unwrap_err();
    let lines: Vec<&str> = refused.text.lines().collect();
    assert_eq!(
        lines,
        [
            "`replicas`: 9 is above 3, the cap of queue fast",
            "`replicas`: 9 is above 4, the cap of project shop",
            "`resources.cpus`: 0.1 is above 0.05, the cap of project shop",
        ]
    );
}

#[test]
fn no_limit_at_all_is_above_every_limit() {
    let spec = job(&json!({}));
    let caps = sets("queue fast", &json!({"run_limit": "1h"}));
    let refused = check_job(&spec, &caps).unwrap_err();
    assert_eq!(
        refused.text,
        "`run_limit`: there is none, which is above 1h, the cap of queue fast; set it"
    );
    let spec = job(&json!({"run_limit": "1h"}));
    assert_eq!(check_job(&spec, &caps), Ok(()));
}

#[test]
fn jobs_and_counts_are_capped_too() {
    let spec = job(&json!({"array": "1-100%10", "resources": {"cpus": 2}}));
    let caps = |elements: u32, cpus: u32| {
        sets(
            "project lab",
            &json!({"elements": elements, "resources": {"cpus": cpus}}),
        )
    };
    assert_eq!(check_job(&spec, &caps(100, 2)), Ok(()));
    let refused = check_job(&spec, &caps(99, 1)).unwrap_err();
    assert_eq!(
        refused.text,
        "`array`: 100 is above 99, the cap of project lab\n\
         `resources.cpus`: 2 is above 1, the cap of project lab"
    );
    let caps = sets("queue fast", &json!({"replicas": 4}));
    assert_eq!(check_count(4, &caps), Ok(()));
    assert!(check_count(5, &caps).is_err());
}
