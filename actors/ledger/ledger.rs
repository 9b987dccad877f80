//! The ledger itself: takes committed groups, keeps the state, publishes it.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use xce_model::Lsn;
use xce_wal::Position;

use crate::apply::apply_group;
use crate::group::{Group, Outcome};
use crate::intern::Specs;
use crate::view::{Key, View};

/// Is told of every publication: the new view and the keys that changed since the last, each once.
/// Called on the WAL's thread before the callers are answered: it must not block.
pub type OnChange = Box<dyn Fn(&View, &[Key]) + Send>;

/// The state that committed groups add up to.
pub struct Ledger {
    pub(crate) view: View,
    pub(crate) touched: Vec<Key>,
    pub(crate) specs: Specs,
    shared: Arc<ArcSwap<View>>,
    on_change: OnChange,
}

/// Reads the last published state; cheap to clone and to call from anywhere.
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<ArcSwap<View>>,
}

impl Reader {
    /// The last published state, to keep.
    pub fn view(&self) -> Arc<View> {
        self.shared.load_full()
    }

    /// The last published state, for a short look: cheaper, not to be kept.
    pub fn look(&self) -> Guard<Arc<View>> {
        self.shared.load()
    }

    /// Position of the last published state.
    pub fn lsn(&self) -> Lsn {
        self.shared.load().lsn()
    }
}

impl Ledger {
    /// An empty ledger; `on_change` is told of every publication.
    pub fn new(on_change: OnChange) -> Self {
        Self {
            view: View::default(),
            touched: Vec::new(),
            specs: Specs::default(),
            shared: Arc::new(ArcSwap::from_pointee(View::default())),
            on_change,
        }
    }

    /// A ledger that goes on from a state, for whoever follows a log from there.
    pub fn of(view: View, on_change: OnChange) -> Self {
        Self {
            shared: Arc::new(ArcSwap::from_pointee(view.clone())),
            view,
            touched: Vec::new(),
            specs: Specs::default(),
            on_change,
        }
    }

    /// A reader of what this ledger publishes.
    pub fn reader(&self) -> Reader {
        Reader {
            shared: self.shared.clone(),
        }
    }

    /// The state with everything applied, published or not.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Applies one committed group.
    pub fn commit(&mut self, at: Position, group: &Group) -> Outcome {
        apply_group(
            &mut self.view,
            &mut self.specs,
            &mut self.touched,
            at,
            group,
        )
    }

    /// Puts another state in place of this one and publishes it; every key of both counts as changed.
    pub(crate) fn replace(&mut self, view: View) {
        for old in [&self.view, &view] {
            self.touched.extend(old.keys());
        }
        self.view = view;
        let (lsn, term) = (self.view.lsn, self.view.term);
        self.publish(lsn, term);
    }

    /// Makes everything applied up to a position visible.
    pub fn publish(&mut self, lsn: Lsn, term: u64) {
        self.view.lsn = lsn;
        self.view.term = term;
        let mut keys = std::mem::take(&mut self.touched);
        keys.sort_unstable();
        keys.dedup();
        let view = Arc::new(self.view.clone());
        self.shared.store(view.clone());
        (self.on_change)(&view, &keys);
        keys.clear();
        self.touched = keys;
    }
}

impl View {
    /// Applies a group to this copy of the state as if it were committed next, for imagined runs.
    ///
    /// Each group has a position of its own, so that many may follow each other.
    pub fn imagine(&mut self, group: &Group) -> Outcome {
        let (mut specs, mut touched) = (Specs::default(), Vec::new());
        self.lsn += 1;
        let at = Position {
            term: self.term,
            lsn: self.lsn,
            sub: 0,
        };
        apply_group(self, &mut specs, &mut touched, at, group)
    }

    /// The state as it would be if a group were applied next; nothing where it would be refused.
    ///
    /// For decisions that follow from one that is still on its way to the disk: what is decided
    /// from this has to carry preconditions, and is refused in log order where it turned out
    /// otherwise.
    pub fn with_group(&self, group: &Group) -> Option<Self> {
        let mut view = self.clone();
        let (mut specs, mut touched) = (Specs::default(), Vec::new());
        let at = Position {
            term: self.term,
            lsn: self.lsn + 1,
            sub: 0,
        };
        match apply_group(&mut view, &mut specs, &mut touched, at, group) {
            Outcome::Applied(_) => Some(view),
            Outcome::Repeated(_) | Outcome::Refused(_) | Outcome::Expired => None,
        }
    }
}
