//! A shim that is killed, refused, or of another boot; records that are damaged.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use xce_shim::{
    ControlError, Event, HostFaultKind, LaunchFailure, LostReason, Outcome, Reclaim, RunRecord,
    RunState, inspect, kill_shim, reclaim, reclaim::NONCE_VARIABLE,
};

use crate::harness::{both_ways, is_gone, next_event, pids, prepare, shell, start, start_in};

#[test]
fn a_killed_shim_takes_the_tree_along_and_the_run_is_lost() {
    let script = "sleep 1000 & a=$!
        setsid sh -c 'sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > $D/b'
        echo $$ $a $(cat $D/b) > $D/up; wait";
    for cgroup in both_ways() {
        let mut spec = shell(script);
        spec.cgroup = cgroup;
        spec.env
            .push((NONCE_VARIABLE.to_owned(), spec.nonce.clone()));
        let mut run = start(spec);
        let started = run.started();
        let pids = pids(&run.up());
        assert_eq!(reclaim(&run.dir).unwrap(), Reclaim::ShimAlive);
        kill_process(Pid::from_raw(started.shim.pid).unwrap(), Signal::KILL).unwrap();
        run.child.wait().unwrap();
        let lost = RunState::Lost {
            reason: LostReason::ShimGone,
            run: Some(started.clone()),
        };
        assert_eq!(inspect(&run.dir).unwrap(), lost);
        while reclaim(&run.dir).unwrap() != Reclaim::Gone {}
        assert!(pids.iter().all(|pid| is_gone(*pid)));
        assert!(
            started
                .cgroups
                .iter()
                .all(|group| !fs::exists(group).unwrap())
        );
        assert_eq!(inspect(&run.dir).unwrap(), lost, "it stays lost");
    }
}

#[test]
fn a_second_shim_is_refused_while_the_first_lives_and_after() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    let started = run.started();
    run.up();
    for over in [false, true] {
        if over {
            run.go();
            assert_eq!(run.end().outcome, Outcome::Code(2));
        }
        let (mut second, mut said) = start_in(&run.dir);
        assert!(matches!(next_event(&mut said), Some(Event::Error(_))));
        assert_eq!(second.wait().unwrap().code(), Some(3));
        assert_eq!(RunRecord::load(&run.dir).unwrap(), started);
    }
}

#[test]
fn a_run_of_another_boot_is_lost_and_nothing_is_killed() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    let started = run.started();
    run.up();
    run.go();
    run.end();
    fs::remove_file(run.dir.join("exit")).unwrap();
    let mut other = started;
    other.boot_id = "another".to_owned();
    // Had it been of this boot, this very process would be the job.
    other.job.pid = i32::try_from(std::process::id()).unwrap();
    other.job.start_ticks = xce_shim::machine::start_ticks(other.job.pid);
    other.store(&run.dir).unwrap();
    let lost = RunState::Lost {
        reason: LostReason::Rebooted,
        run: Some(other),
    };
    assert_eq!(inspect(&run.dir).unwrap(), lost);
    assert_eq!(reclaim(&run.dir).unwrap(), Reclaim::Gone);
}

#[test]
fn a_pid_that_was_given_again_is_not_killed() {
    let mut bystander = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let mut run = start(shell("exit 0"));
    let mut record = run.started();
    run.end();
    fs::remove_file(run.dir.join("exit")).unwrap();
    record.job.pid = i32::try_from(bystander.id()).unwrap();
    record.job.start_ticks = xce_shim::machine::start_ticks(record.job.pid) + 1;
    record.store(&run.dir).unwrap();
    assert_eq!(reclaim(&run.dir).unwrap(), Reclaim::Gone);
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_directory_without_a_shim_was_never_started() {
    let (_keep, dir) = prepare();
    shell("true").store(&dir).unwrap();
    assert_eq!(inspect(&dir).unwrap(), RunState::NeverStarted);
    assert_eq!(reclaim(&dir).unwrap(), Reclaim::Gone);
}

#[test]
fn damaged_records_are_lost_with_a_reason() {
    for text in ["", "{", "{\"version\":2}", "\u{0}"] {
        let mut run = start(shell("exit 0"));
        run.end();
        fs::write(run.dir.join("exit"), text).unwrap();
        fs::write(run.dir.join("run"), text).unwrap();
        let state = inspect(&run.dir).unwrap();
        let RunState::Lost {
            reason: LostReason::ExitUnreadable(reason),
            run: None,
        } = state
        else {
            panic!("{state:?}");
        };
        assert!(reason.contains("exit record"), "{reason}");
        assert_eq!(reclaim(&run.dir).unwrap(), Reclaim::Gone);
    }
}

#[test]
fn a_shim_that_does_not_answer_is_killed_and_its_tree_with_it() {
    for cgroup in both_ways() {
        let mut spec = shell("sleep 1000 & echo $$ $! > $D/up; wait");
        spec.cgroup = cgroup;
        let mut run = start(spec);
        let shim = Pid::from_raw(run.started().shim.pid).unwrap();
        let pids = pids(&run.up());
        kill_process(shim, Signal::STOP).unwrap();
        let mut control = run.control();
        control
            .set_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        assert!(matches!(control.status(), Err(ControlError::Io(_))));
        assert!(kill_shim(&run.dir).unwrap());
        run.child.wait().unwrap();
        while reclaim(&run.dir).unwrap() != Reclaim::Gone {}
        assert!(pids.iter().all(|pid| is_gone(*pid)));
        assert!(!kill_shim(&run.dir).unwrap());
    }
}

#[test]
fn a_job_whose_run_record_cannot_be_written_does_not_go_on() {
    let (_keep, dir) = prepare();
    shell("sleep 1000").store(&dir).unwrap();
    fs::create_dir(dir.join(".run.tmp")).unwrap();
    let (mut child, mut said) = start_in(&dir);
    let mut exit = None;
    while let Some(event) = next_event(&mut said) {
        if let Event::Exit(record) = event {
            exit = Some(record);
        }
    }
    let Some(Outcome::NotLaunched(LaunchFailure::Host(fault))) = exit.map(|exit| exit.outcome)
    else {
        panic!("it must be the host's fault");
    };
    assert_eq!(fault.kind, HostFaultKind::Spool);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_exit_record_that_cannot_be_written_is_tried_again() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    run.up();
    fs::create_dir(run.dir.join(".exit.tmp")).unwrap();
    let mut control = run.control();
    assert!(matches!(
        control.next_event().unwrap(),
        Some(Event::Started(_))
    ));
    run.go();
    let said = control.next_event().unwrap();
    assert!(
        matches!(&said, Some(Event::Error(text)) if text.contains("exit record")),
        "{said:?}"
    );
    // Who follows it hears the outcome at once, and so does who comes later.
    let is_exit = |event: &Option<Event>| match event {
        Some(Event::Exit(exit)) => exit.outcome == Outcome::Code(2),
        _ => false,
    };
    assert!(is_exit(&control.next_event().unwrap()));
    assert!(matches!(
        inspect(&run.dir).unwrap(),
        RunState::Running { .. }
    ));
    let mut late = run.control();
    while !is_exit(&late.next_event().unwrap()) {}
    fs::remove_dir(run.dir.join(".exit.tmp")).unwrap();
    assert_eq!(run.end().outcome, Outcome::Code(2));
}

#[test]
fn a_run_whose_lock_was_removed_is_never_started_again_and_is_ended() {
    for cgroup in both_ways() {
        let mut spec = shell("sleep 1000 & echo $$ $! > $D/up; wait");
        spec.cgroup = cgroup;
        let mut run = start(spec);
        let started = run.started();
        let pids = pids(&run.up());
        fs::remove_file(run.dir.join("lock")).unwrap();
        let lost = RunState::Lost {
            reason: LostReason::ShimGone,
            run: Some(started.clone()),
        };
        assert_eq!(inspect(&run.dir).unwrap(), lost);
        while reclaim(&run.dir).unwrap() != Reclaim::Gone {
            // It is our child: until it is reaped it is there.
            let _ = run.child.try_wait();
        }
        assert!(pids.iter().all(|pid| is_gone(*pid)));
        run.child.wait().unwrap();
    }
}
