//! What users of comparable systems have reported.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use xce_tests::harness::network::Link;
use xce_tests::harness::patience;

use super::facts::{all_ran_once, clean, identities, lead};
use super::load::Load;
use super::site::{CONTROLLERS, Site, WORKERS};

/// How long packets are lost. Source: chosen; several time-outs of everything.
const LOSSY: Duration = Duration::from_secs(30);
/// Take-overs one after the other. Source: chosen; the second one is what failed elsewhere.
const TAKEOVERS: usize = 9;

pub fn indices_stay_unique() -> String {
    let site = Site::start("r9");
    let service = site.service("web", 2, "");
    let host = service["replicas"][0]["host"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    site.network().isolate(&host);
    site.until_host(&host, "lost");
    site.three.steady("web", 2);
    site.network().heal();
    site.until_host(&host, "up");
    site.until_processes("web", 2);
    site.cli()
        .good(&["services", "scale", "web", "3", "--wait"]);
    let service = site.until_processes("web", 3);
    let replicas = service["replicas"].as_array().cloned().unwrap_or_default();
    let indices: BTreeSet<u64> = replicas
        .iter()
        .filter_map(|replica| replica["index"].as_u64())
        .collect();
    assert_eq!(indices, BTreeSet::from([0, 1, 2]), "{service}");
    // The host that came back is used again.
    site.cli()
        .good(&["services", "scale", "web", "12", "--wait"]);
    let service = site.until_processes("web", 12);
    let replicas = service["replicas"].as_array().cloned().unwrap_or_default();
    assert!(
        replicas
            .iter()
            .any(|replica| replica["host"] == host.as_str()),
        "{service}"
    );
    clean(&site);
    "a host was cut, replaced and healed, then the service grew: indices 0, 1, 2; the host that came back is used".to_owned()
}

pub fn leader_isolated() -> String {
    let site = Site::start("r11");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    load.more(2);
    let primary = site.three.primary();
    site.network().isolate(&primary);
    let (next, time) = site.next_primary(&primary);
    load.more(3);
    site.wait(Duration::from_secs(6));
    assert!(WORKERS.iter().all(|host| site.host(host) == "up"));
    site.network().heal();
    site.until_caught_up(&next, &primary);
    assert_eq!(identities(&site.until_processes("web", 4)), before);
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!(
        "the next led after {} ms; no placement changed, no host was lost; {ran}",
        time.as_millis()
    )
}

pub fn fresh_grace() -> String {
    let mut site = Site::with("r12", &["host_grace=3s"]);
    let before = identities(&site.service("web", 4, ""));
    for _ in 0..5 {
        let primary = site.three.primary();
        site.three.kill(&primary);
        let (next, _) = site.next_primary(&primary);
        site.three.up(&primary);
        site.until_caught_up(&next, &primary);
        assert!(WORKERS.iter().all(|host| site.host(host) != "lost"));
        assert_eq!(identities(&site.three.steady("web", 4)), before);
    }
    site.until_all_up();
    assert_eq!(identities(&site.until_processes("web", 4)), before);
    clean(&site);
    "five primaries killed in a row with a grace of 3 s: no host lost, nothing moved".to_owned()
}

pub fn old_leader_returns() -> String {
    let mut site = Site::start("r23");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    load.more(2);
    let primary = site.three.primary();
    site.three.kill(&primary);
    let (next, _) = site.next_primary(&primary);
    load.more(5);
    let term = site.term();
    site.three.up(&primary);
    site.until_caught_up(&next, &primary);
    site.wait(Duration::from_secs(3));
    assert_eq!(
        (site.three.primary(), site.term()),
        (next, term),
        "nobody was elected"
    );
    assert_eq!(identities(&site.until_processes("web", 4)), before);
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!("the old primary came back as a standby, nothing changed; {ran}")
}

pub fn heals_after_loss() -> String {
    let site = Site::with("r26", &["host_grace=60s"]);
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    site.network().all(|link| link.loss = 0.2);
    site.wait(LOSSY);
    let meanwhile = load.acknowledged();
    site.network().all(|link| *link = Link::default());
    site.until_all_up();
    let begun = Instant::now();
    load.more(4);
    let time = begun.elapsed();
    assert_eq!(identities(&site.until_processes("web", 4)), before);
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!(
        "20 % loss for {} s ({meanwhile} jobs meanwhile); four more within {} ms after; {ran}",
        LOSSY.as_secs(),
        time.as_millis()
    )
}

pub fn takeovers() -> String {
    let mut site = Site::start("r55");
    let before = identities(&site.service("web", 4, ""));
    let load = Load::start(&site);
    for number in 0..TAKEOVERS {
        let next = CONTROLLERS[number % CONTROLLERS.len()];
        if number % 2 == 0 {
            lead(&site, next);
        } else {
            let primary = site.three.primary();
            site.three.kill(&primary);
            let (next, _) = site.next_primary(&primary);
            site.three.up(&primary);
            site.until_caught_up(&next, &primary);
        }
        // What is submitted after a take-over starts at once.
        let job = site
            .cli()
            .submit(&["-c", "0.01", "-m", "16MiB", "--", "true"]);
        patience::until("it runs", || site.cli().job(&job)["terminal"] == true);
    }
    assert_eq!(identities(&site.until_processes("web", 4)), before);
    let ran = all_ran_once(&site, load);
    clean(&site);
    format!("{TAKEOVERS} take-overs, by hand and by kill in turn; a job started after each; {ran}")
}

/// Counts of jobs by their states never fall below nothing and add up, whatever is killed.
pub fn counts_add_up() -> String {
    let mut site = Site::start("r16");
    let words = [
        "-o", "name", "jobs", "submit", "--array", "0-19", "-c", "0.01", "-m", "16MiB",
    ];
    let command = ["--", "sleep", "0.2"];
    let array = site.cli().good(&[&words[..], &command].concat());
    let array = array.trim().to_owned();
    for controller in CONTROLLERS {
        site.three.kill(controller);
        let shown = site.cli().job(&array);
        let counts: Vec<i64> = numbers(&shown["counts"]);
        assert!(counts.iter().all(|count| *count >= 0), "{shown}");
        site.three.up(controller);
        let primary = site.three.primary();
        site.until_caught_up_or_leads(&primary, controller);
    }
    patience::until("all elements have ended", || {
        site.cli().job(&array)["terminal"] == true
    });
    clean(&site);
    "each controller killed under an array of 20: counts never below nothing, all ended".to_owned()
}

fn numbers(counts: &Value) -> Vec<i64> {
    let counts = counts.as_object();
    let values = counts.into_iter().flat_map(|counts| counts.values());
    values.filter_map(Value::as_i64).collect()
}
