//! Job arrays.

use std::collections::BTreeSet;
use std::fs;

use xce_tests::Cluster;

#[test]
fn each_element_of_an_array_runs_exactly_once_and_never_too_many_at_once() {
    let cluster = Cluster::start("array");
    let cli = cluster.cli();
    let list = cluster.folder().join("list");
    let script = format!("echo \"$XCE_JOB run $XCE_RUN\" >> {}", list.display());
    let words = [
        "-n",
        "many[1-100]%10",
        "-c",
        "0.01",
        "-m",
        "16MiB",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let id = cli.submit(&words);
    let array = cluster.job(&id, "all elements are done", |job| {
        let running = job["array"]["running"].as_u64().expect("an array counts");
        assert!(running <= 10, "{running} at once");
        job["terminal"] == true
    });
    assert_eq!(array["array"]["done"], 100, "{array}");
    assert_eq!(array["array"]["total"], 100, "{array}");
    let text = fs::read_to_string(&list).expect("elements ran");
    let ran: Vec<&str> = text.lines().collect();
    let expected: BTreeSet<String> = (1..=100)
        .map(|element| format!("{id}[{element}] run 1"))
        .collect();
    assert_eq!(ran.len(), 100, "{text}");
    assert_eq!(
        ran.iter()
            .map(|line| (*line).to_owned())
            .collect::<BTreeSet<_>>(),
        expected
    );
    let element = cli.job(&format!("{id}[42]"));
    assert_eq!(
        (element["state"].as_str(), element["run"].as_u64()),
        (Some("DONE"), Some(1)),
        "{element}"
    );
    cluster.audit();
}

#[test]
fn elements_are_killed_one_by_one_or_all_together() {
    let cluster = Cluster::start("array-kill");
    let cli = cluster.cli();
    let id = cli.submit(&[
        "-n",
        "some[1-6]",
        "-c",
        "0.01",
        "-m",
        "16MiB",
        "--",
        "sleep",
        "100000",
    ]);
    cluster.job(&id, "all elements run", |job| job["array"]["running"] == 6);
    let third = format!("{id}[3]");
    cli.good(&["jobs", "kill", &third]);
    assert_eq!(cluster.ended(&third)["exit"]["cause"], "TERM_OWNER");
    let array = cli.job(&id);
    assert_eq!(
        (
            array["array"]["running"].as_u64(),
            array["array"]["exited"].as_u64()
        ),
        (Some(5), Some(1)),
        "{array}"
    );
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &id]);
    assert_eq!(cli.job(&id)["array"]["exited"], 6);
    cluster.audit();
}
