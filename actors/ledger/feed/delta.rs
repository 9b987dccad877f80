//! The changes behind a position, over all kinds in the order in which they were committed.

use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use xce_model::{JobId, Lsn, ServiceId, SessionId};
use xce_profile::PolicyKind;

use super::{Change, Scope};
use crate::changes::Changes;
use crate::view::{Key, View};

/// A place in the order: changes of one position stand in the order of their keys.
type Place = (Lsn, Key);
type Lane<'a> = Peekable<Box<dyn Iterator<Item = Place> + 'a>>;

/// What was told.
pub(super) struct Told {
    /// Whether there was anything.
    pub any: bool,
    /// The last place, where there is more behind it.
    pub more: Option<Place>,
}

/// Whether the history that is held reaches back to what a reader has.
pub(super) fn reaches(view: &View, scope: &Scope, after: Lsn) -> bool {
    let changes = &view.changes;
    let held = |key: Key, floor: Lsn| !scope.has(&key) || after >= floor;
    after > 0
        && after <= view.lsn()
        && held(Key::Job(JobId::single(0)), changes.jobs.floor())
        && held(Key::Array(0), changes.arrays.floor())
        && held(Key::Host(Arc::from("")), changes.hosts.floor())
        && held(Key::Service(ServiceId(0)), changes.services.floor())
        && held(Key::Session(SessionId(0)), changes.sessions.floor())
        && held(
            Key::Policy(PolicyKind::Profile, Arc::from("")),
            changes.policies.floor(),
        )
}

/// Tells what changed after a position, from a place on.
pub(super) fn tell(
    view: &View,
    scope: &Scope,
    after: Lsn,
    place: Option<&Place>,
    take: &mut dyn FnMut(Change) -> bool,
) -> Told {
    let mut lanes = lanes(view, scope, after, place);
    let mut any = false;
    while let Some((lsn, key)) = next(&mut lanes) {
        let Some(change) = scope.change(view, &key, lsn) else {
            continue;
        };
        any = true;
        if !take(change) {
            let is_last = lanes.iter_mut().all(|lane| lane.peek().is_none());
            return Told {
                any,
                more: (!is_last).then_some((lsn, key)),
            };
        }
    }
    Told { any, more: None }
}

/// The earliest of what the lanes hold.
fn next(lanes: &mut [Lane<'_>]) -> Option<Place> {
    let mut first: Option<(usize, &Place)> = None;
    for (number, lane) in lanes.iter_mut().enumerate() {
        if let Some(place) = lane.peek()
            && first.is_none_or(|(_, other)| place < other)
        {
            first = Some((number, place));
        }
    }
    let (number, _) = first?;
    lanes[number].next()
}

fn lanes<'a>(view: &'a View, scope: &Scope, after: Lsn, place: Option<&Place>) -> Vec<Lane<'a>> {
    let changes = &view.changes;
    let mut lanes = Vec::with_capacity(12);
    let mut add = |both: [Box<dyn Iterator<Item = Place> + 'a>; 2], key: Key| {
        if scope.has(&key) {
            lanes.extend(both.map(Iterator::peekable));
        }
    };
    let least = JobId::element(0, 0);
    add(
        lane(&changes.jobs, after, place, least, Key::Job),
        Key::Job(least),
    );
    add(
        lane(&changes.arrays, after, place, 0, Key::Array),
        Key::Array(0),
    );
    let least: Arc<str> = Arc::from("");
    let key = Key::Host(least.clone());
    add(
        lane(&changes.hosts, after, place, least.clone(), Key::Host),
        key,
    );
    let service = ServiceId(0);
    let key = Key::Service(service);
    add(
        lane(&changes.services, after, place, service, Key::Service),
        key,
    );
    let session = SessionId(0);
    let key = Key::Session(session);
    add(
        lane(&changes.sessions, after, place, session, Key::Session),
        key,
    );
    let policy = (PolicyKind::Profile, least.clone());
    let key = Key::Policy(PolicyKind::Profile, least);
    let named = |(kind, name)| Key::Policy(kind, name);
    add(lane(&changes.policies, after, place, policy, named), key);
    lanes
}

/// What changed and what is gone of one kind, as two lanes.
fn lane<'a, Id: Ord + Clone + 'a>(
    changes: &'a Changes<Id>,
    after: Lsn,
    place: Option<&Place>,
    least: Id,
    key: fn(Id) -> Key,
) -> [Box<dyn Iterator<Item = Place> + 'a>; 2] {
    let from = match place {
        // Kinds stand in the order of their keys: of this position some kinds are told whole, some
        // not at all, and one up to a key, which the iterators pass over below.
        Some((at, _)) => (*at, least),
        None => (after.saturating_add(1), least),
    };
    let behind = place.cloned();
    let is_behind = move |(lsn, id): &(Lsn, Id)| match &behind {
        Some((at, last)) => *lsn > *at || key(id.clone()) > *last,
        None => true,
    };
    let passed = is_behind.clone();
    let from_there = Bound::Included(from.clone());
    let changed = changes
        .changed_from(Bound::Included(from))
        .skip_while(move |place| !is_behind(place));
    let gone = changes
        .gone_from(from_there)
        .skip_while(move |place| !passed(place));
    [
        Box::new(changed.map(move |(lsn, id)| (lsn, key(id)))),
        Box::new(gone.map(move |(lsn, id)| (lsn, key(id)))),
    ]
}
