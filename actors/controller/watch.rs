//! A watch: the committed state that one client wants to see, pushed as it changes.
//!
//! It is a state feed: an object that changed ten times since the last push is sent once. The cost
//! of coming back follows what changed, by the ledger's change index, or is the full state where
//! the history is too short.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use xce_ledger::View;
use xce_link::{Peer, SendError};
use xce_model::{JobId, Lsn};
use xce_session::wire::{Changes, Reply, WatchFilter};

use crate::control::Control;
use crate::sessions::SessionInfo;
use crate::views;

/// Rows of one pushed message. Source: derived; some 600 bytes a row, far below one frame.
const ROWS_MAX: usize = 1000;
/// Pause before a reader that is too slow is tried again; what changes meanwhile is coalesced.
/// Source: chosen; some round trips.
const SLOW_PAUSE: Duration = Duration::from_millis(50);

/// Runs until the connection ends.
pub async fn run(
    control: Arc<Control>,
    info: Arc<SessionInfo>,
    peer: Peer,
    number: u64,
    filter: WatchFilter,
) {
    let mut published = control.published.clone();
    let mut after = filter.after;
    if peer.reply(number, &Reply::Watching { after }).is_err() {
        return;
    }
    let mut first = true;
    loop {
        published.borrow_and_update();
        let view = control.view();
        let parts = collect(&view, &filter, after, control.times(), first);
        if first {
            note(&info, &parts, after);
        }
        for part in &parts {
            if send(&peer, number, part).await.is_err() {
                return;
            }
            info.sent.fetch_add(1, Ordering::Relaxed);
        }
        after = view.lsn();
        first = false;
        drop(view);
        if published.changed().await.is_err() {
            return;
        }
    }
}

fn note(info: &SessionInfo, parts: &[Changes], after: Lsn) {
    let rows: usize = parts
        .iter()
        .map(|part| part.jobs.len() + part.services.len() + part.hosts.len())
        .sum();
    let how = if parts.iter().any(|part| part.full) {
        "full"
    } else {
        "delta"
    };
    info.note_resume(format!(
        "{how} after {after}: {rows} rows in {} messages",
        parts.len()
    ));
}

async fn send(peer: &Peer, number: u64, part: &Changes) -> Result<(), ()> {
    loop {
        match peer.push(number, part) {
            Ok(()) => return Ok(()),
            Err(SendError::SlowPeer { .. }) => tokio::time::sleep(SLOW_PAUSE).await,
            Err(SendError::Ended { .. } | SendError::Encode(_)) => return Err(()),
        }
    }
}

/// What a reader that holds the state of `after` has to be sent, in bounded parts.
fn collect(
    view: &View,
    filter: &WatchFilter,
    after: Lsn,
    times: views::Times,
    first: bool,
) -> Vec<Changes> {
    let mut gone = Vec::new();
    let keys = if after == 0 {
        None
    } else {
        changed(view, after, &mut gone)
    };
    let full = keys.is_none();
    let keys = keys.unwrap_or_else(|| everything(view));
    let mut parts = Parts {
        lsn: view.lsn(),
        full,
        parts: Vec::new(),
        rows: ROWS_MAX,
    };
    let seer = views::Seer::new(view, times);
    let project = |name: &str| filter.project.as_ref().is_none_or(|wanted| wanted == name);
    if filter.services {
        let rows = keys.services.iter().filter_map(|id| seer.service(*id));
        for row in rows.filter(|row| project(&row.project)) {
            parts.row().services.push(row);
        }
    }
    if filter.hosts {
        for host in keys.hosts.iter().filter_map(|name| view.host(name)) {
            let row = views::host_view(view, host, times, None);
            parts.row().hosts.push(row);
        }
    }
    if filter.jobs {
        for id in &keys.jobs {
            let row = match (view.job(*id), view.array(id.number)) {
                (Some(job), _) => seer.job(job),
                (None, Some(array)) => seer.array(array),
                (None, None) => continue,
            };
            if project(&row.project) {
                parts.row().jobs.push(row);
            }
        }
    }
    for key in gone {
        parts.row().gone.push(key);
    }
    parts.finish(first)
}

struct Parts {
    lsn: Lsn,
    full: bool,
    parts: Vec<Changes>,
    rows: usize,
}

impl Parts {
    fn row(&mut self) -> &mut Changes {
        if self.rows >= ROWS_MAX || self.parts.is_empty() {
            self.parts.push(self.empty());
            self.rows = 0;
        }
        self.rows += 1;
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    fn empty(&self) -> Changes {
        Changes {
            lsn: self.lsn,
            full: self.full,
            more: true,
            services: Vec::new(),
            jobs: Vec::new(),
            hosts: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// The last part says that nothing more follows; the first push is sent even when empty.
    fn finish(mut self, first: bool) -> Vec<Changes> {
        if first && self.parts.is_empty() {
            self.parts.push(self.empty());
        }
        if let Some(last) = self.parts.last_mut() {
            last.more = false;
        }
        self.parts
    }
}

struct Keys {
    services: Vec<xce_model::ServiceId>,
    hosts: Vec<Arc<str>>,
    jobs: Vec<JobId>,
}

fn everything(view: &View) -> Keys {
    let arrays = view.arrays().keys().map(|number| JobId::single(*number));
    Keys {
        services: view.services().keys().copied().collect(),
        hosts: view.hosts().keys().cloned().collect(),
        jobs: view.jobs().keys().copied().chain(arrays).collect(),
    }
}

/// What changed since a position; nothing where the history that is kept is too short. A service
/// is seen through its replicas and a host through its jobs, so these change with them.
fn changed(view: &View, after: Lsn, gone: &mut Vec<String>) -> Option<Keys> {
    let index = view.changes();
    let jobs = index.jobs.since(after).ok()?;
    let arrays = index.arrays.since(after).ok()?;
    let hosts = index.hosts.since(after).ok()?;
    let services = index.services.since(after).ok()?;
    let touched = || jobs.changed.iter().filter_map(|id| view.job(*id));
    let mut service_keys = services.changed;
    service_keys.extend(
        touched()
            .filter_map(|job| job.service)
            .map(|part| part.service),
    );
    service_keys.sort_unstable();
    service_keys.dedup();
    let mut host_keys = hosts.changed;
    host_keys.extend(touched().filter_map(|job| job.host.clone()));
    host_keys.sort_unstable();
    host_keys.dedup();
    gone.extend(jobs.gone.iter().map(|id| format!("job/{id}")));
    gone.extend(arrays.gone.iter().map(|number| format!("job/{number}")));
    gone.extend(hosts.gone.iter().map(|name| format!("host/{name}")));
    gone.extend(services.gone.iter().map(|id| format!("service/{id}")));
    let arrays = arrays.changed.into_iter().map(JobId::single);
    Some(Keys {
        services: service_keys,
        hosts: host_keys,
        jobs: jobs.changed.into_iter().chain(arrays).collect(),
    })
}
