//! Stopping in order, and starting again.

use xce_tests::Setup;
use xce_tests::harness::processes;

use super::{identities, idle_service, word};

#[test]
fn a_stop_that_keeps_jobs_takes_them_up_again() {
    let mut cluster = Setup::new("keep-jobs").keep_jobs().start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "quiet", 3);
    cli.good(&["services", "create", word(&file)]);
    let before = identities(&cluster.steady("quiet", 3));
    let job = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&job);
    assert!(cluster.stop().success());
    assert!(processes::is_alive(pid), "the job goes on");
    cli.run(&["--retry-for", "100ms", "jobs", "list"])
        .refused(5);
    cluster.up();
    assert_eq!(identities(&cluster.steady("quiet", 3)), before);
    assert_eq!(cluster.running(&job), pid);
    cluster.audit();
}

#[test]
fn a_stop_ends_jobs_and_a_start_runs_the_services_again() {
    let mut cluster = Setup::new("stop-jobs").start();
    let cli = cluster.cli();
    let file = idle_service(cluster.folder(), "quiet", 3);
    cli.good(&["services", "create", word(&file)]);
    let before = cluster.steady("quiet", 3);
    let job = cli.submit(&["--", "sleep", "100000"]);
    let pid = cluster.running(&job);
    assert!(cluster.stop().success());
    assert!(!processes::is_alive(pid), "the job was stopped");
    let left = cluster.processes();
    assert!(left.is_empty(), "nothing is left: {left:?}");
    cluster.up();
    let after = cluster.steady("quiet", 3);
    assert_eq!(after["id"], before["id"]);
    let alive = identities(&after)
        .iter()
        .all(|(_, _, pid)| processes::is_alive(*pid));
    assert!(alive, "the service runs again: {after}");
    let job = cli.job(&job);
    assert!(
        job["terminal"] == true || job["run"] == 2,
        "a stopped job has ended or runs anew: {job}"
    );
    cluster.audit();
}
