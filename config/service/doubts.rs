//! What a single file can show to be doubtful, though it is allowed.

use xce_model::Millis;
use xce_model::spec::Amount;
use xce_profile::defaults;
use xce_profile::document::{ProbeFile, ReplicaAmount, ServiceFile};

/// What is allowed in a file and probably not meant, a sentence each.
///
/// Values that the file leaves out are taken to be the built-in defaults.
pub fn doubts(file: &ServiceFile) -> Vec<String> {
    let mut doubts = Vec::new();
    unprobed(file, &mut doubts);
    fixed_ports(file, &mut doubts);
    for (role, probe) in probes(file) {
        slow_probe(role, probe, &mut doubts);
    }
    early_liveness(file, &mut doubts);
    short_deadline(file, &mut doubts);
    if file.stop.as_ref().and_then(|stop| stop.grace) == Some(Millis(0)) {
        doubts.push(
            "`stop.grace` is 0s: a replica is killed in the moment that it gets its signal"
                .to_owned(),
        );
    }
    doubts
}

fn probes(file: &ServiceFile) -> impl Iterator<Item = (&'static str, &ProbeFile)> {
    file.probes.iter().flat_map(|probes| {
        [
            ("startup", &probes.startup),
            ("readiness", &probes.readiness),
            ("liveness", &probes.liveness),
        ]
        .into_iter()
        .filter_map(|(role, probe)| Some((role, probe.as_ref()?)))
    })
}

fn probe_of<'f>(file: &'f ServiceFile, role: &str) -> Option<&'f ProbeFile> {
    probes(file)
        .find(|(found, _)| *found == role)
        .map(|(_, probe)| probe)
}

fn unprobed(file: &ServiceFile, doubts: &mut Vec<String>) {
    if probe_of(file, "readiness").is_none() && probe_of(file, "startup").is_none() {
        doubts.push(
            "no `probes.readiness`: a replica counts as ready as soon as it runs, and a rollout \
             goes on before it serves"
                .to_owned(),
        );
    }
}

fn fixed_ports(file: &ServiceFile, doubts: &mut Vec<String>) {
    let fixed = file.ports.iter().flatten();
    let Some((name, port)) = fixed
        .filter_map(|port| Some((&port.name, port.port?)))
        .next()
    else {
        return;
    };
    let replicas = file.replicas.unwrap_or(defaults::REPLICAS);
    let rollout = file.rollout.as_ref();
    let given =
        |amount: Option<ReplicaAmount>, default: Amount| amount.map_or(default, |amount| amount.0);
    let surge = given(
        rollout.and_then(|rollout| rollout.max_surge),
        defaults::ROLLOUT.max_surge,
    );
    let surge = match surge {
        Amount::Count(count) => count,
        Amount::Percent(percent) => replicas.saturating_mul(percent).div_ceil(100),
    };
    if surge > 0 {
        doubts.push(format!(
            "`rollout.max_surge` with the fixed port `{name}` {port}: one host holds only one such \
             replica, so a rollout of {replicas} waits for {} hosts; max_surge = 0 and \
             max_unavailable = 1 replace them one by one",
            replicas.saturating_add(surge)
        ));
    } else if replicas > 1 {
        doubts.push(format!(
            "{replicas} replicas with the fixed port `{name}` {port} need {replicas} hosts"
        ));
    }
}

fn slow_probe(role: &str, probe: &ProbeFile, doubts: &mut Vec<String>) {
    let period = probe.period.unwrap_or(defaults::PROBE_PERIOD);
    // The default is no choice of the writer's, and does no harm: the next probe waits for this one.
    if let Some(timeout) = probe.timeout
        && period < timeout
    {
        doubts.push(format!(
            "`probes.{role}`: the period {period} is below the timeout {timeout}; a probe that \
             hangs is followed by the next one only after {timeout}"
        ));
    }
}

/// Time after which a probe that never succeeds has failed.
fn patience(probe: &ProbeFile) -> Millis {
    let period = probe.period.unwrap_or(defaults::PROBE_PERIOD);
    let failures = probe.failure_threshold.unwrap_or(defaults::PROBE_FAILURES);
    let delay = probe.initial_delay.unwrap_or(Millis(0));
    Millis(
        period
            .0
            .saturating_mul(u64::from(failures.saturating_sub(1)))
            .saturating_add(delay.0),
    )
}

fn early_liveness(file: &ServiceFile, doubts: &mut Vec<String>) {
    // Source: chosen; what a program takes to start that loads something first.
    const START: Millis = Millis::seconds(5);
    let Some(probe) = probe_of(file, "liveness") else {
        return;
    };
    let patience = patience(probe);
    if probe_of(file, "startup").is_none() && patience < START {
        doubts.push(format!(
            "`probes.liveness` without `probes.startup`: a replica that takes longer than \
             {patience} to start is restarted again and again"
        ));
    }
}

fn short_deadline(file: &ServiceFile, doubts: &mut Vec<String>) {
    let rollout = file.rollout.as_ref();
    let deadline = rollout
        .and_then(|rollout| rollout.progress_deadline)
        .unwrap_or(defaults::ROLLOUT.progress_deadline);
    let ready = rollout
        .and_then(|rollout| rollout.min_ready)
        .unwrap_or(defaults::ROLLOUT.min_ready);
    let wait = ["startup", "readiness"]
        .into_iter()
        .filter_map(|role| probe_of(file, role)?.initial_delay)
        .fold(ready, |sum, delay| Millis(sum.0.saturating_add(delay.0)));
    if wait > ready && wait >= deadline {
        doubts.push(format!(
            "`rollout.progress_deadline` {deadline} ends before a replica can be available, which \
             takes {wait} with the initial delays of its probes and min_ready"
        ));
    } else if let Some(startup) = probe_of(file, "startup")
        && patience(startup) > deadline
    {
        doubts.push(format!(
            "`rollout.progress_deadline` {deadline} is shorter than the {} that `probes.startup` \
             gives a replica to start",
            patience(startup)
        ));
    }
}
