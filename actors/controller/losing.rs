//! A host leaves, or is lost with its jobs.

use std::sync::{Mutex, PoisonError};

use xce_deciding::host as deciding;
use xce_host::HostLife;
use xce_host::rules::{Around, Doubt, MassLoss, Patience, Verdict};
use xce_ledger::{GroupEvent, View};
use xce_model::{ClusterTime, Millis};
use xce_runtime::Crash;

use crate::control::Control;
use crate::host::{Host, State};
use crate::settings::Settings;

/// The worker stopped cleanly: the host is away, its jobs keep their state.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn leave(host: &Host, state: &mut State) -> Result<(), Crash> {
    let view = host.control.view();
    if let Some(decided) = deciding::left(&view, &host.name) {
        let name = host.name.clone();
        let on = (view.lsn(), GroupEvent::HostLeft { host: name });
        let times = host.control.times();
        host.commit_decided("leave", on, times, decided).await?;
    }
    // Ends of the jobs that it stops still come over this connection.
    state.heard_ms = host.control.monotonic_ms();
    host.judge_later(state);
    tracing::info!(host = %host.name, "worker left");
    Ok(())
}

/// Judges the silence of a worker. When it lasted for the whole grace the host is lost, and its jobs
/// are recovered in one group; unless so many are silent that the controller rather doubts its own
/// network. Says when it has to be judged again, where that is known.
///
/// A primary that does not hold its lease judges nobody: another one may hear the host.
///
/// # Errors
/// The actor must end: the outcome of a write is unknown.
pub async fn judge(host: &Host, silent: Millis) -> Result<Option<ClusterTime>, Crash> {
    let control = &host.control;
    let view = control.view();
    let (patience, times) = (control.settings.patience(), control.times());
    if !control.holds_lease() {
        return Ok(Some(times.0.after(patience.beat)));
    }
    let lost = deciding::is_loss(&view, &host.name, silent, patience, times.0);
    if lost && let Some(until) = put_off(host, &view, times.0) {
        return Ok(Some(until));
    }
    let Some(step) = deciding::silence(&view, &host.name, silent, patience, times) else {
        return Ok(None);
    };
    let event = GroupEvent::HostSilent {
        host: host.name.clone(),
        silent,
        patience: Box::new(patience),
    };
    let cause = if lost { "host lost" } else { "suspected" };
    let committed = host
        .commit_decided(cause, (view.lsn(), event), times, step.decided)
        .await?;
    if committed && lost {
        tracing::warn!(host = %host.name, jobs = step.jobs, "host lost");
    }
    Ok(None)
}

/// Until when this loss is put off, where it is. One who said goodbye was not cut off.
fn put_off(host: &Host, view: &View, now: ClusterTime) -> Option<ClusterTime> {
    let record = view.host(&host.name)?;
    if record.life == HostLife::Away {
        return None;
    }
    let settings = &host.control.settings;
    let around = deciding::around(view, settings.patience(), now);
    let doubts = &host.control.doubts;
    let before = doubts.now(now, settings.patience());
    let verdict = doubts.judge(around, now, settings);
    let doubt = doubts.now(now, settings.patience());
    if let Some(doubt) = doubt
        && before.map(Doubt::word) != Some(doubt.word())
    {
        let Around {
            silent, answering, ..
        } = around;
        tracing::warn!(silent, answering, text = %doubt.sentence(around, now), "hosts are silent at once");
    }
    match verdict {
        Verdict::Declare => None,
        Verdict::Wait(until) => Some(until),
    }
}

/// The doubt of this reign in its own network, shared by the actors of all hosts.
#[derive(Debug, Default)]
pub struct Doubts(Mutex<MassLoss>);

impl Doubts {
    fn lock(&self) -> std::sync::MutexGuard<'_, MassLoss> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, around: Around, now: ClusterTime, settings: &Settings) -> Verdict {
        let mut doubts = self.lock();
        doubts.judge(
            around,
            now,
            settings.patience(),
            settings.live.get().mass_loss,
        )
    }

    /// The doubt now.
    pub fn now(&self, now: ClusterTime, patience: Patience) -> Option<Doubt> {
        self.lock().doubt(now, patience)
    }
}

/// What operators are told of the silence of many hosts; nothing where the controller has no doubt.
pub fn alarm(control: &Control, view: &View) -> Option<String> {
    let (now, patience) = (control.now(), control.settings.patience());
    let around = deciding::around(view, patience, now);
    let doubt = control.doubts.now(now, patience);
    let doubt = doubt.filter(|_| around.silent > 0)?;
    Some(doubt.sentence(around, now))
}

/// Most hosts that an alarm names. Source: chosen; what fits a line.
const NAMED_MAX: usize = 5;

/// What operators are told of hosts that do not answer.
pub fn missing(view: &View) -> Vec<String> {
    let of = |life: HostLife| -> Vec<&str> {
        let hosts = view.hosts().values().filter(|host| host.life == life);
        hosts.map(|host| host.inventory.name.as_str()).collect()
    };
    let tell = |(life, hint): (HostLife, &str)| {
        let names = of(life);
        let more = names.len().saturating_sub(NAMED_MAX);
        let mut text = names[..names.len() - more].join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        let (count, word) = (names.len(), life.word());
        let hosts = if count == 1 { "host is" } else { "hosts are" };
        (count > 0).then(|| format!("{count} {hosts} {word}: {text}{hint}"))
    };
    let silent = (HostLife::Suspect, "");
    let lost = (
        HostLife::Lost,
        "; take one that does not come back out with `hosts remove`",
    );
    [silent, lost].into_iter().filter_map(tell).collect()
}
