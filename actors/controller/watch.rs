//! A watch: the committed state that one client wants to see, pushed as it changes.
//!
//! It is a state feed, rendered: an object that changed ten times since the last push is sent once. The
//! watch holds a position, never what is to be sent, so that a client that reads slowly is coalesced;
//! one that reads nothing for a while is cut off and resumes after the last position that it has.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use xce_ledger::{Change, Cursor, Key, Portion, Scope, View};
use xce_link::{CloseCode, Peer, SendError};
use xce_model::{JobId, ServiceId};
use xce_session::wire::{Changes, Reply, WatchFilter};

use crate::control::Control;
use crate::resume::Resume;
use crate::sessions::SessionInfo;
use crate::views;

/// Changes of one pushed message. Source: derived; some 600 bytes a row, far below one frame.
const ROWS_MAX: usize = 1000;
/// Bytes that may wait for a client before it counts as slow.
/// Source: derived; ten thousand clients that read nothing hold 2.5 GB less than with full send queues.
const WAITING_BYTES_MAX: usize = 256 * 1024;
/// Pause before a client that is slow is looked at again; what changes meanwhile is coalesced.
/// Source: chosen; some round trips.
const SLOW_PAUSE: Duration = Duration::from_millis(50);
/// How long a client may read nothing. Source: chosen; a pause of a person's terminal is longer, and
/// costs a resume.
const SLOW_MAX: Duration = Duration::from_secs(10);
/// Pause between two pushes, in which changes gather. Source: chosen; nobody sees it, and a thousand
/// watches cost a burst of commits so many pushes less.
const PACE: Duration = Duration::from_millis(5);

/// One client's watch.
struct Watch {
    control: Arc<Control>,
    info: Arc<SessionInfo>,
    peer: Peer,
    number: u64,
    filter: WatchFilter,
    cursor: Cursor,
    resume: Option<Resume>,
}

/// The connection is over, or was cut off.
struct Over;

/// Runs until the connection ends.
pub async fn run(
    control: Arc<Control>,
    info: Arc<SessionInfo>,
    peer: Peer,
    number: u64,
    filter: WatchFilter,
) {
    let mut published = control.published.clone();
    let after = filter.after;
    if peer.reply(number, &Reply::Watching { after }).is_err() {
        return;
    }
    let scope = match &filter.project {
        Some(project) => Scope::Project(Arc::from(project.as_str())),
        None => Scope::All,
    };
    let mut watch = Watch {
        cursor: Cursor::new(scope, after),
        resume: Some(Resume::new(after, control.node.clock().monotonic_ns())),
        control,
        info,
        peer,
        number,
        filter,
    };
    loop {
        published.borrow_and_update();
        if watch.catch_up().await.is_err() {
            return;
        }
        tokio::time::sleep(PACE).await;
        if published.changed().await.is_err() {
            return;
        }
    }
}

impl Watch {
    /// Pushes all that has changed; the first push is sent even when it is empty.
    async fn catch_up(&mut self) -> Result<(), Over> {
        // Whether the client waits for the rest of what belongs together.
        let mut is_open = false;
        loop {
            self.wait_for_room().await?;
            let view = self.control.view();
            let mut changes = Vec::new();
            let portion = self.cursor.next(&view, |change| {
                changes.push(change);
                changes.len() < ROWS_MAX
            });
            let is_first = self.resume.is_some() && !is_open;
            let Some(portion) = portion.or_else(|| is_first.then(|| nothing(&view))) else {
                return Ok(());
            };
            let part = self.render(&view, &portion, changes);
            let rows = rows(&part);
            if rows > 0 || is_first || is_open {
                let bytes = self.push(&part)?;
                if let Some(resume) = &mut self.resume {
                    resume.add(portion.full, rows, bytes);
                }
            }
            is_open = portion.more;
            if !portion.more
                && let Some(resume) = self.resume.take()
            {
                let now_ns = self.control.node.clock().monotonic_ns();
                self.info.note_resume(resume.finish(now_ns));
            }
        }
    }

    /// Waits until the client has read most of what it was sent.
    async fn wait_for_room(&self) -> Result<(), Over> {
        let since = Instant::now();
        while self.peer.waiting_bytes() > WAITING_BYTES_MAX {
            if self.peer.closed_now().is_some() {
                return Err(Over);
            }
            if since.elapsed() > SLOW_MAX {
                let text = format!(
                    "the watch reads too slowly; resume it after LSN {}",
                    self.cursor.lsn()
                );
                self.peer.close(CloseCode::SlowPeer, &text);
                return Err(Over);
            }
            tokio::time::sleep(SLOW_PAUSE).await;
        }
        Ok(())
    }

    /// Bytes that were queued.
    fn push(&self, part: &Changes) -> Result<usize, Over> {
        match self.peer.push_counted(self.number, part) {
            Ok(bytes) => {
                self.info.sent.fetch_add(1, Ordering::Relaxed);
                Ok(bytes)
            }
            Err(SendError::Ended { .. }) => Err(Over),
            Err(error @ (SendError::SlowPeer { .. } | SendError::Encode(_))) => {
                // The client resumes after what it has.
                self.peer.close(CloseCode::SlowPeer, &error.to_string());
                Err(Over)
            }
        }
    }

    /// What the client sees of some changes. A service is seen through its replicas and a host through
    /// its jobs, so these change with them.
    fn render(&self, view: &View, portion: &Portion, changes: Vec<Change>) -> Changes {
        let seer = self.control.seer(view);
        let mut part = Changes {
            lsn: if portion.full {
                portion.of
            } else {
                portion.lsn
            },
            full: portion.full,
            more: portion.more,
            services: Vec::new(),
            jobs: Vec::new(),
            hosts: Vec::new(),
            gone: Vec::new(),
        };
        let mut services: BTreeSet<ServiceId> = BTreeSet::new();
        let mut hosts: BTreeSet<Arc<str>> = BTreeSet::new();
        for change in changes {
            match change {
                Change::Job(job) => {
                    if !portion.full {
                        services.extend(job.service.map(|part| part.service));
                        hosts.extend(job.host.clone());
                    }
                    if self.filter.jobs {
                        part.jobs.push(seer.job(&job));
                    }
                }
                Change::Array(array) if self.filter.jobs => part.jobs.push(seer.array(&array)),
                Change::Service(service) => {
                    services.insert(service.id);
                }
                Change::Host(host) => {
                    hosts.insert(Arc::from(host.inventory.name.as_str()));
                }
                Change::Gone { key, .. } => part.gone.extend(self.gone(&key)),
                Change::Array(_) | Change::Session(_) | Change::Policy(_) => {}
            }
        }
        if self.filter.services {
            part.services = services
                .into_iter()
                .filter_map(|id| seer.service(id))
                .collect();
        }
        if self.filter.hosts {
            let records = hosts.iter().filter_map(|name| view.host(name));
            let times = self.control.times();
            let row = |host| views::host_view(view, host, times, None);
            part.hosts = records.map(|host| row(host)).collect();
        }
        part
    }

    fn gone(&self, key: &Key) -> Option<String> {
        match key {
            Key::Job(id) => self.filter.jobs.then(|| format!("job/{id}")),
            Key::Array(number) => {
                let id = JobId::single(*number);
                self.filter.jobs.then(|| format!("job/{id}"))
            }
            Key::Host(name) => self.filter.hosts.then(|| format!("host/{name}")),
            Key::Service(id) => self.filter.services.then(|| format!("service/{id}")),
            Key::Session(_) | Key::Policy(..) => None,
        }
    }
}

fn rows(part: &Changes) -> usize {
    part.jobs.len() + part.services.len() + part.hosts.len() + part.gone.len()
}

/// What is said to a client for which nothing has changed.
fn nothing(view: &View) -> Portion {
    Portion {
        full: false,
        first: false,
        more: false,
        lsn: view.lsn(),
        of: view.lsn(),
    }
}
