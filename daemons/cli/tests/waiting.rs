//! Waiting for what a change is for.

use std::sync::Arc;

use xce_model::{JobId, JobState, Millis, Refusal};
use xce_replica::view::JobView;
use xce_service::VersionReason;
use xce_service::state::Outcome;
use xce_service::view::{Condition, ServiceView, VersionView};
use xce_session::wire::{Ask, AskCluster, Changes, ClusterView, Reply};

use super::fake::{Cluster, Deed, Script};
use super::views::{job, service, steady};
use crate::cli::arguments::WaitOptions;
use crate::cli::connection::Connection;
use crate::cli::wait::{self, Progress, progress_of_service};

const WAIT: WaitOptions = WaitOptions {
    wait: true,
    timeout: None,
};

fn pushed(lsn: u64) -> Changes {
    Changes {
        lsn,
        full: false,
        more: false,
        services: Vec::new(),
        jobs: Vec::new(),
        hosts: Vec::new(),
        gone: vec!["something".to_owned()],
    }
}

/// Answers questions about the state one after the other, the last one again and again, and pushes
/// as many changes as it takes to be asked for all of them.
fn script(answers: Vec<Reply>) -> Script {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Arc::new(move |_, request| match &request.ask {
        Ask::Cluster(AskCluster::Status) => Deed::Answer(Reply::Cluster(Box::new(ClusterView {
            lsn: 5,
            ..ClusterView::default()
        }))),
        Ask::Cluster(_) => Deed::Answer(Reply::Watching { after: 5 }),
        Ask::Service(_)
        | Ask::Job(_)
        | Ask::Host(_)
        | Ask::Actor(_)
        | Ask::Plan(_)
        | Ask::Policy(_)
        | Ask::Member(_) => {
            let number = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let answer = answers.get(number).or(answers.last()).unwrap().clone();
            Deed::Push(answer, vec![pushed(6 + number as u64)])
        }
    })
}

fn services(services: &[ServiceView]) -> Vec<Reply> {
    services
        .iter()
        .map(|service| Reply::Services(vec![service.clone()]))
        .collect()
}

fn jobs(jobs: &[JobView]) -> Vec<Reply> {
    jobs.iter()
        .map(|job| Reply::Jobs {
            jobs: vec![job.clone()],
            more: false,
        })
        .collect()
}

async fn connected(answers: Vec<Reply>) -> (Cluster, super::fake::Running, Connection) {
    let (cluster, running) = Cluster::with_controller(script(answers)).await;
    let connection = Connection::new(&cluster.global(Millis::seconds(60))).unwrap();
    (cluster, running, connection)
}

#[tokio::test]
async fn a_wait_ends_when_a_push_brings_the_wanted_state() {
    let states = services(&[service(), service(), steady()]);
    let (cluster, _running, mut connection) = connected(states).await;
    wait::steady(&mut connection, "default", "web", WAIT)
        .await
        .unwrap();
    let shows = cluster
        .requests()
        .iter()
        .filter(|request| matches!(request.ask, Ask::Service(_)))
        .count();
    assert_eq!(shows, 3);
}

#[tokio::test]
async fn a_version_that_was_gone_back_from_is_no_success() {
    let mut back = steady();
    let mut under_way = service();
    under_way.version = back.version + 1;
    back.version += 2;
    back.history = vec![VersionView {
        number: back.version,
        reason: VersionReason::AutomaticRollbackOf(1),
        author: String::new(),
        time: String::new(),
        outcome: Outcome::Completed,
        want: 2,
    }];
    let states = services(&[under_way, back]);
    let (_cluster, _running, mut connection) = connected(states).await;
    let failure = wait::steady(&mut connection, "default", "web", WAIT)
        .await
        .unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    assert!(failure.to_string().contains("was rolled back from version"));
}

#[tokio::test]
async fn nothing_is_asked_without_the_option() {
    let (cluster, _running, mut connection) = connected(Vec::new()).await;
    let options = WaitOptions {
        wait: false,
        timeout: None,
    };
    wait::steady(&mut connection, "default", "web", options)
        .await
        .unwrap();
    assert!(cluster.requests().is_empty());
}

#[tokio::test]
async fn a_wait_that_takes_too_long_says_how_far_it_is() {
    // The last push comes before the only answer is asked for again, so nothing more wakes it.
    let quiet: Script = Arc::new(|_, request| match &request.ask {
        Ask::Cluster(AskCluster::Status) => Deed::Answer(Reply::Cluster(Box::default())),
        Ask::Cluster(_) => Deed::Answer(Reply::Watching { after: 0 }),
        Ask::Service(_)
        | Ask::Job(_)
        | Ask::Host(_)
        | Ask::Actor(_)
        | Ask::Plan(_)
        | Ask::Policy(_)
        | Ask::Member(_) => Deed::Answer(Reply::Services(vec![service()])),
    });
    let (cluster, _running) = Cluster::with_controller(quiet).await;
    let mut connection = Connection::new(&cluster.global(Millis::seconds(60))).unwrap();
    let options = WaitOptions {
        wait: true,
        timeout: Some(Millis(1500)),
    };
    let failure = wait::steady(&mut connection, "default", "web", options)
        .await
        .unwrap_err();
    assert_eq!(failure.exit_code(), 6);
    let text = failure.to_string();
    let so_far = text
        .strip_prefix("timed out after 1s 500ms: ")
        .expect(&text);
    let was_told = cluster
        .requests()
        .iter()
        .any(|request| matches!(request.ask, Ask::Service(_)));
    assert!(
        so_far.starts_with("web: 1 of 2 available") || !was_told,
        "{text}"
    );
}

#[tokio::test]
async fn a_deleted_service_is_gone_when_nobody_knows_it() {
    let deleting = ServiceView {
        condition: Condition::Deleting,
        reason: "1 on host w1".to_owned(),
        ..service()
    };
    let mut states = services(&[deleting]);
    states.push(Reply::Refused(Refusal::not_found("service", "web")));
    let (_cluster, _running, mut connection) = connected(states).await;
    wait::deleted(&mut connection, "default", "web", WAIT)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_wait_for_a_submitted_job_fails_with_the_job() {
    let running = JobView {
        state: JobState::Run,
        terminal: false,
        ..job()
    };
    let done = JobView {
        state: JobState::Done,
        ..job()
    };
    let id = [JobId::single(17)];
    let (_cluster, _running, mut connection) = connected(jobs(&[running.clone(), done])).await;
    wait::ended(&mut connection, &id, WAIT, true).await.unwrap();
    let (_cluster, _running, mut connection) = connected(jobs(&[running, job()])).await;
    let failure = wait::ended(&mut connection, &id, WAIT, true)
        .await
        .unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    assert_eq!(
        failure.to_string(),
        "job 17 ended as EXIT: killed by its owner"
    );
    let (_cluster, _running, mut connection) = connected(jobs(&[job()])).await;
    wait::ended(&mut connection, &id, WAIT, false)
        .await
        .unwrap();
}

#[test]
fn when_a_service_is_as_wanted() {
    let word = |service: &ServiceView| match progress_of_service(service) {
        Progress::Reached => "reached",
        Progress::NotYet(_) => "not yet",
        Progress::Failed(_) => "failed",
    };
    let with = |condition| ServiceView {
        condition,
        ..steady()
    };
    assert_eq!(word(&steady()), "reached");
    assert_eq!(
        word(&ServiceView {
            stopping: 1,
            live: 3,
            ..steady()
        }),
        "not yet"
    );
    assert_eq!(
        word(&ServiceView {
            available: 1,
            ..steady()
        }),
        "not yet"
    );
    assert_eq!(word(&with(Condition::Paused)), "reached");
    assert_eq!(word(&with(Condition::Rolling)), "not yet");
    assert_eq!(word(&with(Condition::Short)), "not yet");
    assert_eq!(word(&with(Condition::CrashLoop)), "failed");
    assert_eq!(word(&with(Condition::Stuck)), "failed");
    assert_eq!(word(&with(Condition::Deleting)), "failed");
}
