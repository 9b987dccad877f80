//! Nothing of a job survives its first process, however it hides.

use xce_shim::{Outcome, ShimState, machine};

use crate::harness::{both_ways, is_gone, pids, shell, start};

#[test]
fn grandchildren_and_daemons_are_gone_at_the_end() {
    // A child, a grandchild, and a daemon: forked twice, own session, files closed.
    let script = "sleep 1000 & a=$!
        sh -c 'sleep 1000 & echo $! > $D/b; wait' &
        setsid sh -c 'setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > $D/c' &
        wait $!
        while [ ! -s $D/b ]; do :; done
        echo $a $(cat $D/b $D/c) > $D/up
        read x < $D/go
        exit 5";
    for cgroup in both_ways() {
        let mut spec = shell(script);
        spec.cgroup = cgroup;
        let mut run = start(spec);
        let pids = pids(&run.up());
        assert_eq!(pids.len(), 3);
        assert!(pids.iter().all(|pid| !is_gone(*pid)));
        run.go();
        assert_eq!(run.end().outcome, Outcome::Code(5));
        assert!(pids.iter().all(|pid| is_gone(*pid)));
    }
}

#[test]
fn a_tree_that_keeps_forking_is_ended() {
    let script = "fork() { while :; do sh -c 'sleep 1000 & sleep 1000 & wait' & sleep 0; done; }
        fork & fork &
        sleep 0.01; echo $$ > $D/up
        read x < $D/go";
    for cgroup in both_ways() {
        let mut spec = shell(script);
        spec.cgroup = cgroup;
        let mut run = start(spec);
        let started = run.started();
        run.up();
        run.go();
        assert_eq!(run.end().outcome, Outcome::Code(0));
        let left = machine::processes()
            .into_iter()
            .filter(|stat| stat.session == started.job.pid);
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn children_that_nobody_waits_for_do_not_pile_up() {
    let script = "i=0; while [ $i -lt 50 ]; do (: & :); i=$((i+1)); done
        echo up > $D/up; read x < $D/go";
    let mut run = start(shell(script));
    let shim = run.started().shim.pid;
    run.up();
    let mut control = run.control();
    loop {
        assert_eq!(control.status().unwrap().state, ShimState::Running);
        let dead = |stat: &machine::ProcessStat| stat.parent == shim && !stat.is_alive();
        if !machine::processes().iter().any(dead) {
            break;
        }
    }
    run.go();
    assert_eq!(run.end().outcome, Outcome::Code(0));
}
