//! Follows a log, and makes each of its decisions again.

use std::collections::VecDeque;
use std::sync::Arc;

use xce_ledger::{Group, Ledger, Reader, View};
use xce_model::Lsn;
use xce_wal::Position;

use crate::again::{Again, Decider};
use crate::difference::Difference;

/// Entries whose state is kept for decisions that were made from it.
/// Source: derived; a decision that takes a second at 4 000 entries a second. Views share all that
/// did not change between them.
pub const VIEWS_KEPT: usize = 4096;

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Report {
    /// Position of the state that it began with.
    pub from: Lsn,
    /// Last position.
    pub to: Lsn,
    /// Groups.
    pub groups: u64,
    /// Decisions that were made again.
    pub decisions: u64,
    /// Groups that are inputs, taken as they are.
    pub inputs: u64,
    /// Decisions that cannot be made again: the state that they were made from lies before the first
    /// position, or too far back.
    pub out_of_reach: u64,
    /// Decisions that came out otherwise.
    pub differing: u64,
    /// The first of these.
    pub first: Option<Box<Difference>>,
}

/// A replay under way.
pub struct Replay {
    ledger: Ledger,
    reader: Reader,
    /// States after the last entries, by position.
    views: VecDeque<Arc<View>>,
    decider: Decider,
    report: Report,
}

impl Replay {
    /// Begins with the state of a ledger.
    pub fn new(ledger: Ledger) -> Self {
        let reader = ledger.reader();
        let view = reader.view();
        let report = Report {
            from: view.lsn(),
            to: view.lsn(),
            ..Report::default()
        };
        Self {
            ledger,
            reader,
            views: VecDeque::from([view]),
            decider: Decider::default(),
            report,
        }
    }

    /// Takes the next group of the log: decides again, compares, and applies it.
    pub fn group(&mut self, at: Position, group: Group) {
        self.report.groups += 1;
        match &group.event {
            None => self.report.inputs += 1,
            Some(event) => match view_at(&self.views, group.decided) {
                None => self.report.out_of_reach += 1,
                Some(view) => match self.decider.decide(view, &group, event) {
                    Again::OutOfReach => self.report.out_of_reach += 1,
                    Again::Decided(now) => {
                        let difference = Difference::between(at, &group, &now);
                        self.report.decided(difference);
                    }
                    Again::Nothing(why) => {
                        let difference = Difference::new(at, &group).nothing(&group, why);
                        self.report.decided(Some(difference));
                    }
                },
            },
        }
        // Whatever became of it then becomes of it now: conditions are checked in log order.
        self.ledger.commit(at, &group);
        self.decider.note(group);
    }

    /// Ends an entry, also one without groups: its state is what later decisions are made from.
    pub fn end_entry(&mut self, lsn: Lsn, term: u64) {
        self.ledger.publish(lsn, term);
        self.report.to = lsn;
        if self.views.len() == VIEWS_KEPT {
            self.views.pop_front();
        }
        self.views.push_back(self.reader.view());
    }

    /// What came out so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The state now.
    pub fn view(&self) -> Arc<View> {
        self.reader.view()
    }
}

impl Report {
    fn decided(&mut self, difference: Option<Difference>) {
        self.decisions += 1;
        if let Some(difference) = difference {
            self.differing += 1;
            if self.first.is_none() {
                self.first = Some(Box::new(difference));
            }
        }
    }
}

/// The state after the last entry up to a position; nothing where it is not kept.
fn view_at(views: &VecDeque<Arc<View>>, lsn: Lsn) -> Option<&View> {
    let after = views.partition_point(|view| view.lsn() <= lsn);
    Some(views.get(after.checked_sub(1)?)?.as_ref())
}

/// Replays the groups of a log from a state; an entry ends where the position of the next begins.
pub fn replay(start: View, groups: impl IntoIterator<Item = (Position, Group)>) -> Report {
    let mut replay = Replay::new(Ledger::of(start, Box::new(|_, _| ())));
    let mut last: Option<Position> = None;
    for (at, group) in groups {
        if let Some(last) = last
            && last.lsn != at.lsn
        {
            replay.end_entry(last.lsn, last.term);
        }
        replay.group(at, group);
        last = Some(at);
    }
    if let Some(last) = last {
        replay.end_entry(last.lsn, last.term);
    }
    replay.report
}
