//! Wall clocks that are wrong: nothing but what is shown may depend on them.

use std::time::{Duration, Instant};

use xce_tests::harness::clock::Clock;
use xce_tests::harness::patience;

use super::facts::{Identities, all_ran_once, clean, identities};
use super::load::Load;
use super::site::{CONTROLLERS, Site, WORKERS};

/// How far clocks jump. Source: the case.
const JUMP: Duration = Duration::from_secs(3_600);
/// How far they are strobed. Source: the case.
const STROBE: Duration = Duration::from_secs(262);
/// How far they differ for good. Source: the case, minutes.
const APART: Duration = Duration::from_secs(300);
/// Limit of a run that is watched meanwhile, and how much later its end may be seen.
const LIMIT: Duration = Duration::from_secs(6);
const LATER_MOST: Duration = Duration::from_secs(12);

/// A cluster whose daemons go by clocks of their own.
struct Clocks {
    site: Site,
    clocks: Vec<(&'static str, Clock)>,
    before: Identities,
}

impl Clocks {
    fn start(name: &str) -> Self {
        let mut site = Site::start(name);
        let mut clocks = Vec::new();
        for daemon in CONTROLLERS.iter().chain(&WORKERS) {
            let clock = Clock::new(site.three.folder(), daemon);
            let clock = clock.unwrap_or_else(|error| panic!("no clock: {error}"));
            for (key, value) in clock.variables() {
                site.three.environment(daemon, key, &value);
            }
            site.three.kill(daemon);
            site.three.up(daemon);
            clocks.push((*daemon, clock));
        }
        site.until_all_up();
        let before = identities(&site.service("web", 4, ""));
        Self {
            site,
            clocks,
            before,
        }
    }

    fn of(&self, name: &str) -> &Clock {
        let mut all = self.clocks.iter();
        let found = all.find(|(daemon, _)| *daemon == name);
        &found.expect("each daemon has a clock").1
    }

    /// Requires that nothing was elected, lost, moved or cut short while something was done to
    /// clocks.
    fn nothing_happens_while(&self, wrong: impl FnOnce(&Self)) -> String {
        let site = &self.site;
        let load = Load::start(site);
        load.more(2);
        let (primary, term) = (site.three.primary(), site.term());
        let limit = format!("{}s", LIMIT.as_secs());
        let words = [
            "-t", &limit, "-c", "0.01", "-m", "16MiB", "--", "sleep", "100",
        ];
        let job = site.cli().submit(&words);
        patience::until("the job runs", || site.cli().job(&job)["state"] == "RUN");
        let begun = Instant::now();
        wrong(self);
        patience::until("the job has ended", || {
            site.cli().job(&job)["terminal"] == true
        });
        let took = begun.elapsed();
        assert!(
            took + Duration::from_secs(2) > LIMIT && took < LIMIT + LATER_MOST,
            "its limit of {limit} took {took:?}"
        );
        load.more(3);
        assert_eq!(
            (site.three.primary(), site.term()),
            (primary, term),
            "an election"
        );
        assert!(WORKERS.iter().all(|host| site.host(host) != "lost"));
        assert_eq!(identities(&site.until_processes("web", 4)), self.before);
        let ran = all_ran_once(site, load);
        clean(site);
        format!("nobody elected, no host lost, same processes, a run's limit held; {ran}")
    }
}

pub fn jump() -> String {
    let clocks = Clocks::start("f18");
    clocks.nothing_happens_while(|clocks| {
        let primary = clocks.site.three.primary();
        clocks.of(&primary).ahead(JUMP);
        clocks.site.wait(Duration::from_secs(2));
        clocks.of(&primary).behind(JUMP);
        clocks.of("h1").ahead(JUMP);
        clocks.site.wait(Duration::from_secs(2));
    })
}

pub fn strobe() -> String {
    let clocks = Clocks::start("f19");
    clocks.nothing_happens_while(|clocks| {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            for (_, clock) in &clocks.clocks {
                clock.ahead(STROBE);
            }
            clocks.site.wait(Duration::from_millis(1));
            for (_, clock) in &clocks.clocks {
                clock.behind(STROBE);
            }
            clocks.site.wait(Duration::from_millis(1));
        }
    })
}

pub fn apart() -> String {
    let clocks = Clocks::start("f20");
    clocks.nothing_happens_while(|clocks| {
        for name in ["c1", "h1", "h2"] {
            clocks.of(name).ahead(APART);
        }
        for name in ["c3", "h4"] {
            clocks.of(name).behind(APART);
        }
    })
}
