//! How far one reader of a feed is, and what it is told next.

use std::sync::Arc;

use xce_model::Lsn;

use super::{Change, Scope, delta, full};
use crate::view::{Key, View};

/// How far one reader is.
#[derive(Debug)]
pub struct Cursor {
    scope: Scope,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Everything up to `lsn` is told and, where there is a place, all changes up to that place.
    Delta { lsn: Lsn, place: Option<(Lsn, Key)> },
    /// The state of a view is told, up to an object.
    Full { of: Arc<View>, last: Option<Key> },
}

/// What a portion of a feed is, apart from its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// Whether it belongs to a full state: what no portion of it names does not exist.
    pub full: bool,
    /// Whether a full state begins with it: whoever takes it forgets what it held.
    pub first: bool,
    /// Whether the reader holds no whole state until more has come.
    pub more: bool,
    /// Position from which a reader that took it can go on; 0 in the middle of a full state.
    pub lsn: Lsn,
    /// Position of the view that it was taken from.
    pub of: Lsn,
}

impl Cursor {
    /// A reader that holds the state of a position; 0 for one that holds nothing.
    pub fn new(scope: Scope, after: Lsn) -> Self {
        let state = State::Delta {
            lsn: after,
            place: None,
        };
        Self { scope, state }
    }

    /// What the reader sees.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Position from which the reader goes on when it has taken what was told; 0 in the middle of a
    /// full state.
    pub fn lsn(&self) -> Lsn {
        match &self.state {
            State::Delta { lsn, .. } => *lsn,
            State::Full { .. } => 0,
        }
    }

    /// Whether the next thing that is told is, or belongs to, a full state.
    pub fn needs_full(&self, view: &View) -> bool {
        match &self.state {
            State::Delta { lsn, .. } => !delta::reaches(view, &self.scope, *lsn),
            State::Full { .. } => true,
        }
    }

    /// Tells the next portion: changes go to `take` until it says that it has no room for another.
    /// Nothing when nothing that the reader sees has changed.
    pub fn next(
        &mut self,
        view: &Arc<View>,
        mut take: impl FnMut(Change) -> bool,
    ) -> Option<Portion> {
        let first = match &self.state {
            State::Delta { lsn, .. } if !delta::reaches(view, &self.scope, *lsn) => {
                self.state = State::Full {
                    of: Arc::clone(view),
                    last: None,
                };
                true
            }
            State::Delta { .. } | State::Full { .. } => false,
        };
        match &mut self.state {
            State::Delta { lsn, place } => {
                let was_open = place.is_some();
                let told = delta::tell(view, &self.scope, *lsn, place.as_ref(), &mut take);
                match told.more {
                    Some((at, key)) => {
                        // Others of the same position may be to come.
                        *lsn = (*lsn).max(at.saturating_sub(1));
                        *place = Some((at, key));
                    }
                    None => {
                        *lsn = (*lsn).max(view.lsn());
                        *place = None;
                    }
                }
                (told.any || was_open).then_some(Portion {
                    full: false,
                    first: false,
                    more: place.is_some(),
                    lsn: *lsn,
                    of: view.lsn(),
                })
            }
            State::Full { of, last } => {
                let more = full::tell(of, &self.scope, last.as_ref(), &mut take);
                let lsn = of.lsn();
                let portion = Portion {
                    full: true,
                    first,
                    more: more.is_some(),
                    lsn: if more.is_some() { 0 } else { lsn },
                    of: lsn,
                };
                match more {
                    Some(key) => *last = Some(key),
                    None => self.state = State::Delta { lsn, place: None },
                }
                Some(portion)
            }
        }
    }
}
