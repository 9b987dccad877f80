//! Watches of clients: what changed since a position, from whichever controller is the primary; what a
//! client holds must at every position be what there was.

use std::collections::BTreeMap;

use xce_ledger::View;

use super::ClientEvent;
use crate::seats::{End, Planted};
use crate::world::{Event, World};

/// Pause before a watch that ended is opened again.
const OPEN_MS: u64 = 300;

/// One in so many positions all that a client holds is compared, and whenever it comes back.
/// Source: measured, a comparison costs as much as a group.
const CHECK_EVERY: u64 = 8;

/// Objects by name, with the position of their last change.
type Rows = BTreeMap<String, u64>;

/// What a client holds.
#[derive(Debug, Default)]
pub struct Watch {
    rows: Rows,
    /// As of this position.
    pub after: u64,
    /// Number of the present opening.
    number: u64,
    tried: usize,
    /// The controller that serves it, and how far that has sent.
    served: Option<(usize, u64)>,
    pub wanted: bool,
}

/// What is sent of it at once.
#[derive(Debug, Clone)]
pub struct Part {
    full: bool,
    changed: Vec<(String, u64)>,
    gone: Vec<String>,
    after: u64,
    upto: u64,
    /// Checksum of all rows at that position, for the check alone, now and then.
    sum: Option<u32>,
}

fn all_rows(view: &View) -> Rows {
    let services = view.services().iter();
    let services = services.map(|(id, service)| (format!("service/{id}"), service.changed));
    let jobs = view.jobs().iter();
    let jobs = jobs.map(|(id, job)| (format!("job/{id}"), job.changed));
    let hosts = view.hosts().iter();
    let hosts = hosts.map(|(name, host)| (format!("host/{name}"), host.changed));
    services.chain(jobs).chain(hosts).collect()
}

fn sum(rows: &Rows) -> u32 {
    rows.iter().fold(0, |sum, (name, changed)| {
        let sum = crc32c::crc32c_append(sum, name.as_bytes());
        crc32c::crc32c_append(sum, &changed.to_le_bytes())
    })
}

/// What changed since a position; everything where that is too long ago.
fn part(view: &View, after: u64, checked: bool) -> Part {
    let index = view.changes();
    let mut part = Part {
        full: true,
        changed: Vec::new(),
        gone: Vec::new(),
        after,
        upto: view.lsn(),
        sum: checked.then(|| sum(&all_rows(view))),
    };
    let since = (
        index.jobs.since(after),
        index.hosts.since(after),
        index.services.since(after),
    );
    let (Ok(jobs), Ok(hosts), Ok(services)) = since else {
        part.changed = all_rows(view).into_iter().collect();
        return part;
    };
    if after == 0 {
        part.changed = all_rows(view).into_iter().collect();
        return part;
    }
    part.full = false;
    let of_jobs = jobs.changed.iter().filter_map(|id| view.job(*id));
    part.changed
        .extend(of_jobs.map(|job| (format!("job/{}", job.id), job.changed)));
    let of_services = services.changed.iter().filter_map(|id| view.service(*id));
    part.changed
        .extend(of_services.map(|one| (format!("service/{}", one.id), one.changed)));
    for name in &hosts.changed {
        let host = view.host(name);
        part.changed
            .extend(host.map(|host| (format!("host/{name}"), host.changed)));
    }
    part.gone
        .extend(jobs.gone.iter().map(|id| format!("job/{id}")));
    part.gone
        .extend(services.gone.iter().map(|id| format!("service/{id}")));
    part.gone
        .extend(hosts.gone.iter().map(|name| format!("host/{name}")));
    part
}

impl World {
    /// A client opens its watch, or opens it again, at the next controller.
    pub fn open_watch(&mut self, client: usize) {
        let count = self.house().count();
        let watch = &mut self.clients.all[client].watch;
        watch.wanted = true;
        watch.number += 1;
        watch.served = None;
        watch.tried = (watch.tried + 1) % count;
        let (seat, number) = (watch.tried, watch.number);
        if self.reaches(End::Client(client), End::Seat(seat)) {
            let bound = self.house().weather.delay_ms;
            let wait = self.some(bound);
            let event = ClientEvent::Opens { seat, number };
            self.after(wait, Event::Client(client, event));
        } else {
            self.blind_later(client, number);
        }
    }

    fn blind_later(&mut self, client: usize, number: u64) {
        let wait = OPEN_MS + self.some(OPEN_MS);
        let event = ClientEvent::Blind { number };
        self.after(wait, Event::Client(client, event));
    }

    pub fn watch_is_blind(&mut self, client: usize, number: u64) {
        if self.clients.all[client].watch.number == number {
            self.open_watch(client);
        }
    }

    pub fn watch_opens(&mut self, client: usize, at: (usize, u64)) {
        let (seat, number) = at;
        if self.clients.all[client].watch.number != number {
            return;
        }
        if !self.seat_at(seat).is_up() || !self.controller.up {
            return self.blind_later(client, number);
        }
        let watch = &mut self.clients.all[client].watch;
        watch.served = Some((seat, watch.after));
        if watch.after > 0 {
            self.meet("a watch that was resumed");
        }
        self.serve_watch(client, seat);
    }

    /// Everybody who watches here is sent what is published.
    pub fn serve_watches(&mut self, seat: usize) {
        for client in 0..self.clients.all.len() {
            let served = self.clients.all[client].watch.served;
            if served.is_some_and(|(at, _)| at == seat) {
                self.serve_watch(client, seat);
            }
        }
    }

    fn serve_watch(&mut self, client: usize, seat: usize) {
        let skips = self.is_planted(Planted::WatchSkips);
        let view = self.view();
        let watch = &mut self.clients.all[client].watch;
        let Some((_, sent)) = &mut watch.served else {
            return;
        };
        let number = watch.number;
        let resumed = *sent == watch.after && *sent > 0;
        // One deposed that does not know it may be behind what its client has seen elsewhere: as the
        // cursor of a feed does, it tells the whole state that it has.
        let is_behind = *sent > view.lsn();
        let from = match is_behind {
            true => 0,
            false => *sent + u64::from(skips && resumed),
        };
        let checked = resumed || view.lsn().is_multiple_of(CHECK_EVERY);
        let mut part = part(&view, from, checked);
        part.after = *sent;
        *sent = view.lsn();
        if is_behind {
            self.meet("a watch ahead of its controller");
            self.tell(|| {
                let (has, here) = (part.after, part.upto);
                format!("client {client} watches after {has} at a controller at {here}")
            });
        }
        if !self.reaches(End::Seat(seat), End::Client(client)) {
            // The stream breaks: what is lost on it is not sent again on it.
            self.clients.all[client].watch.served = None;
            return self.blind_later(client, number);
        }
        let part = Box::new(part);
        // Parts of one stream come in order: each takes the same time.
        self.after(1, Event::Client(client, ClientEvent::Sees { number, part }));
    }

    pub fn watch_sees(&mut self, client: usize, number: u64, part: Part) {
        let watch = &mut self.clients.all[client].watch;
        if watch.number != number {
            return;
        }
        if part.after != watch.after {
            // It came out of order: the stream is broken off.
            return self.open_watch(client);
        }
        if part.full {
            watch.rows.clear();
        }
        watch.rows.extend(part.changed);
        for name in part.gone {
            watch.rows.remove(&name);
        }
        watch.after = part.upto;
        if part.sum.is_some_and(|all| sum(&watch.rows) != all) {
            self.fail(&format!(
                "the watch of client {client} shows at position {} what was not there",
                part.upto
            ));
        }
        self.meet("a part of a watch");
    }

    pub fn watches_end(&mut self, seat: usize) {
        for client in 0..self.clients.all.len() {
            let watch = &mut self.clients.all[client].watch;
            if watch.served.is_some_and(|(at, _)| at == seat) {
                watch.served = None;
                let number = watch.number;
                self.blind_later(client, number);
            }
        }
    }
}
