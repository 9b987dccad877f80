//! A host that spoils what starts on it is closed, and services go elsewhere.

use serde_json::Value;
use xce_tests::Setup;

use super::{rows, service, word};

/// Fails at once on `w2`, and sleeps elsewhere.
const COMMAND: &str = r#"["sh", "-c", "if [ $XCE_HOST = w2 ]; then echo no such device >&2; exit 3; fi; exec sleep 100000"]"#;

#[test]
fn two_services_that_crash_on_one_host_close_it_and_go_elsewhere() {
    let cluster = Setup::new("blame").workers(3).start();
    let cli = cluster.cli();
    for name in ["one", "two"] {
        let file = service(
            cluster.folder(),
            name,
            3,
            COMMAND,
            "[restart]\nmode = \"never\"",
        );
        cli.good(&["services", "create", word(&file)]);
    }
    let hosts = |value: &Value| -> Vec<String> {
        let replicas = rows(value, "replicas").iter();
        let host = |replica: &Value| replica["host"].as_str().unwrap_or_default().to_owned();
        replicas.map(host).collect()
    };
    for name in ["one", "two"] {
        let steady = cluster.steady(name, 3);
        assert!(!hosts(&steady).contains(&"w2".to_owned()), "{steady}");
        let events = cli.json(&["services", "events", name]);
        let events = events.as_array().expect("a list");
        assert!(events.iter().all(|event| event["kind"] != "crash-loop"));
        let failed = events.iter().find(|event| event["kind"] == "failed");
        let text = failed.map_or("", |event| event["text"].as_str().unwrap_or_default());
        assert!(text.contains("exit code 3"), "{events:?}");
    }
    let shown = cli.json(&["hosts", "show", "w2"]);
    let reason = shown["reason"].as_str().unwrap_or_default();
    assert_eq!(shown["takes_jobs"], false, "{shown}");
    for part in ["one", "two", "on no other host", "exit code 3"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    // The operator has the last word.
    cli.good(&["hosts", "reopen", "w2"]);
    let shown = cli.json(&["hosts", "show", "w2"]);
    assert_eq!(shown["takes_jobs"], true, "{shown}");
    cluster.audit();
}
