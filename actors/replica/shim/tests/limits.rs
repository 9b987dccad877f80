//! Run limit and resource limits. What this kernel cannot enforce must be named in the record.

use std::fs;

use xce_shim::{Cause, Limits, Outcome, Output, RunRecord, Spec};

use crate::harness::{both_ways, shell, start};

fn limited(script: &str, limits: Limits) -> Spec {
    let mut spec = shell(script);
    spec.limits = limits;
    spec.cgroup = both_ways()[1].clone();
    spec
}

fn is_enforced(run: &RunRecord, name: &str) -> bool {
    !run.not_enforced.iter().any(|missing| missing == name)
}

#[test]
fn the_run_limit_stops_and_then_kills() {
    let mut spec = shell("while :; do sleep 1000; done");
    spec.run_limit_ms = Some(1);
    let exit = start(spec).end();
    assert_eq!(
        (exit.outcome, exit.cause),
        (Outcome::Signal(15), Some(Cause::run_limit()))
    );
    assert!(exit.run_ms >= 1);
    let mut spec = shell("trap '' TERM; echo up > $D/up; while :; do sleep 1000; done");
    spec.run_limit_ms = Some(1);
    spec.stop_signal = 1;
    spec.stop_grace_ms = 1;
    spec.argv[2] = spec.argv[2].replace("TERM", "HUP");
    let mut run = start(spec);
    let exit = run.end();
    assert_eq!(exit.cause, Some(Cause::run_limit()));
}

#[test]
fn a_job_that_ends_in_time_has_no_cause() {
    let mut spec = shell("exit 0");
    spec.run_limit_ms = Some(3_600_000);
    assert_eq!(start(spec).end().cause, None);
}

#[test]
fn the_memory_limit_kills_with_its_cause() {
    let limits = Limits {
        memory_bytes: Some(32 << 20),
        ..Limits::default()
    };
    let mut run = start(limited(
        "head -c 300000000 /dev/zero | tail > /dev/null",
        limits,
    ));
    let started = run.started();
    let exit = run.end();
    if is_enforced(&started, "memory") {
        assert_eq!(exit.cause, Some(Cause::memory_limit()), "{exit:?}");
        assert!(exit.memory_kills > 0);
        assert!(exit.peak_memory_bytes <= 32 << 20, "{exit:?}");
    }
}

#[test]
fn the_process_limit_holds() {
    let limits = Limits {
        pids: Some(8),
        ..Limits::default()
    };
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; exit 0";
    let mut run = start(limited(script, limits));
    let started = run.started();
    let exit = run.end();
    if is_enforced(&started, "pids") {
        assert_ne!(exit.outcome, Outcome::Code(0));
    }
}

#[test]
fn one_process_is_enough_for_one_process() {
    let limits = Limits {
        pids: Some(1),
        cpu_milli: Some(1_000),
        ..Limits::default()
    };
    assert_eq!(
        start(limited("exit 7", limits)).end().outcome,
        Outcome::Code(7)
    );
}

#[test]
fn without_a_control_group_limits_are_named_as_not_enforced() {
    let limits = Limits {
        memory_bytes: Some(1 << 30),
        pids: Some(9),
        cpu_milli: Some(500),
    };
    let mut spec = shell("exit 0");
    spec.limits = limits;
    let mut run = start(spec);
    assert_eq!(run.started().not_enforced, ["memory", "pids", "cpu"]);
    run.end();
}

#[test]
fn usage_counts_the_whole_tree() {
    let script = "i=0; (while [ $i -lt 300000 ]; do i=$((i+1)); done) & wait";
    let exit = start(shell(script)).end();
    assert!(exit.user_ms + exit.system_ms > 0, "{exit:?}");
    assert!(exit.peak_memory_bytes > 0);
}

#[test]
fn a_large_output_is_rotated() {
    let script = "i=0; while [ $i -lt 200 ]; do printf '%01000d' $i; i=$((i+1)); done
        echo up > $D/up; read x < $D/go; printf end";
    let mut spec = shell(script);
    spec.stdout = Output::Spool("out".to_owned());
    spec.output_bytes_max = Some(100_000);
    let mut run = start(spec);
    run.up();
    // The older part appears in one step when the shim has looked.
    while !run.dir.join("out.1").exists() {
        std::thread::yield_now();
    }
    run.go();
    assert_eq!(run.end().outcome, Outcome::Code(0));
    let older = fs::read(run.dir.join("out.1")).unwrap();
    let newer = fs::read(run.dir.join("out")).unwrap();
    assert!(newer.ends_with(b"end"));
    assert_eq!(older.len() + newer.len(), 200_003);
}
