//! What a scheduler says on what it is told. Pure: time is given.

use xce_deciding::Planner;
use xce_ledger::{DecodeError, Portion, RowReader};
use xce_model::{ClusterTime, Lsn, Millis};
use xce_session::feed_wire::{FeedPortion, FromReader, Plan, PlanSettled, PlannedRun, ToReader};

/// Pause after a plan of which nothing counted, before another is made from the same state.
/// Source: chosen; what others change arrives well within it.
const FRUITLESS_PAUSE: Millis = Millis(100);

/// One scheduler, over all its connections.
#[derive(Debug, Default)]
pub struct Core {
    planner: Planner,
    rows: RowReader,
    /// Cluster time as last told, and when by this machine's clock in milliseconds.
    told: Option<(ClusterTime, u64)>,
    plans: u64,
    /// A plan whose outcome is not known: its number and position.
    pending: Option<(u64, Lsn)>,
    /// Position of the last plan of which nothing counted, and when its outcome came.
    fruitless: Option<(Lsn, u64)>,
    /// Portions and ticks that are looked at with the next plan.
    to_answer: Option<u64>,
}

impl Core {
    /// A connection begins: the words with which the feed goes on.
    pub fn open(&mut self) -> FromReader {
        self.rows.begin();
        self.planner.reconnected();
        self.pending = None;
        self.told = None;
        self.to_answer = None;
        FromReader::Open {
            after: self.planner.lsn(),
        }
    }

    /// Whether so many plans came to nothing that the state is forgotten now: the next connection begins
    /// with the full one.
    pub fn forgets(&mut self) -> bool {
        let doubtful = self.planner.is_doubtful();
        if doubtful {
            self.planner.forget();
        }
        doubtful
    }

    /// Position of the state that is held; 0 for none.
    pub fn lsn(&self) -> Lsn {
        self.planner.lsn()
    }

    /// Takes in what the controller says.
    ///
    /// # Errors
    /// Rows that this program cannot read: it must stop.
    pub fn hear(&mut self, what: ToReader, now_ms: u64) -> Result<(), DecodeError> {
        match what {
            ToReader::Portion(portion) => self.portion(&portion, now_ms),
            ToReader::Tick { number, lsn, time } => {
                self.told = Some((time, now_ms));
                self.planner.pass(lsn);
                self.to_answer = Some(number);
                Ok(())
            }
            ToReader::Settled(settled) => {
                self.settled(&settled, now_ms);
                Ok(())
            }
            // Nothing comes until it is this one's turn.
            ToReader::Waits { .. } => Ok(()),
        }
    }

    fn portion(&mut self, portion: &FeedPortion, now_ms: u64) -> Result<(), DecodeError> {
        let changes = self.rows.read(&portion.rows)?;
        self.told = Some((portion.time, now_ms));
        let head = Portion {
            full: portion.full,
            first: portion.first,
            more: portion.more,
            lsn: portion.lsn,
            of: portion.lsn,
        };
        self.planner.take(&head, changes);
        self.to_answer = Some(portion.number);
        Ok(())
    }

    fn settled(&mut self, settled: &PlanSettled, now_ms: u64) {
        let Some((_, made_at)) = self
            .pending
            .take_if(|(number, _)| *number == settled.number)
        else {
            return;
        };
        let (placed, refused) = (settled.placed as usize, settled.refused as usize);
        self.planner.settled(settled.lsn, placed, refused);
        self.fruitless = (placed == 0).then_some((made_at, now_ms));
        if refused > 0 {
            tracing::debug!(
                placed,
                refused,
                reason = settled.reason,
                "placements refused"
            );
        }
    }

    /// Looks at the state: what is to be said, in order.
    pub fn look(&mut self, now_ms: u64) -> Vec<FromReader> {
        let mut said = Vec::new();
        said.extend(self.plan(now_ms).map(FromReader::Plan));
        // Last: what was sent counts as taken when it was looked at.
        if let Some(number) = self.to_answer.take() {
            said.push(FromReader::Taken { number });
        }
        said
    }

    fn plan(&mut self, now_ms: u64) -> Option<Plan> {
        if self.pending.is_some() || self.must_pause(now_ms) {
            return None;
        }
        let time = self.time(now_ms)?;
        let placements = self.planner.plan(time);
        let made_at = placements.first()?.made_at;
        self.plans += 1;
        self.pending = Some((self.plans, made_at));
        Some(Plan {
            number: self.plans,
            made_at,
            time,
            placements: placements
                .into_iter()
                .map(|placement| PlannedRun {
                    job: placement.job,
                    run: placement.run,
                    host: placement.host.to_string(),
                    ports: placement.ports,
                })
                .collect(),
        })
    }

    /// Nothing is planned from a state of which the last plan came to nothing, for a moment.
    fn must_pause(&self, now_ms: u64) -> bool {
        self.fruitless.is_some_and(|(made_at, at_ms)| {
            self.planner.lsn() <= made_at && now_ms < at_ms + FRUITLESS_PAUSE.0
        })
    }

    /// Cluster time now, as far as it was told: never ahead of the controller's.
    fn time(&self, now_ms: u64) -> Option<ClusterTime> {
        let (time, at_ms) = self.told?;
        Some(time.after(Millis(now_ms.saturating_sub(at_ms))))
    }

    /// When to look again although nothing is heard, by this machine's clock in milliseconds.
    pub fn wakes_at(&self, now_ms: u64) -> Option<u64> {
        if self.pending.is_some() {
            return None;
        }
        if self.must_pause(now_ms) {
            return self.fruitless.map(|(_, at_ms)| at_ms + FRUITLESS_PAUSE.0);
        }
        let (time, at_ms) = self.told?;
        let now = self.time(now_ms)?;
        let wake = self.planner.next_wake(now)?;
        Some(at_ms + wake.since(time).0)
    }
}
