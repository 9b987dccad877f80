//! Stop, kill, suspend, lease; readers that come and go; junk on the socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use xce_shim::{
    Cause, Control, ControlError, ControlPath, Event, Outcome, Request, RunState, ShimState,
    inspect, machine,
};

use crate::harness::{Run, both_ways, is_gone, pids, shell, start};

const HOUR_MS: u64 = 3_600_000;

fn owner() -> Cause {
    Cause::new("TERM_OWNER").unwrap()
}

fn stop(grace_ms: u64) -> Request {
    Request::Stop {
        signal: 15,
        grace_ms,
        cause: owner(),
    }
}

fn waiting(cgroup: Option<String>) -> Run {
    let mut spec = shell("sleep 1000 & echo $$ $! > $D/up; wait");
    spec.cgroup = cgroup;
    start(spec)
}

#[test]
fn a_stop_that_is_honoured_ends_within_the_grace() {
    for cgroup in both_ways() {
        let mut spec = shell("trap 'exit 9' TERM; sleep 1000 & echo $! > $D/up; wait");
        spec.cgroup = cgroup;
        let mut run = start(spec);
        let pids = pids(&run.up());
        run.control().ask(&stop(HOUR_MS)).unwrap();
        let exit = run.end();
        assert_eq!(
            (exit.outcome, exit.cause),
            (Outcome::Code(9), Some(owner()))
        );
        assert!(pids.iter().all(|pid| is_gone(*pid)));
    }
}

#[test]
fn a_stop_that_is_ignored_ends_by_a_kill() {
    for cgroup in both_ways() {
        let mut spec = shell("trap '' TERM; sleep 1000 & echo $! > $D/up; wait; wait");
        spec.cgroup = cgroup;
        let mut run = start(spec);
        let pids = pids(&run.up());
        run.control().ask(&stop(1)).unwrap();
        let exit = run.end();
        assert_eq!(
            (exit.outcome, exit.cause),
            (Outcome::Signal(9), Some(owner()))
        );
        assert!(pids.iter().all(|pid| is_gone(*pid)));
    }
}

#[test]
fn a_second_stop_shortens_the_grace_and_keeps_the_first_cause() {
    let mut run = start(shell(
        "trap '' TERM; echo up > $D/up; while :; do sleep 1000; done",
    ));
    run.up();
    let mut control = run.control();
    control.ask(&stop(HOUR_MS)).unwrap();
    assert_eq!(control.status().unwrap().state, ShimState::Stopping);
    let cause = Cause::new("TERM_ADMIN").unwrap();
    control
        .ask(&Request::Stop {
            signal: 15,
            grace_ms: 0,
            cause,
        })
        .unwrap();
    let exit = run.end();
    assert_eq!(
        (exit.outcome, exit.cause),
        (Outcome::Signal(9), Some(owner()))
    );
}

#[test]
fn a_kill_ends_at_once() {
    for cgroup in both_ways() {
        let mut run = waiting(cgroup);
        let pids = pids(&run.up());
        run.control()
            .ask(&Request::Kill { cause: owner() })
            .unwrap();
        let exit = run.end();
        assert_eq!(
            (exit.outcome, exit.cause),
            (Outcome::Signal(9), Some(owner()))
        );
        assert!(pids.iter().all(|pid| is_gone(*pid)));
    }
}

#[test]
fn a_suspended_job_stands_still_and_can_be_stopped() {
    for cgroup in both_ways() {
        let frozen = cgroup.clone();
        let mut run = waiting(cgroup);
        let pids = pids(&run.up());
        let mut control = run.control();
        control.ask(&Request::Signal(19)).unwrap();
        assert_eq!(control.status().unwrap().state, ShimState::Suspended);
        if frozen.is_none() {
            // A stop is taken when the process next runs.
            let stopped = |pid: &i32| machine::process_stat(*pid).unwrap().state == b'T';
            while !pids.iter().all(stopped) {
                std::thread::yield_now();
            }
        }
        control.ask(&Request::Signal(18)).unwrap();
        assert_eq!(control.status().unwrap().state, ShimState::Running);
        control.ask(&Request::Signal(19)).unwrap();
        control.ask(&stop(HOUR_MS)).unwrap();
        assert_eq!(run.end().outcome, Outcome::Signal(15));
    }
}

#[test]
fn other_signals_reach_the_job() {
    let mut run = start(shell(
        "trap 'exit 6' USR1; sleep 1000 & echo up > $D/up; wait",
    ));
    run.up();
    run.control().ask(&Request::Signal(10)).unwrap();
    assert_eq!(run.end().outcome, Outcome::Code(6));
}

#[test]
fn an_ended_lease_kills_without_grace() {
    let mut spec = shell("trap '' TERM; echo up > $D/up; while :; do sleep 1000; done");
    spec.lease_boot_ms = Some(machine::boot_ms() + HOUR_MS);
    let mut run = start(spec);
    run.up();
    let mut control = run.control();
    control
        .ask(&Request::Lease(machine::boot_ms() + HOUR_MS))
        .unwrap();
    control.ask(&Request::Lease(1)).unwrap();
    let exit = run.end();
    assert_eq!(
        (exit.outcome, exit.cause),
        (Outcome::Signal(9), Some(Cause::lease()))
    );
}

#[test]
fn a_term_to_the_shim_stops_its_job_in_order() {
    let mut run = start(shell(
        "trap 'exit 3' TERM; sleep 1000 & echo up > $D/up; wait",
    ));
    let shim = rustix::process::Pid::from_raw(run.started().shim.pid).unwrap();
    run.up();
    rustix::process::kill_process(shim, rustix::process::Signal::TERM).unwrap();
    let exit = run.end();
    assert_eq!(
        (exit.outcome, exit.cause),
        (Outcome::Code(3), Some(Cause::shim()))
    );
}

#[test]
fn readers_come_and_go() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    let started = run.started();
    run.up();
    for _ in 0..3 {
        let mut control = run.control();
        assert_eq!(
            control.next_event().unwrap(),
            Some(Event::Started(started.clone()))
        );
        let status = control.status().unwrap();
        assert_eq!(
            (status.state, status.usage.processes),
            (ShimState::Running, 1)
        );
        assert!(status.usage.memory_bytes > 0);
        let seen = inspect(&run.dir).unwrap();
        assert_eq!(
            seen,
            RunState::Running {
                run: Some(started.clone())
            }
        );
    }
    let mut last = run.control();
    assert_eq!(last.next_event().unwrap(), Some(Event::Started(started)));
    run.go();
    assert!(matches!(last.next_event().unwrap(), Some(Event::Exit(_))));
    assert_eq!(last.next_event().unwrap(), None);
    assert_eq!(run.end().outcome, Outcome::Code(2));
    assert!(Control::connect(&run.dir).is_err());
}

#[test]
fn nobody_needs_to_be_there() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    run.up();
    // Closes the pipe to which the shim speaks.
    drop(std::mem::replace(&mut run.said, silence()));
    run.go();
    assert!(run.child.wait().unwrap().success());
    assert!(matches!(inspect(&run.dir).unwrap(), RunState::Exited(_)));
}

fn silence() -> BufReader<std::process::ChildStdout> {
    let mut done = std::process::Command::new("true")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    done.wait().unwrap();
    BufReader::new(done.stdout.take().unwrap())
}

#[test]
fn junk_is_answered_and_changes_nothing() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    run.up();
    let way = ControlPath::open(&run.dir).unwrap();
    let mut stream = UnixStream::connect(way.path()).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("started "));
    stream
        .write_all(b"frobnicate\n\xff\xfe\nstop 15\n")
        .unwrap();
    stream.write_all(&[b'x'; 10_000]).unwrap();
    stream.write_all(b"\nstatus\n").unwrap();
    for expected in ["unknown request", "not text", "milliseconds", "too long"] {
        let line = lines.next().unwrap().unwrap();
        assert!(
            line.starts_with("error ") && line.contains(expected),
            "{line}"
        );
    }
    assert!(lines.next().unwrap().unwrap().starts_with("status "));
    let mut control = run.control();
    control.send(&Request::Signal(0)).unwrap();
    let refused = control.status();
    assert!(
        matches!(refused, Err(ControlError::Refused(_))),
        "{refused:?}"
    );
    run.go();
    assert_eq!(run.end().outcome, Outcome::Code(2));
}

#[test]
fn too_many_clients_are_told_so() {
    let mut run = start(shell("echo up > $D/up; read x < $D/go; exit 2"));
    run.up();
    let mut clients: Vec<Control> = (0..16).map(|_| run.control()).collect();
    for client in &mut clients {
        assert!(matches!(
            client.next_event().unwrap(),
            Some(Event::Started(_))
        ));
    }
    let refused = run.control().next_event().unwrap();
    assert!(matches!(refused, Some(Event::Error(_))), "{refused:?}");
    drop(clients);
    run.go();
    assert_eq!(run.end().outcome, Outcome::Code(2));
}
