//! From the outcomes of tries to a verdict, and when the next try is: pure.

use xce_model::spec::Probe;

use super::{Outcome, Role, Verdict};

/// Longest wait between tries until the first success, in milliseconds.
///
/// Source: design section 7.3.
const FIRST_PERIOD_MS: u64 = 1_000;

/// Shortest wait between the starts of two tries, in milliseconds.
///
/// Source: derived; a period of zero must not spin.
const PERIOD_MS_MIN: u64 = 1;

/// Shortest time between two reasons of a probe that stays bad, in milliseconds.
///
/// Source: derived; each is a fact that is committed, and a person looks no more often.
const REASON_PERIOD_MS: u64 = 10_000;

/// One probe of one start.
#[derive(Debug, Clone)]
pub struct ProbeCore {
    period_ms: u64,
    /// Whether failures of the frequent first tries count no more often than once a period.
    patient: bool,
    /// Start of the last failure that counted.
    counted_ms: Option<u64>,
    successes_wanted: u32,
    failures_wanted: u32,
    successes: u32,
    failures: u32,
    /// The last verdict; nothing before the first.
    good: Option<bool>,
    succeeded: bool,
    /// How often it could not be run, and up to which count that was told.
    unrunnable: u64,
    unrunnable_told: u64,
    unrunnable_now: bool,
    /// Why it is bad, as last told, and when that was.
    told: Option<(String, u64)>,
    next_ms: u64,
}

impl ProbeCore {
    /// A probe of a job that started at `started_ms`, milliseconds since boot. `kept` is the
    /// verdict from before the worker started, where there is one: it stands until disproved.
    pub fn new(probe: &Probe, role: Role, started_ms: u64, kept: Option<bool>) -> Self {
        let successes_wanted = match role {
            Role::Readiness => probe.success_threshold.max(1),
            Role::Startup | Role::Liveness => 1,
        };
        Self {
            period_ms: probe.period.0.max(PERIOD_MS_MIN),
            patient: role != Role::Readiness,
            counted_ms: None,
            successes_wanted,
            failures_wanted: probe.failure_threshold.max(1),
            successes: 0,
            failures: 0,
            good: kept.or((role == Role::Liveness).then_some(true)),
            succeeded: kept == Some(true),
            unrunnable: 0,
            unrunnable_told: 0,
            unrunnable_now: false,
            told: None,
            next_ms: started_ms.saturating_add(probe.initial_delay.0),
        }
    }

    /// When the next try begins, milliseconds since boot; may have passed.
    pub fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// How many tries could not be run.
    pub fn unrunnable(&self) -> u64 {
        self.unrunnable
    }

    /// The last verdict; nothing before the first.
    pub fn good(&self) -> Option<bool> {
        self.good
    }

    /// Counts a try; what is news.
    pub fn tried(&mut self, outcome: Outcome, began_ms: u64, ended_ms: u64) -> Vec<Verdict> {
        let mut news = Vec::new();
        match outcome {
            Outcome::Success => {
                news.extend(self.runnable());
                news.extend(self.success());
            }
            Outcome::Failure(text) => {
                news.extend(self.runnable());
                news.extend(self.failure(text, began_ms));
            }
            Outcome::Unrunnable(text) => news.extend(self.cannot(text)),
        }
        let period_ms = if self.succeeded {
            self.period_ms
        } else {
            self.period_ms.min(FIRST_PERIOD_MS)
        };
        self.next_ms = began_ms.saturating_add(period_ms).max(ended_ms);
        news
    }

    fn cannot(&mut self, text: String) -> Option<Verdict> {
        self.unrunnable = self.unrunnable.saturating_add(1);
        let count = self.unrunnable;
        let began = !std::mem::replace(&mut self.unrunnable_now, true);
        let due = began || count >= self.unrunnable_told.saturating_mul(2);
        if due {
            self.unrunnable_told = count;
        }
        due.then_some(Verdict::Unrunnable { count, text })
    }

    fn runnable(&mut self) -> Option<Verdict> {
        let count = self.unrunnable;
        std::mem::take(&mut self.unrunnable_now).then(|| Verdict::Unrunnable {
            count,
            text: String::new(),
        })
    }

    fn success(&mut self) -> Option<Verdict> {
        self.counted_ms = None;
        self.succeeded = true;
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        let news = self.good != Some(true) && self.successes >= self.successes_wanted;
        if news {
            self.good = Some(true);
        }
        news.then_some(Verdict::Good)
    }

    fn failure(&mut self, text: String, began_ms: u64) -> Option<Verdict> {
        self.successes = 0;
        let again_ms = self.counted_ms.map(|at| at.saturating_add(self.period_ms));
        if self.patient && again_ms.is_some_and(|again_ms| began_ms < again_ms) {
            return None;
        }
        self.counted_ms = Some(began_ms);
        self.failures = self.failures.saturating_add(1);
        let news = self.good != Some(false) && self.failures >= self.failures_wanted;
        if news {
            self.good = Some(false);
        }
        let says = news || self.says_otherwise(&text, began_ms);
        if says || self.told.is_none() {
            self.told = Some((text.clone(), began_ms));
        }
        says.then_some(Verdict::Bad(text))
    }
}

impl ProbeCore {
    /// Whether one that is bad is so for another reason than was told, not too soon after that.
    fn says_otherwise(&self, text: &str, now_ms: u64) -> bool {
        // What was told before the worker started is not known: it stands until another one.
        let other = self.told.as_ref().is_some_and(|(told, at_ms)| {
            told != text && now_ms >= at_ms.saturating_add(REASON_PERIOD_MS)
        });
        // The others end with their first verdict.
        other && self.good == Some(false) && !self.patient
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xce_model::Millis;
    use xce_model::spec::ProbeAction;

    fn probe() -> Probe {
        Probe {
            action: ProbeAction::Exec {
                command: vec!["true".to_owned()],
            },
            initial_delay: Millis(0),
            period: Millis(10_000),
            timeout: Millis(1_000),
            success_threshold: 1,
            failure_threshold: 3,
        }
    }

    fn bad() -> Outcome {
        Outcome::Failure("bad".to_owned())
    }

    fn run(core: &mut ProbeCore, outcomes: &str) -> String {
        let mut said = String::new();
        for letter in outcomes.chars() {
            let outcome = match letter {
                's' => Outcome::Success,
                'f' => bad(),
                _ => Outcome::Unrunnable("no".to_owned()),
            };
            let news = core.tried(outcome, core.next_ms(), core.next_ms());
            said.extend(news.iter().map(|news| match news {
                Verdict::Good => 'G',
                Verdict::Bad(_) => 'B',
                Verdict::Unrunnable { text, .. } if text.is_empty() => 'R',
                Verdict::Unrunnable { .. } => 'U',
            }));
            if news.is_empty() {
                said.push('.');
            }
        }
        said
    }

    #[test]
    fn verdicts_follow_the_thresholds() {
        let table = [
            // role, successes wanted, kept, tries, verdicts
            (Role::Readiness, 1, None, "s", "G"),
            (Role::Readiness, 1, None, "ssss", "G..."),
            (Role::Readiness, 1, None, "fffs", "..BG"),
            (Role::Readiness, 1, None, "sffsfff", "G.....B"),
            (Role::Readiness, 2, None, "sfss", "...G"),
            (Role::Readiness, 1, Some(true), "ss", ".."),
            (Role::Readiness, 1, Some(true), "fff", "..B"),
            (Role::Readiness, 1, Some(false), "fffs", "...G"),
            (Role::Liveness, 1, None, "sss", "..."),
            // Frequent first tries do not make it impatient: a failure counts once a period.
            (Role::Liveness, 1, None, "fff", "..."),
            (
                Role::Liveness,
                1,
                None,
                "fffffffffffffffffffff",
                "....................B",
            ),
            (Role::Liveness, 1, None, "sfff", "...B"),
            (
                Role::Startup,
                1,
                None,
                "fffffffffffffffffffffs",
                "....................BG",
            ),
            (
                Role::Startup,
                1,
                None,
                "fffffffffffffffs",
                "...............G",
            ),
            (Role::Startup, 9, None, "fs", ".G"),
            // What cannot be run is neither, is told at each doubling, and resets nothing.
            (Role::Readiness, 1, None, "uuu", "UU."),
            (Role::Readiness, 1, None, "ffuf", "..URB"),
            (Role::Liveness, 1, None, "uuuuuuuuu", "UU.U...U."),
            (Role::Readiness, 1, None, "usfu", "URG.U"),
        ];
        for (role, wanted, kept, tries, expected) in table {
            let probe = Probe {
                success_threshold: wanted,
                ..probe()
            };
            let mut core = ProbeCore::new(&probe, role, 0, kept);
            assert_eq!(
                run(&mut core, tries),
                expected,
                "{role:?} {wanted} {kept:?} {tries}"
            );
        }
    }

    #[test]
    fn the_first_try_is_exactly_after_the_initial_delay() {
        let probe = Probe {
            initial_delay: Millis(700),
            ..probe()
        };
        let core = ProbeCore::new(&probe, Role::Readiness, 5_000, None);
        assert_eq!(core.next_ms(), 5_700);
    }

    #[test]
    fn tries_are_frequent_until_the_first_success_and_never_overlap() {
        let mut core = ProbeCore::new(&probe(), Role::Readiness, 0, None);
        core.tried(bad(), 0, 5);
        assert_eq!(core.next_ms(), 1_000);
        core.tried(bad(), 1_000, 2_500);
        assert_eq!(core.next_ms(), 2_500, "a slow try delays the next");
        core.tried(Outcome::Success, 2_500, 2_501);
        assert_eq!(core.next_ms(), 12_500);
        core.tried(Outcome::Success, 12_500, 30_000);
        assert_eq!(core.next_ms(), 30_000);
    }

    #[test]
    fn a_short_period_stays_short_and_zero_does_not_spin() {
        let mut core = ProbeCore::new(
            &Probe {
                period: Millis(200),
                ..probe()
            },
            Role::Readiness,
            0,
            None,
        );
        core.tried(bad(), 0, 1);
        assert_eq!(core.next_ms(), 200);
        let mut core = ProbeCore::new(
            &Probe {
                period: Millis(0),
                ..probe()
            },
            Role::Readiness,
            0,
            None,
        );
        core.tried(bad(), 0, 0);
        assert_eq!(core.next_ms(), 1);
    }

    #[test]
    fn another_reason_is_told_no_more_often_than_once_in_a_while() {
        let mut core = ProbeCore::new(&probe(), Role::Readiness, 0, None);
        let fail = |core: &mut ProbeCore, text: &str, at_ms: u64| {
            core.tried(Outcome::Failure(text.to_owned()), at_ms, at_ms)
        };
        assert!(fail(&mut core, "refused", 0).is_empty());
        assert!(fail(&mut core, "refused", 1_000).is_empty());
        let refused = fail(&mut core, "refused", 2_000);
        assert_eq!(refused, [Verdict::Bad("refused".to_owned())]);
        assert!(fail(&mut core, "refused", 60_000).is_empty());
        let status = [Verdict::Bad("status 404".to_owned())];
        assert_eq!(fail(&mut core, "status 404", 61_000), status);
        assert!(fail(&mut core, "status 500", 62_000).is_empty());
        assert_eq!(fail(&mut core, "status 500", 71_000).len(), 1);
    }
}
