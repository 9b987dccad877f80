//! Networks that are cut, slow, or lie.

use std::time::{Duration, Instant};

use xce_tests::harness::network::Link;
use xce_tests::harness::patience;
use xce_tests::harness::watch::Watch;

use super::facts::{Identities, all_ran_once, clean, identities};
use super::load::Load;
use super::site::{CONTROLLERS, Site, WORKERS};

/// How long a cut lasts that is to be felt and lose no host. Source: derived; several elections,
/// and below the grace of these clusters.
const CUT: Duration = Duration::from_secs(3);
/// A grace above all cuts of a scenario.
const LONG_GRACE: [&str; 1] = ["host_grace=60s"];

/// Jobs with an environment of so many bytes that a line of 10 kB/s needs a minute for them.
const LARGE_JOBS: usize = 20;
const LARGE_BYTES: usize = 30_000;

/// A cluster with a service and a load, and who the replicas are.
fn begin(name: &str, settings: &[&str]) -> (Site, Identities, Load) {
    let site = Site::with(name, settings);
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    load.more(2);
    (site, before, load)
}

/// Heals, and requires that nothing was moved, restarted, lost or doubled.
fn end(site: &Site, before: &Identities, load: Load) -> String {
    site.network().heal();
    site.until_all_up();
    let primary = site.three.primary();
    for other in site.others(&primary) {
        site.until_caught_up(&primary, other);
    }
    load.more(2);
    assert_eq!(&identities(&site.until_processes("web", 4)), before);
    let ran = all_ran_once(site, load);
    clean(site);
    assert_eq!(&identities(&site.until_processes("web", 4)), before);
    ran
}

/// Requires that a controller that may be asked alone answers nothing and changes nothing.
fn answers_nothing(site: &Site, controller: &str) {
    let alone = site.three.cli_on(controller);
    let read = alone.run(&["--retry-for", "1s", "jobs", "list"]);
    assert_ne!(read.code, 0, "a minority reads: {}", read.stdout);
    let change = [
        "--retry-for",
        "1s",
        "jobs",
        "submit",
        "-c",
        "0.01",
        "--",
        "true",
    ];
    let change = alone.run(&change);
    assert_ne!(change.code, 0, "a minority commits: {}", change.stdout);
}

pub fn minority() -> String {
    let (site, before, load) = begin("f43", &LONG_GRACE);
    let primary = site.three.primary();
    let [one, other] = site.others(&primary);
    let minority = [primary.as_str(), "h1", "h2"];
    site.network()
        .part(&minority, &[one, other, "h3", "h4", "user"]);
    let (_, time) = site.next_primary(&primary);
    answers_nothing(&site, &primary);
    load.more(3);
    site.wait(CUT);
    let ran = end(&site, &before, load);
    format!(
        "the majority led after {} ms, the minority answered and committed nothing; {ran}; \
         same processes on both sides",
        time.as_millis()
    )
}

pub fn leader_from_quorum() -> String {
    let (site, before, load) = begin("f44", &[]);
    let mut times = Vec::new();
    for way in ["both", "out", "in"] {
        let primary = site.three.primary();
        for other in site.others(&primary) {
            if way != "in" {
                site.network()
                    .link(&primary, other, |link| link.is_cut = true);
            }
            if way != "out" {
                site.network()
                    .link(other, &primary, |link| link.is_cut = true);
            }
        }
        let (next, time) = site.next_primary(&primary);
        times.push(format!("{way} {} ms", time.as_millis()));
        load.more(3);
        site.wait(CUT);
        site.network().heal();
        site.until_caught_up(&next, &primary);
    }
    let ran = end(&site, &before, load);
    format!(
        "cut from the others, both ways, outgoing, incoming: the next led after {}; {ran}; hosts up, same processes",
        times.join(", ")
    )
}

pub fn bridge() -> String {
    let (site, before, load) = begin("f46", &[]);
    site.network().part(&["c1"], &["c3"]);
    site.wait(CUT);
    let (primary, term) = (site.three.primary(), site.term());
    load.more(6);
    site.wait(CUT);
    assert_eq!(
        (site.three.primary(), site.term()),
        (primary, term),
        "elections go on"
    );
    let ran = end(&site, &before, load);
    format!("c1 and c3 meet only over c2: one primary, no more elections; {ran}")
}

pub fn one_way() -> String {
    let (site, before, load) = begin("f47", &[]);
    let primary = site.three.primary();
    let [follower, _] = site.others(&primary);
    let term = site.term();
    site.network()
        .link(follower, &primary, |link| link.is_cut = true);
    site.wait(CUT);
    load.more(3);
    assert_eq!((site.three.primary(), site.term()), (primary.clone(), term));
    site.network().heal();
    // It hears nothing of the primary, and so would like to be elected.
    site.network()
        .link(&primary, follower, |link| link.is_cut = true);
    site.wait(CUT);
    load.more(3);
    let terms = site.term() - term;
    site.network().heal();
    let primary = site.three.primary();
    site.until_caught_up(&primary, follower);
    // A worker that is not heard, and hears.
    let host = site.host_of("web");
    for controller in CONTROLLERS {
        site.network()
            .link(&host, controller, |link| link.is_cut = true);
    }
    site.until_host(&host, "lost");
    site.network().heal();
    site.until_host(&host, "up");
    site.until_processes("web", 4);
    let ran = all_ran_once_but(&site, load);
    clean(&site);
    assert!(before.len() == 4 && terms <= 1, "{terms} terms");
    format!(
        "a standby that is not heard: no election; one that hears nothing: {terms} terms more; a host that is not heard is lost, and up again after; {ran}"
    )
}

/// As [`all_ran_once`], where a host was lost: a job on it may have ended by that.
fn all_ran_once_but(site: &Site, load: Load) -> String {
    let (submitted, file) = load.finish();
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut lost = 0;
    for (name, id) in &submitted.acknowledged {
        patience::until(&format!("job {id} ({name}) has ended"), || {
            site.cli().job(id)["terminal"] == true
        });
        let ran = text.lines().filter(|line| line == name).count();
        let job = site.cli().job(id);
        let is_done = job["state"] == "DONE";
        assert!(
            ran <= 1 && (ran == 1 || !is_done),
            "{name} ran {ran} times: {job}"
        );
        lost += usize::from(!is_done);
    }
    let count = submitted.acknowledged.len();
    format!("{count} jobs acknowledged, {lost} of them lost with their host, none ran twice")
}

pub fn flapping() -> String {
    let (site, before, load) = begin("f48", &LONG_GRACE);
    let primary = site.three.primary();
    let [follower, _] = site.others(&primary);
    let frames = site.network().counts();
    let begun = Instant::now();
    for _ in 0..10 {
        site.network().part(&["h1", "h2", follower], &CONTROLLERS);
        site.wait(Duration::from_secs(1));
        site.network().heal();
        site.wait(Duration::from_secs(1));
    }
    let seconds = begun.elapsed().as_secs().max(1);
    let after = site.network().counts();
    let rate = (after.0 + after.1 - frames.0 - frames.1) / seconds;
    assert!(rate < 5_000, "{rate} frames a second");
    let ran = end(&site, &before, load);
    format!(
        "two hosts and a standby cut every other second for {seconds} s: {rate} frames a second in all; {ran}"
    )
}

pub fn lossy() -> String {
    let (site, before, load) = begin("f49", &LONG_GRACE);
    let mut said = Vec::new();
    for loss in [0.01, 0.1, 0.3] {
        let begun = Instant::now();
        site.network().all(|link| {
            *link = Link {
                loss,
                delay: Duration::from_millis(5),
                jitter: Duration::from_millis(10),
                twice: 0.05,
                garbled: 0.02,
                ..Link::default()
            };
        });
        load.more(6);
        said.push(format!(
            "{} % {} s",
            loss * 100.0,
            begun.elapsed().as_secs()
        ));
    }
    let ran = end(&site, &before, load);
    format!(
        "loss with delay, jitter, doubles and wrong bytes: six more jobs took {}; {ran}",
        said.join(", ")
    )
}

pub fn slow_follower() -> String {
    let settings = ["snapshot.every_entries=200"];
    let (site, before, load) = begin("f50", &settings);
    let primary = site.three.primary();
    let [follower, _] = site.others(&primary);
    let memory = || {
        let pid = site.three.pid(&primary).expect("it runs");
        resident(pid)
    };
    let first = memory();
    for (from, to) in [(primary.as_str(), follower), (follower, primary.as_str())] {
        site.network().link(from, to, |link| link.rate = 10_000);
    }
    // More than the line carries meanwhile.
    let large = format!("LARGE={}", "x".repeat(LARGE_BYTES));
    for _ in 0..LARGE_JOBS {
        let words = ["--hold", "-e", &large, "--", "true"];
        site.cli().submit(&words);
    }
    load.more(10);
    let grown = memory().saturating_sub(first) >> 20;
    assert!(grown < 64, "the primary has grown by {grown} MiB");
    assert_eq!(site.three.primary(), primary);
    let ran = end(&site, &before, load);
    format!(
        "a standby at 10 kB/s: the primary grew by {grown} MiB and stayed, the standby caught up afterwards; {ran}"
    )
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

pub fn half_open() -> String {
    let (site, _, load) = begin("f51", &[]);
    let host = site.host_of("web");
    let begun = Instant::now();
    site.network().isolate(&host);
    site.until_host(&host, "suspect");
    let suspect = begun.elapsed();
    site.until_host(&host, "lost");
    let lost = begun.elapsed();
    let grace = Duration::from_secs(5);
    assert!(
        lost >= grace && lost < grace + Duration::from_secs(5),
        "lost after {lost:?}"
    );
    site.network().heal();
    site.until_host(&host, "up");
    site.until_processes("web", 4);
    // The primary falls silent without a word to those who follow it.
    let watch = Watch::start(&site.cli(), true);
    load.more(1);
    let primary = site.three.primary();
    site.network().isolate(&primary);
    let (_, next) = site.next_primary(&primary);
    let marker = site.cli().submit(&["-c", "0.01", "--", "true"]);
    let begun = Instant::now();
    patience::until("the watch goes on", || {
        let seen = watch.seen();
        let jobs = seen.iter().filter_map(|changes| changes["jobs"].as_array());
        jobs.flatten().any(|job| job["id"] == marker.as_str())
    });
    let silent = begun.elapsed() + next;
    site.network().heal();
    site.until_all_up();
    let ran = all_ran_once_but(&site, load);
    clean(&site);
    format!(
        "a host without a last word: suspect after {} ms, lost after {} ms (grace 5 s); a watch goes on {} ms after its controller fell silent; {ran}",
        suspect.as_millis(),
        lost.as_millis(),
        silent.as_millis()
    )
}

pub fn worker_cut() -> String {
    let site = Site::start("f58");
    let before = identities(&site.service("web", 4, ""));
    // One job ends while its host cannot say so.
    let file = site.file("ends");
    let script = format!("sleep 2; echo x >> {}; exit 7", file.display());
    let words = ["-c", "0.01", "-m", "16MiB", "--", "sh", "-c", &script];
    let job = site.cli().submit(&words);
    patience::until("the job runs", || site.cli().job(&job)["state"] == "RUN");
    let host = site.cli().job(&job)["host"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    site.network().part(&[&host], &CONTROLLERS);
    patience::until("the job has ended", || file.exists());
    site.wait(Duration::from_secs(1));
    site.network().heal();
    patience::until("its end is told", || {
        site.cli().job(&job)["terminal"] == true
    });
    let ended = site.cli().job(&job);
    assert_eq!(
        (&ended["exit"]["code"], &ended["run"]),
        (&7.into(), &1.into()),
        "{ended}"
    );
    assert_eq!(identities(&site.until_processes("web", 4)), before);
    // Longer than the grace.
    let host = site.host_of("web");
    site.network().part(&[&host], &CONTROLLERS);
    site.until_host(&host, "lost");
    site.three.steady("web", 4);
    site.network().heal();
    site.until_host(&host, "up");
    site.until_processes("web", 4);
    let lines = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(lines.lines().count(), 1);
    clean(&site);
    "a job that ended while its host was cut off is told once, with its code; after a longer cut there are just the wanted processes".to_owned()
}

/// Every pair of a standby and workers is cut in turn, for longer than the grace.
pub fn long_partitions() -> String {
    let site = Site::start("r8");
    site.service("web", 6, "");
    for group in [["h1", "c1"], ["h2", "c2"], ["h3", "c3"]] {
        let rest: Vec<&str> = CONTROLLERS
            .iter()
            .chain(&WORKERS)
            .chain(&["user"])
            .copied()
            .filter(|name| !group.contains(name))
            .collect();
        site.network().part(&group, &rest);
        site.until_host(group[0], "lost");
        site.three.steady("web", 6);
        site.network().heal();
        site.until_host(group[0], "up");
        site.until_processes("web", 6);
    }
    clean(&site);
    "three groups cut for longer than the grace and healed: just six processes each time".to_owned()
}
