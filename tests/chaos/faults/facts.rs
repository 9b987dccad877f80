//! What must hold after every fault, whatever it was.

use std::collections::BTreeMap;

use serde_json::Value;
use xce_tests::harness::patience;

use super::load::Load;
use super::site::{CONTROLLERS, Site};

/// Job, run and process of each replica of a service.
pub type Identities = Vec<(String, u64, u64)>;

/// Who the replicas of a service are.
///
/// # Panics
/// When the service has none.
pub fn identities(service: &Value) -> Identities {
    let replicas = service["replicas"].as_array().expect("it has replicas");
    let of = |replica: &Value| {
        (
            replica["job"].as_str().unwrap_or_default().to_owned(),
            replica["run"].as_u64().unwrap_or_default(),
            replica["pid"].as_u64().unwrap_or_default(),
        )
    };
    replicas.iter().map(of).collect()
}

/// Ends the load, and requires that every acknowledged job has run once, that no other has run
/// twice, and that no job is there that nobody submitted; gives a line about it.
///
/// # Panics
/// When it is not so.
pub fn all_ran_once(site: &Site, load: Load) -> String {
    let (submitted, file) = load.finish();
    for (name, id) in &submitted.acknowledged {
        patience::until(&format!("job {id} ({name}) has ended"), || {
            site.cli().job(id)["terminal"] == true
        });
        let job = site.cli().job(id);
        assert_eq!(job["state"], "DONE", "{job}");
    }
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    for line in text.lines() {
        *ran.entry(line.to_owned()).or_default() += 1;
    }
    for name in submitted.acknowledged.keys() {
        assert_eq!(
            ran.get(name),
            Some(&1),
            "{name} was acknowledged and runs once"
        );
    }
    for (name, count) in &ran {
        let is_known =
            submitted.acknowledged.contains_key(name) || submitted.unknown.contains_key(name);
        assert!(*count == 1 && is_known, "{name} ran {count} times");
    }
    let count = submitted.acknowledged.len();
    format!("{count} jobs acknowledged, each ran once")
}

/// Requires a clean audit, and the same state on each of these controllers, each of which leads
/// once for it.
///
/// # Panics
/// When anything is not so.
pub fn clean(site: &Site) {
    let mut first: Option<(&str, String)> = None;
    for controller in CONTROLLERS {
        lead(site, controller);
        site.until_all_up();
        site.cli().good(&["--retry-for", "60s", "audit"]);
        let Some((other, same)) = &first else {
            first = Some((controller, state(site)));
            continue;
        };
        // A host may be suspected for a moment while it turns to the new primary.
        let mut last = String::new();
        let look = || {
            last = state(site);
            if &last == same {
                Ok(())
            } else {
                Err(String::new())
            }
        };
        let is_same = patience::Bell::default().until(look).is_ok();
        assert!(
            is_same,
            "{controller} has another state than {other}: {}",
            differing(same, &last)
        );
    }
}

/// The first line that differs.
fn differing(one: &str, other: &str) -> String {
    let mut lines = one.lines().zip(other.lines());
    let found = lines.find(|(one, other)| one != other);
    found.map_or_else(
        || "one has more lines".to_owned(),
        |(one, other)| format!("`{one}` and `{other}`"),
    )
}

/// Makes a controller the primary.
///
/// # Panics
/// When it does not become it.
pub fn lead(site: &Site, controller: &str) {
    patience::until(&format!("{controller} leads"), || {
        if site.three.primary() == controller {
            return true;
        }
        // One that has not caught up yet is refused, and tried again.
        let words = ["cluster", "transfer-leader", controller];
        drop(site.cli().run(&words));
        false
    });
}

/// What the primary has, without what is only true of now.
fn state(site: &Site) -> String {
    let list = |words: &[&str]| -> Vec<Value> {
        let all = [&["-o", "json", "--retry-for", "60s"][..], words].concat();
        let text = site.cli().good(&all);
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list.as_array().cloned().unwrap_or_default()
    };
    let mut lines = Vec::new();
    for job in list(&["jobs", "list", "--all", "--all-projects"]) {
        let fields = ["id", "name", "state", "run", "host", "exit"];
        let kept: Vec<String> = fields.iter().map(|field| job[*field].to_string()).collect();
        lines.push(kept.join(" "));
    }
    for service in list(&["services", "list", "--all-projects"]) {
        let fields = ["id", "name", "version", "desired"];
        let kept: Vec<String> = fields
            .iter()
            .map(|field| service[*field].to_string())
            .collect();
        lines.push(kept.join(" "));
    }
    for host in list(&["hosts", "list"]) {
        // Whether it is suspected for a moment is true of now only.
        lines.push(host["name"].to_string());
    }
    lines.join("\n")
}
