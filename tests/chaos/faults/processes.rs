//! Processes that are killed or stopped.

use std::time::Duration;

use xce_tests::harness::processes;

use super::facts::{all_ran_once, clean, identities};
use super::load::Load;
use super::site::{CONTROLLERS, Site, WORKERS};

/// Rounds of a kill of the primary. Source: chosen; enough for rare orders of things.
const ROUNDS: usize = 20;
/// The same in every run of the tests. Source: chosen; a few seconds.
const ROUNDS_QUICK: usize = 2;
/// How long a stopped controller stays so. Source: derived; several elections, below any grace.
const PAUSE: Duration = Duration::from_secs(5);

pub fn leader_killed() -> String {
    kill_the_leader(ROUNDS)
}

pub fn leader_killed_quickly() -> String {
    kill_the_leader(ROUNDS_QUICK)
}

fn kill_the_leader(rounds: usize) -> String {
    let mut site = Site::start("f01");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    let mut took = Vec::new();
    for _ in 0..rounds {
        load.more(3);
        let primary = site.three.primary();
        site.three.kill(&primary);
        let (next, time) = site.next_primary(&primary);
        took.push(time);
        site.three.up(&primary);
        site.until_caught_up(&next, &primary);
        assert_eq!(identities(&site.three.steady("web", 4)), before);
    }
    let ran = all_ran_once(&site, load);
    clean(&site);
    assert_eq!(identities(&site.three.steady("web", 4)), before);
    took.sort_unstable();
    let (middle, worst) = (took[took.len() / 2], took[took.len() - 1]);
    format!(
        "{rounds} kills; a client saw the next primary after {} ms, at worst {} ms; {ran}; \
         no replica moved or restarted",
        middle.as_millis(),
        worst.as_millis()
    )
}

pub fn follower_killed() -> String {
    let mut site = Site::start("f02");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    let primary = site.three.primary();
    let term = site.term();
    for follower in site.others(&primary) {
        load.more(2);
        site.three.kill(follower);
        load.more(4);
        site.three.up(follower);
        site.until_caught_up(&primary, follower);
    }
    assert_eq!(
        (site.three.primary(), site.term()),
        (primary, term),
        "nobody was elected"
    );
    assert_eq!(identities(&site.three.steady("web", 4)), before);
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!("two kills, both caught up, the primary stayed; {ran}")
}

pub fn all_controllers_killed() -> String {
    let mut site = Site::start("f03");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    let orders = [["c3", "c1", "c2"], ["c2", "c3", "c1"]];
    for order in orders {
        load.more(3);
        CONTROLLERS.iter().for_each(|name| site.three.kill(name));
        order.iter().for_each(|name| site.three.up(name));
        site.three.primary();
        assert_eq!(identities(&site.three.steady("web", 4)), before);
    }
    site.until_all_up();
    let ran = all_ran_once(&site, load);
    clean(&site);
    assert_eq!(identities(&site.three.steady("web", 4)), before);
    format!("all three killed twice, started in other orders; {ran}; same processes")
}

pub fn leader_paused() -> String {
    let mut site = Site::start("f05");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    load.more(2);
    let primary = site.three.primary();
    let term = site.term();
    site.pause(&primary);
    let (next, time) = site.next_primary(&primary);
    let marker = site
        .cli()
        .submit(&["-m", "16MiB", "-c", "0.01", "--", "true"]);
    site.wait(PAUSE.saturating_sub(time));
    site.resume(&primary);
    // Whatever the paused one answers now, it is not a state without that job.
    let only = site.three.cli_on(&primary);
    for _ in 0..10 {
        let answer = only.run(&["--retry-for", "1s", "-o", "name", "jobs", "list", "--all"]);
        let has_it = answer
            .stdout
            .lines()
            .any(|id| id == marker || id == format!("job/{marker}"));
        assert!(
            answer.code != 0 || has_it,
            "a stale read: {}",
            answer.stdout
        );
    }
    assert!(site.term() > term);
    site.until_caught_up(&next, &primary);
    load.more(2);
    assert_eq!(identities(&site.three.steady("web", 4)), before);
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!(
        "stopped for {} s; {ran}; no stale read, same processes",
        PAUSE.as_secs()
    )
}

pub fn worker_paused() -> String {
    let mut site = Site::start("f06");
    let before = identities(&site.service("web", 4, ""));
    let host = site.host_of("web");
    // Shorter than the grace.
    site.pause(&host);
    site.until_host(&host, "suspect");
    site.resume(&host);
    site.until_host(&host, "up");
    assert_eq!(
        identities(&site.three.steady("web", 4)),
        before,
        "nothing moved"
    );
    // Longer.
    site.pause(&host);
    site.until_host(&host, "lost");
    let replaced = site.three.steady("web", 4);
    let after = identities(&replaced);
    assert_ne!(after, before);
    site.resume(&host);
    site.until_host(&host, "up");
    let last = site.until_processes("web", 4);
    assert_eq!(identities(&last), after, "the replacement stays");
    clean(&site);
    "shorter than the grace: nothing; longer: replaced, and of the old one nothing is left"
        .to_owned()
}

pub fn all_restarted_in_order() -> String {
    let mut site = Site::start("f13");
    site.service("web", 4, super::updates::SLOW);
    let load = Load::start(&site);
    super::updates::change(&site, "web", 4);
    let daemons = CONTROLLERS.iter().chain(&WORKERS);
    for name in daemons {
        let pid = site.three.pid(name).expect("it runs");
        processes::signal(pid, nix::sys::signal::Signal::SIGTERM);
        site.three.wait_for_end(name);
        site.three.up(name);
    }
    site.until_all_up();
    let service = site.until_processes("web", 4);
    assert_eq!(service["version"], 2, "{service}");
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!("each daemon stopped and started in turn during an update, which completed; {ran}")
}
