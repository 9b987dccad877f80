//! Values with more than one way to be written, and the schema.

use serde_json::{Value, json};
use xce_model::spec::Amount;

use super::file;
use crate::document::{Elements, PortReference, ReplicaAmount, ServiceFile, SignalName};

fn round<T: serde::Serialize + serde::de::DeserializeOwned>(value: &Value) -> (T, Value) {
    let read: T = file(value);
    let written = serde_json::to_value(&read).expect("it is a value");
    (read, written)
}

#[test]
fn each_way_of_writing_has_one_canonical_form() {
    for (text, number, canonical) in [
        (json!("TERM"), 15, json!("TERM")),
        (json!("sigquit"), 3, json!("QUIT")),
        (json!(9), 9, json!("KILL")),
        (json!("40"), 40, json!(40)),
    ] {
        let (signal, written) = round::<SignalName>(&text);
        assert_eq!((signal.0, written), (number, canonical));
    }
    for (text, amount, canonical) in [
        (json!("25%"), Amount::Percent(25), json!("25%")),
        (json!(3), Amount::Count(3), json!(3)),
        (json!("3"), Amount::Count(3), json!(3)),
    ] {
        let (found, written) = round::<ReplicaAmount>(&text);
        assert_eq!((found.0, written), (amount, canonical));
    }
    let (port, written) = round::<PortReference>(&json!(8080));
    assert_eq!((port.0.as_str(), written), ("8080", json!(8080)));
    let (_, written) = round::<Elements>(&json!("5-9,1-4,20 %3".replace(" %", "%")));
    assert_eq!(written, json!("1-9,20%3"));
    let (_, written) = round::<ServiceFile>(&json!({"run_limit": "90s", "env": {}}));
    assert_eq!(written, json!({"run_limit": "1m 30s", "env": {}}));
}

#[test]
fn wrong_values_are_refused() {
    for document in [
        json!({"stop": {"signal": "NOPE"}}),
        json!({"stop": {"signal": 65}}),
        json!({"rollout": {"max_surge": "101%"}}),
        json!({"rollout": {"max_surge": "x"}}),
        json!({"run_limit": 10}),
        json!({"resources": {"memory": "1"}}),
        json!({"resources": {"cpus": -1}}),
        json!({"replicas": -1}),
        json!({"comand": []}),
        json!({"probes": {"ready": {}}}),
        json!({"probes": {"readiness": {"tcp": {"port": 0}}}}),
    ] {
        let read = serde_json::from_value::<ServiceFile>(document.clone());
        assert!(read.is_err(), "{document}");
    }
}

#[test]
fn the_schema_describes_every_field() {
    let schema = serde_json::to_value(schemars::schema_for!(ServiceFile)).expect("it is JSON");
    let fields = schema["properties"].as_object().expect("it has fields");
    for name in ["name", "probes", "rollout", "constraints"] {
        assert!(fields.contains_key(name), "{name}");
    }
    for (name, field) in fields {
        assert!(field["description"].is_string(), "{name}");
    }
    assert_eq!(schema["additionalProperties"], json!(false));
}

#[test]
fn a_command_names_only_ports_that_are_there() {
    let words = |text: &str| vec!["sh".to_owned(), text.to_owned()];
    for (text, ports, good) in [
        ("${XCE_PORT_http}", &["http"][..], true),
        ("-p ${XCE_PORT_a-b} ${HOME}", &["a-b"], true),
        ("$${XCE_PORT_no} ${XCE_JOB} ${", &[], true),
        ("${XCE_PORT_htp}", &["http"], false),
        ("${XCE_PORT_http}", &[], false),
    ] {
        let fault = crate::checks::reference_fault(&words(text), ports);
        assert_eq!(fault.is_ok(), good, "{text}: {fault:?}");
    }
    let fault = crate::checks::reference_fault(&words("${XCE_PORT_htp}"), &["http", "admin"]);
    assert!(fault.is_err_and(|text| text.contains("htp") && text.contains("http, admin")));
}
