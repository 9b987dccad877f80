//! Everything killed at once.

use xce_tests::Setup;
use xce_tests::harness::processes;

use super::{identities, idle_service, word};

#[test]
fn services_and_jobs_survive_the_kill_of_all_daemons() {
    let mut cluster = Setup::new("all-kill").broken().start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "quiet", 3);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("quiet", 3));
    let job = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&job);
    let daemons = cluster.daemons();
    daemons
        .iter()
        .for_each(|daemon| processes::kill_hard(daemon.pid));
    cluster.until("all hosts are up", |cli| {
        cli.json(&["cluster", "status"])["hosts_up"] == 2
    });
    assert_eq!(identities(&cluster.steady("quiet", 3)), before);
    assert_eq!(cluster.running(&job), pid);
    cluster.audit();

    // And with their supervisor, as when somebody closes the terminal.
    cluster.crash();
    assert!(
        before.iter().all(|(_, _, pid)| processes::is_alive(*pid)),
        "jobs go on alone"
    );
    cluster.up();
    assert_eq!(identities(&cluster.steady("quiet", 3)), before);
    assert_eq!(cluster.running(&job), pid);
    // What was adopted is still ours to stop.
    cli.good(&["services", "delete", "quiet", "--wait", "--timeout", "60s"]);
    cli.good(&["jobs", "kill", "--wait", "--timeout", "60s", &job]);
    assert!(!processes::is_alive(pid));
    assert!(before.iter().all(|(_, _, pid)| !processes::is_alive(*pid)));
    cluster.audit();
}
