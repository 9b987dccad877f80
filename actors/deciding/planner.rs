//! Planning from a mirror that a feed fills: what a scheduler knows, wherever it runs.
//!
//! ```text
//!   portions of the feed ─► mirror ─► plan (positions and times named) ─► the controller commits or
//!      ▲                                                                  refuses each placement
//!      └───────── the state with what was committed ◄─────────────────────────────┘
//! ```
//!
//! Pure. It plans only from a whole state, and from one that contains its own last placements; what was
//! refused is planned again from a later one.

use xce_ledger::{Change, Mirror, Portion, View};
use xce_model::{ClusterTime, Lsn};
use xce_placement::Placement;

use crate::schedule;

/// Plans in a row of which nothing counted, after which the mirror is filled anew.
/// Source: chosen; others change the same jobs now and then, never five times running.
const FRUITLESS_MAX: u32 = 5;

/// What a scheduler knows.
#[derive(Debug, Default)]
pub struct Planner {
    mirror: Mirror,
    /// Nothing is planned from a state before this: it lacks the own last placements.
    awaits: Lsn,
    fruitless: u32,
}

impl Planner {
    /// One that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Position from which its feed goes on; 0 when it needs the full state.
    pub fn lsn(&self) -> Lsn {
        self.mirror.lsn()
    }

    /// Takes a portion of the feed in.
    pub fn take(&mut self, portion: &Portion, changes: impl IntoIterator<Item = Change>) {
        self.mirror.take(portion, changes);
    }

    /// Takes the full state over from a view in this process, and shares it.
    pub fn adopt(&mut self, view: &View) {
        self.mirror = Mirror::adopt(view);
    }

    /// Nothing that it sees has changed up to a position.
    pub fn pass(&mut self, lsn: Lsn) {
        self.mirror.pass(lsn);
    }

    /// Forgets the state: the next portion has to begin a full one.
    pub fn forget(&mut self) {
        self.mirror = Mirror::new();
        self.fruitless = 0;
    }

    /// The state to plan from, where it is whole and new enough.
    fn state(&self) -> Option<&View> {
        self.mirror.view().filter(|view| view.lsn() >= self.awaits)
    }

    /// Plans what is placed now; nothing while the state is not one to plan from.
    pub fn plan(&self, now: ClusterTime) -> Vec<Placement> {
        self.state()
            .map_or_else(Vec::new, |view| schedule::plan(view, now))
    }

    /// When it should plan again although nothing changes.
    pub fn next_wake(&self, now: ClusterTime) -> Option<ClusterTime> {
        xce_placement::next_wake(self.state()?, now)
    }

    /// What became of a plan: how many placements are committed, up to which position, and how many
    /// were refused.
    pub fn settled(&mut self, lsn: Lsn, placed: usize, refused: usize) {
        if placed > 0 {
            self.awaits = self.awaits.max(lsn);
        }
        self.fruitless = if placed == 0 && refused > 0 {
            self.fruitless + 1
        } else {
            0
        };
    }

    /// Another controller may lead, and what was awaited need not come.
    pub fn reconnected(&mut self) {
        self.awaits = 0;
    }

    /// Plans of which nothing counted, since the last of which something did.
    pub fn fruitless(&self) -> u32 {
        self.fruitless
    }

    /// Whether so many plans came to nothing that the state is to be read anew.
    pub fn is_doubtful(&self) -> bool {
        self.fruitless >= FRUITLESS_MAX
    }
}
