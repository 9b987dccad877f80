//! Three controllers: each is killed in turn, hands over, comes and goes.

use xce_tests::harness::patience;
use xce_tests::harness::three::Three;

use super::{identities, idle_service, service, word};

#[test]
fn services_and_jobs_outlive_each_controller_in_turn() {
    let mut three = Three::start("outlive");
    let file = idle_service(three.folder(), "web", 3);
    three
        .cli()
        .good(&["services", "create", word(&file), "--wait"]);
    let before = identities(&three.steady("web", 3));
    let mut jobs = Vec::new();
    for round in 0..3 {
        let primary = three.primary();
        three.kill(&primary);
        // The same command reaches whoever leads next.
        jobs.push(three.cli().submit(&["-m", "16MiB", "--", "true"]));
        assert_ne!(three.primary(), primary, "round {round}");
        assert_eq!(identities(&three.steady("web", 3)), before, "round {round}");
        three.up(&primary);
    }
    for job in &jobs {
        patience::until(&format!("job {job} has ended"), || {
            three.cli().job(job)["state"] == "DONE"
        });
    }
    three.cli().good(&["audit"]);
}

#[test]
fn the_leadership_is_handed_over_and_controllers_come_and_go() {
    let mut three = Three::start("members");
    let first = three.primary();
    let next = if first == "c2" { "c3" } else { "c2" };
    three.cli().good(&["cluster", "transfer-leader", next]);
    assert_eq!(three.primary(), next);
    let refused = three.cli().run(&["cluster", "remove", next]).refused(1);
    assert!(refused.contains("is the primary"), "{refused}");
    let refused = three.cli().run(&["cluster", "remove", "c9"]).refused(3);
    assert!(
        refused.contains("there is no controller `c9`; the cluster has"),
        "{refused}"
    );
    let gone = ["c1", "c2", "c3"]
        .into_iter()
        .find(|name| *name != next && *name != "c1");
    let gone = gone.expect("three names");
    three.cli().good(&["cluster", "remove", gone]);
    three.kill(gone);
    // Its number is never given again.
    three.add_controller("c4");
    three.cli().submit(&["-m", "16MiB", "--", "true"]);
    let damaged = three.xced(&["join", "xce-join-1.AAAA", "--listen", "127.0.0.1:1"], "x");
    assert!(damaged.failed().contains("damaged"));
    // An empty state directory founds nothing by itself.
    let home = three.home("c1");
    three.kill("c1");
    std::fs::rename(home.join("controller/log"), home.join("log")).expect("the log is there");
    std::fs::remove_file(home.join("controller/IDENTITY")).expect("the file is there");
    let config = home.join("controller.toml");
    let answer = three
        .xced(&["controller", "--config", word(&config)], "c1")
        .failed();
    assert!(answer.contains("holds no state"), "{answer}");
}

#[test]
fn a_rolling_update_goes_on_under_another_primary() {
    let mut three = Three::start("update");
    let sleeper = r#"["sh", "-c", "sleep 1; touch ready; exec sleep 100000"]"#;
    let more = "rollout = { max_surge = 1, max_unavailable = 0 }\n[probes.readiness]\n\
                exec = { command = [\"test\", \"-e\", \"ready\"] }\nperiod = \"200ms\"";
    let file = service(three.folder(), "web", 4, sleeper, more);
    three
        .cli()
        .good(&["services", "create", word(&file), "--wait"]);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    let changed = text.replace("sleep 1;", "sleep 1; true;");
    std::fs::write(&file, changed).expect("the folder can be written");
    three.cli().good(&["services", "update", word(&file)]);
    for _ in 0..2 {
        let primary = three.primary();
        three.kill(&primary);
        let service = three.cli().service("web");
        assert!(service["available"].as_u64() >= Some(3), "{service}");
        three.up(&primary);
    }
    let service = three.steady("web", 4);
    assert_eq!(service["version"], 2);
    let restarts = super::rows(&service, "replicas").iter().map(|replica| {
        replica["restarts"].as_u64().unwrap_or(1) + replica["run"].as_u64().unwrap_or(9)
    });
    assert!(
        restarts.into_iter().all(|sum| sum == 1),
        "moved or restarted: {service}"
    );
    three.cli().good(&["audit"]);
}

#[test]
fn what_is_wrong_with_the_controllers_is_said_and_no_quorum_is_given_away() {
    let mut three = Three::start("quorum");
    let status = three.cli().json(&["cluster", "status"]);
    assert_eq!(status["primary"], three.primary());
    assert_eq!(
        (&status["voters_up"], &status["quorum"]),
        (&3.into(), &2.into())
    );
    let primary = three.primary();
    let others: Vec<&str> = ["c1", "c2", "c3"]
        .into_iter()
        .filter(|name| *name != primary)
        .collect();
    let (dead, alive) = (others[0], others[1]);
    three.kill(dead);
    let mut alarms = String::new();
    patience::until("the dead controller is missed", || {
        alarms = three.cli().json(&["cluster", "status"])["alarms"].to_string();
        alarms.contains(&format!("controller {dead} at"))
    });
    assert!(
        alarms.contains("with one more loss nothing can be changed"),
        "{alarms}"
    );
    let refused = three.cli().run(&["cluster", "remove", alive]).refused(1);
    assert!(refused.contains("bring one back first"), "{refused}");
    let refused = three
        .cli()
        .run(&["cluster", "transfer-leader", dead])
        .refused(5);
    assert!(refused.contains("does not answer now"), "{refused}");
    three.cli().good(&["cluster", "remove", dead]);
    let status = three.cli().json(&["cluster", "status"]);
    assert_eq!(
        (&status["voters"], &status["voters_up"]),
        (&2.into(), &2.into())
    );
    // One that was taken out is not let in again, and the cluster goes on.
    three.up(dead);
    three.cli().submit(&["-m", "16MiB", "--", "true"]);
    assert_eq!(
        three
            .cli()
            .json(&["cluster", "members"])
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}
