//! Batch jobs and in-place restarts.

use xce_model::{Cause, JobId, Millis};
use xce_replica::wire::{Happened, RunId, Want};

use crate::world::{World, batch, replica, run};

fn start(spec: xce_replica::wire::RunSpec) -> Want {
    Want::Start(Box::new(spec))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_and_its_exit_and_output_are_told() {
    let world = World::joined().await;
    let mut spec = batch(
        7,
        "echo $GREETING ${XCE_JOB} $XCE_RUN ${XCE_HOST} ${XCE_PORT_http}; echo bad >&2; pwd; exit 3",
    );
    spec.ports = vec![("http".to_owned(), 8080)];
    let controller = world.controller();
    controller.want(run(7), start(spec));
    let exit = controller.ended(run(7)).await;
    assert_eq!(
        (exit.code, exit.signal, exit.cause),
        (Some(3), None, Cause::Exited)
    );
    let report = controller
        .happened(run(7), "end", |w| matches!(w, Happened::Ended { .. }))
        .await;
    let Happened::Ended { stderr, .. } = report.what else {
        unreachable!()
    };
    assert_eq!(stderr, "bad\n");
    assert_eq!(
        controller.count(run(7), |w| matches!(w, Happened::Started { .. })),
        1
    );
    let output = controller.output(run(7), false, 0, 4_096).await;
    let text = String::from_utf8(output.data).unwrap();
    assert!(text.starts_with("hello 7 1 w1 8080\n"), "{text}");
    assert!(text.ends_with("/7-1/work\n"), "{text}");
    assert!(output.complete && output.problem.is_empty());
    let part = controller.output(run(7), false, 6, 1).await;
    assert_eq!((part.data.as_slice(), part.complete), (&b"7"[..], false));
    let missing = controller.output(run(8), false, 0, 10).await;
    assert!(
        missing.complete && missing.problem.contains("no longer kept"),
        "{missing:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_all_end_once() {
    let world = World::joined().await;
    let controller = world.controller();
    for element in 0..200 {
        let id = RunId {
            job: JobId::element(9, element),
            run: 1,
        };
        let mut spec = batch(9, "exit 0");
        spec.run = id;
        spec.template.command = vec!["/bin/true".to_owned()];
        controller.want(id, start(spec));
    }
    let is_end = |what: &Happened| matches!(what, Happened::Ended { .. });
    controller
        .until("200 ends", |told| {
            (told.reports.iter().filter(|r| is_end(&r.what)).count() >= 200).then_some(())
        })
        .await;
    for element in 0..200 {
        let id = RunId {
            job: JobId::element(9, element),
            run: 1,
        };
        assert_eq!(controller.count(id, is_end), 1);
        assert!(controller.ended(id).await.is_success());
    }
    assert_eq!(world.worker().live_runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_start_says_why() {
    let world = World::joined().await;
    let controller = world.controller();
    type Change = fn(&mut xce_replica::wire::RunSpec);
    let table: [(Change, i32, &str); 4] = [
        (
            |s| s.template.command = vec!["no-such-program".to_owned()],
            127,
            "no-such-program",
        ),
        (
            |s| s.template.command = vec!["/etc/passwd".to_owned()],
            126,
            "/etc/passwd",
        ),
        (
            |s| s.template.cwd = Some("/no/such/place".to_owned()),
            126,
            "/no/such/place",
        ),
        (
            |s| s.template.command.push("${NOT_THERE}".to_owned()),
            126,
            "`${NOT_THERE}`",
        ),
    ];
    for (number, (change, code, text)) in (1..).zip(table) {
        let mut spec = batch(number, "true");
        change(&mut spec);
        controller.want(run(number), start(spec));
        let exit = controller.ended(run(number)).await;
        assert_eq!(
            (exit.code, exit.cause),
            (Some(code), Cause::LaunchFailed),
            "{exit:?}"
        );
        assert!(exit.detail.contains(text), "{exit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_start_it_is_not_the_jobs_fault() {
    let mut world = World::new().await;
    let mut settings = world.settings();
    settings.shim = "/no/such/shim".into();
    world.start_worker_with(settings).await;
    let controller = world.controller();
    controller.joined(1).await;
    controller.want(run(1), start(batch(1, "true")));
    let is_failure = |what: &Happened| matches!(what, Happened::LaunchFailed { .. });
    let report = controller
        .happened(run(1), "a launch failure", is_failure)
        .await;
    let Happened::LaunchFailed { text } = report.what else {
        unreachable!()
    };
    assert!(text.contains("/no/such/shim"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_restarts_in_place_and_gives_up() {
    let world = World::joined().await;
    let controller = world.controller();
    let script = "echo start; echo $XCE_SERVICE/$XCE_VERSION/$XCE_REPLICA >&2; exit 4";
    controller.want(run(1), start(replica(1, script)));
    let exit = controller.ended(run(1)).await;
    assert_eq!((exit.code, exit.cause), (Some(4), Cause::GaveUp));
    let is_restart = |what: &Happened| matches!(what, Happened::Restarting { .. });
    let report = controller.happened(run(1), "restart", is_restart).await;
    let Happened::Restarting { exit, stderr } = report.what else {
        unreachable!()
    };
    assert_eq!((exit.code, stderr.as_str()), (Some(4), "web/2/3\n"));
    // One file holds the output of all four starts.
    let output = controller.output(run(1), false, 0, 4_096).await;
    assert_eq!(String::from_utf8(output.data).unwrap(), "start\n".repeat(4));
    let last = controller
        .happened(run(1), "end", |w| matches!(w, Happened::Ended { .. }))
        .await;
    assert_eq!(last.start, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_suspend_and_restart_reach_the_job() {
    let world = World::joined().await;
    let controller = world.controller();
    controller.want(
        run(1),
        start(replica(
            1,
            "trap 'exit 9' TERM; while :; do sleep 0.05; done",
        )),
    );
    let started = |n| move |what: &Happened| matches!(what, Happened::Started { .. }) && n > 0;
    controller.happened(run(1), "start", started(1)).await;
    controller
        .happened(run(1), "ready", |what| *what == Happened::Ready)
        .await;
    controller.order(run(1), Want::Suspend);
    controller
        .happened(run(1), "suspended", |what| *what == Happened::Suspended)
        .await;
    controller.order(run(1), Want::Resume);
    controller
        .happened(run(1), "resumed", |what| *what == Happened::Resumed)
        .await;
    controller.order(run(1), Want::Restart);
    controller
        .until("second start", |told| {
            let again = |report: &&xce_replica::wire::Report| {
                report.start == 2 && matches!(report.what, Happened::Started { .. })
            };
            told.reports.iter().find(again).map(|_| ())
        })
        .await;
    controller.want(
        run(1),
        Want::Stop {
            cause: Cause::TermScaleDown,
            drained: false,
        },
    );
    let exit = controller.ended(run(1)).await;
    assert_eq!((exit.code, exit.cause), (Some(9), Cause::TermScaleDown));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ignores_the_signal_is_killed_with_its_tree() {
    let world = World::joined().await;
    let controller = world.controller();
    let mut spec = batch(
        1,
        "trap '' TERM; (trap '' TERM; sleep 1000) & echo $!; wait",
    );
    spec.template.stop.grace = Millis(100);
    controller.want(run(1), start(spec));
    controller
        .happened(run(1), "start", |w| matches!(w, Happened::Started { .. }))
        .await;
    let child = loop {
        let output = controller.output(run(1), false, 0, 100).await;
        if let Ok(pid) = String::from_utf8(output.data)
            .unwrap()
            .trim()
            .parse::<i32>()
        {
            break pid;
        }
        tokio::task::yield_now().await;
    };
    controller.want(
        run(1),
        Want::Stop {
            cause: Cause::TermOwner,
            drained: false,
        },
    );
    let exit = controller.ended(run(1)).await;
    assert_eq!((exit.signal, exit.cause), (Some(9), Cause::TermOwner));
    let left = xce_shim::machine::process_stat(child);
    assert!(left.is_none_or(|stat| !stat.is_alive()), "{left:?}");
}
