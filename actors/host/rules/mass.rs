//! Most hosts are silent at once: the controller rather doubts its own network.
//!
//! ```text
//!   a loss is due ─► most silent? ──no──────────────────────────────► declare it
//!                        │ yes
//!                        ▼             grace is over
//!                     doubted ─────────────────────────► declared, a few at a time
//!                        ▲ │ not one host answers: none is lost
//!                        └─┘
//! ```
//!
//! The doubt is a memory of one reign: a new primary gives every host a fresh grace anyway. It only
//! puts a loss off, so what is committed follows from the silence alone.

use xce_model::{ClusterTime, Millis};

use super::Patience;

/// Share of the hosts that may go silent within one grace before the controller doubts its own
/// network, in hundredths. Default of the setting `mass_loss`. Source: design section 8.1.
pub const MASS_LOSS_PERCENT: u32 = 50;
/// Least number of silent hosts that counts as a mass loss. Source: design section 8.1.
pub const MASS_LOSS_LEAST: u32 = 3;

/// Share of the hosts that are declared lost after a doubt within the time of one beat, at least one
/// host; so a host that is back is seen between two rounds.
/// Source: chosen; an operator has minutes to step in, and the scheduler is not flooded: with beats
/// every 2 s 5 000 hosts are lost in 200 s, four hosts in 8 s.
pub const LOSSES_PERCENT: u32 = 1;

/// What is known of all hosts when the loss of one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Around {
    /// Hosts that are suspect, this one among them.
    pub silent: u32,
    /// Hosts that were lost by silence within the last grace.
    pub lost_lately: u32,
    /// Hosts that are up.
    pub answering: u32,
}

impl Around {
    /// Whether so many went silent within one grace that it is rather the controller's network.
    pub const fn is_mass_loss(self, percent: u32) -> bool {
        let gone = self.silent + self.lost_lately;
        gone >= MASS_LOSS_LEAST && gone * 100 > (gone + self.answering) * percent
    }

    const fn all(self) -> u32 {
        self.silent + self.lost_lately + self.answering
    }
}

/// What becomes of a loss that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is declared.
    Declare,
    /// It is put off; to be asked again then.
    Wait(ClusterTime),
}

/// Why losses are put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Not one host answers.
    All,
    /// Most went silent within one grace; none is lost before this time.
    Most(ClusterTime),
    /// The time of the doubt is over: they are declared lost a few at a time.
    Slowly,
}

/// The doubt of a primary in its own network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MassLoss {
    /// The doubt, where there is one.
    doubted: Option<Doubted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doubted {
    why: Doubt,
    /// When a loss was last asked for under it: one that nobody asks under any more is over.
    asked: ClusterTime,
    /// When the present round of losses began, and how many it declared.
    round: (ClusterTime, u32),
}

impl MassLoss {
    /// Judges one loss that is due.
    pub fn judge(
        &mut self,
        around: Around,
        now: ClusterTime,
        patience: Patience,
        percent: u32,
    ) -> Verdict {
        let before = self.doubted;
        let before = before.filter(|doubted| is_fresh(doubted, now, patience));
        let until = now.after(patience.grace);
        let again = now.after(Millis(patience.grace.0 / ASKED_AGAIN));
        let why = match before.map(|doubted| doubted.why) {
            _ if around.answering == 0 => Doubt::All,
            // Somebody answers again: the others get the time to.
            Some(Doubt::All) => Doubt::Most(until),
            Some(Doubt::Most(until)) if until <= now => Doubt::Slowly,
            Some(why @ (Doubt::Most(_) | Doubt::Slowly)) => why,
            None if around.is_mass_loss(percent) => Doubt::Most(until),
            None => {
                self.doubted = None;
                return Verdict::Declare;
            }
        };
        let mut round = before.map_or((ClusterTime(0), 0), |doubted| doubted.round);
        let verdict = match why {
            Doubt::All => Verdict::Wait(again),
            Doubt::Most(until) => Verdict::Wait(until.min(again)),
            Doubt::Slowly => slowly(&mut round, around, now, patience.beat),
        };
        self.doubted = Some(Doubted {
            why,
            asked: now,
            round,
        });
        verdict
    }

    /// The doubt now, for whoever watches.
    pub fn doubt(&self, now: ClusterTime, patience: Patience) -> Option<Doubt> {
        self.doubted
            .filter(|doubted| is_fresh(doubted, now, patience))
            .map(|doubted| doubted.why)
    }
}

/// Part of a grace after which a loss that is put off is asked for again.
/// Source: chosen; 5 000 hosts ask a thousand times a second.
const ASKED_AGAIN: u64 = 4;

/// A doubt under which nobody asks any more is over.
fn is_fresh(doubted: &Doubted, now: ClusterTime, patience: Patience) -> bool {
    let asked_within = (patience.grace.0 * 2 / ASKED_AGAIN).max(patience.beat.0 * 2);
    now.since(doubted.asked) <= Millis(asked_within)
}

fn slowly(
    round: &mut (ClusterTime, u32),
    around: Around,
    now: ClusterTime,
    pause: Millis,
) -> Verdict {
    if now.since(round.0) >= pause || round.1 == 0 {
        *round = (now, 0);
    }
    let most = (around.all() * LOSSES_PERCENT / 100).max(1);
    if round.1 >= most {
        return Verdict::Wait(round.0.after(pause));
    }
    round.1 += 1;
    Verdict::Declare
}

impl Doubt {
    /// A stable word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all_silent",
            Self::Most(_) => "most_silent",
            Self::Slowly => "slowly",
        }
    }

    /// What operators are told.
    pub fn sentence(self, around: Around, now: ClusterTime) -> String {
        let Around {
            silent, answering, ..
        } = around;
        let all = silent + answering;
        match self {
            Self::All => format!(
                "not one of {silent} hosts answers: the controller doubts its own network and \
                 declares none lost; `hosts confirm-dead` recovers the jobs of one that is off"
            ),
            Self::Most(until) => format!(
                "{silent} of {all} hosts went silent at once: the controller doubts its own \
                 network and declares none lost for another {} s",
                until.since(now).0.div_ceil(1000)
            ),
            Self::Slowly => format!(
                "{silent} of {all} hosts are silent after a second grace: they are declared lost a \
                 few at a time"
            ),
        }
    }
}
