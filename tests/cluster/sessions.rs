//! Sessions over changes of the primary: watches go on without a gap or a double, and what was fenced
//! stays so.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use xce_link::hello::VERSIONS;
use xce_link::{
    Caller, Dialer, Hello, HelloAnswer, HelloCode, HelloRefusal, Identity, Opening, PeerKind,
    Settings, Welcome,
};
use xce_model::Incarnation;
use xce_tests::harness::patience;
use xce_tests::harness::three::Three;
use xce_tests::harness::watch::Watch;

use super::rows;

/// Changes of the primary that a watch is followed over, each with jobs before and after it.
const ROUNDS: usize = 4;
/// Longest wait for one answer. Source: chosen; a busy machine needs a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_watch_goes_on_under_each_new_primary_without_a_gap_or_a_double() {
    let mut three = Three::start("watch-on");
    let watch = Watch::start(&three.cli(), true);
    // Held jobs change once, when they are submitted: each is to be seen exactly once.
    let submit = |three: &Three| three.cli().submit(&["--hold", "-m", "16MiB", "--", "true"]);
    let mut jobs = vec![submit(&three)];
    for round in 0..ROUNDS {
        let primary = three.primary();
        if round % 2 == 0 {
            three.kill(&primary);
        } else {
            let next = three.standby();
            three.cli().good(&["cluster", "transfer-leader", &next]);
        }
        // One while the watch may be away, one when it is back.
        jobs.push(submit(&three));
        let last = jobs.last().expect("there is one").clone();
        patience::until(&format!("round {round}: the watch goes on"), || {
            times_seen(&watch.seen(), &last) > 0
        });
        jobs.push(submit(&three));
        if round % 2 == 0 {
            three.up(&primary);
            patience::until("it follows again", || {
                let members = three.cli().json(&["cluster", "members"]);
                let members = members.as_array().cloned().unwrap_or_default();
                members
                    .iter()
                    .any(|member| member["name"] == *primary && member["role"] == "standby")
            });
        }
    }
    let last = jobs.last().expect("there is one").clone();
    patience::until("the watch has the last", || {
        times_seen(&watch.seen(), &last) > 0
    });
    let seen = watch.seen();
    for job in &jobs {
        assert_eq!(times_seen(&seen, job), 1, "job {job} in {seen:?}");
    }
    let full = seen
        .iter()
        .filter(|changes| changes["full"] == true && changes["more"] == false);
    assert_eq!(full.count(), 1, "only the beginning is a full state");
    let positions: Vec<u64> = seen
        .iter()
        .filter_map(|changes| changes["lsn"].as_u64())
        .collect();
    assert!(positions.is_sorted(), "{positions:?}");
    // How it came back is told.
    let sessions = three.cli().json(&["sessions", "list"]);
    let resumed = |session: &&Value| {
        let how = session["last_resume"].as_str().unwrap_or_default();
        how.starts_with("delta")
    };
    let sessions = sessions.as_array().cloned().unwrap_or_default();
    assert_eq!(sessions.iter().filter(resumed).count(), 1, "{sessions:?}");
}

/// How often a job was shown.
fn times_seen(seen: &[Value], job: &str) -> usize {
    seen.iter()
        .flat_map(|changes| rows(changes, "jobs"))
        .filter(|row| row["id"] == *job)
        .count()
}

#[test]
fn a_fenced_token_stays_so_under_the_next_primary() {
    let mut three = Three::start("fenced");
    let token = three.invite("c1", &["--worker", "w9"]);
    three.xced(&["join", &token], "workers").good();
    let identity = three.home("workers").join("w9").join("identity");
    let identity = Identity::load(&identity).expect("an identity");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let hello = |three: &Three, incarnation: u8, opening: Opening| {
        let addresses = ["c1", "c2", "c3"].map(|name| three.address(name));
        let addresses = addresses.map(|text| text.parse().expect("an address"));
        let incarnation = Incarnation([incarnation; 16]);
        runtime.block_on(say_hello(&identity, &addresses, incarnation, opening))
    };
    let resume = |token: &[u8]| Opening::Resume {
        token: token.to_vec(),
        last_lsn: 0,
        last_seq: 0,
    };
    let first = hello(&three, 1, Opening::New).expect("a session");
    let again = hello(&three, 1, resume(&first.token)).expect("it goes on");
    assert_eq!((again.session, again.resumed), (first.session, true));
    // The token of an epoch that has gone on, and the one of an incarnation that was followed by
    // another, are refused now, and by whoever leads next.
    let newer = hello(&three, 2, Opening::New).expect("a session");
    for round in ["now", "under the next primary"] {
        let refused = hello(&three, 1, resume(&again.token)).expect_err(round);
        assert_eq!(refused.code, HelloCode::Fenced, "{round}: {refused}");
        assert!(refused.text.contains("took its place"), "{refused}");
        let stolen = hello(&three, 3, resume(&newer.token)).expect_err(round);
        assert_eq!(stolen.code, HelloCode::Token, "{round}: {stolen}");
        if round == "now" {
            let primary = three.primary();
            three.kill(&primary);
            three.primary();
        }
    }
    let resumed = hello(&three, 2, resume(&newer.token)).expect("it goes on");
    assert_eq!((resumed.session, resumed.resumed), (newer.session, true));
    let old = hello(&three, 2, resume(&newer.token)).expect_err("an epoch that is over");
    assert_eq!(old.code, HelloCode::Fenced, "{old}");
    assert!(old.text.contains("under epoch"), "{old}");
}

/// Says hello to whoever is the primary.
async fn say_hello(
    identity: &Identity,
    addresses: &[SocketAddr],
    incarnation: Incarnation,
    opening: Opening,
) -> Result<Welcome, HelloRefusal> {
    let dialer = Dialer::new(identity.clone(), Settings::default());
    for address in addresses.iter().cycle() {
        // One that is down does not answer.
        let Ok(connected) = dialer.dial(&[*address], Duration::from_millis(500)).await else {
            continue;
        };
        let (caller, _pushes) = Caller::new(connected, 16);
        let hello = Hello {
            versions: VERSIONS,
            cluster: identity.principal().cluster,
            kind: PeerKind::Worker,
            incarnation,
            opening: opening.clone(),
        };
        match caller.call(&hello, ANSWER_WITHIN).await {
            Ok(HelloAnswer::Welcome(welcome)) => return Ok(welcome),
            Ok(HelloAnswer::Refused(refusal))
                if matches!(refusal.code, HelloCode::NotPrimary | HelloCode::Busy) => {}
            Ok(HelloAnswer::Refused(refusal)) => return Err(refusal),
            Err(_its_connection_ended) => {}
        }
    }
    unreachable!("a cycle has no end")
}

#[test]
fn what_a_controller_has_applied_can_be_read_while_none_leads() {
    let mut three = Three::start("stale");
    let file = super::idle_service(three.folder(), "web", 2);
    let create = ["services", "create", super::word(&file), "--wait"];
    three.cli().good(&create);
    three.steady("web", 2);
    let job = three.cli().submit(&["--hold", "-m", "16MiB", "--", "true"]);
    let left = three.standby();
    for name in ["c1", "c2", "c3"] {
        if name != left {
            three.kill(name);
        }
    }
    let cli = three.cli();
    let refused = cli.run(&["--retry-for", "1s", "services", "list"]);
    refused.code_is(5);
    let seen = cli.run(&["--stale", "-o", "json", "services", "show", "web"]);
    seen.code_is(0);
    assert!(seen.stderr.contains("as of position"), "{seen:?}");
    let web: Value = serde_json::from_str(&seen.stdout).expect("an object");
    assert_eq!(web["available"], 2, "{web}");
    let jobs = cli.json(&["--stale", "jobs", "list"]);
    let jobs = jobs.as_array().cloned().unwrap_or_default();
    assert!(jobs.iter().any(|row| row["id"] == *job), "{jobs:?}");
    let status = cli.json(&["--stale", "cluster", "status"]);
    assert_eq!(status["role"], "standby", "{status}");
    let text = cli.run(&["--stale", "jobs", "kill", &job]).refused(2);
    assert!(text.contains("only reads"), "{text}");
    let text = cli.run(&["--stale", "actors", "tree"]).refused(2);
    assert!(text.contains("needs the primary"), "{text}");
}
