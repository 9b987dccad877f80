//! Asking, asking again, and giving up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use xce_link::Opening;
use xce_model::{JobId, Millis, OperationId, Refusal, RefusalKind};
use xce_session::wire::{
    Accepted, Ask, AskCluster, AskHost, AskJob, Changes, ClusterView, Reply, WatchFilter,
};

use super::fake::{Cluster, Deed, Script};
use super::views::{host, steady};
use crate::cli::connection::Connection;
use crate::cli::failure::Failure;
use crate::cli::{hosts, services_shown};

/// Longer than any of these tests takes. Source: chosen.
const LONG: Millis = Millis::seconds(60);
/// Less than one try takes, so that there is only one. Source: chosen.
const ONCE: Millis = Millis(1);

const OPERATION: OperationId = OperationId([3; 16]);

fn kill() -> Ask {
    Ask::Job(AskJob::Kill {
        jobs: vec![JobId::single(1)],
        signal: None,
    })
}

fn accepted(lsn: u64) -> Reply {
    Reply::Accepted(Accepted {
        lsn,
        ids: vec!["1".to_owned()],
        text: "killed".to_owned(),
    })
}

fn changes(lsn: u64) -> Changes {
    Changes {
        lsn,
        full: false,
        more: false,
        services: Vec::new(),
        jobs: Vec::new(),
        hosts: vec![host()],
        gone: Vec::new(),
    }
}

fn refusing(kind: RefusalKind, code: &'static str) -> Script {
    Arc::new(move |_, _| Deed::Answer(Reply::Refused(Refusal::new(kind, code, "because"))))
}

#[tokio::test]
async fn a_change_without_an_answer_is_asked_again_as_the_same_operation() {
    let script: Script = Arc::new(|count, _| match count {
        0 => Deed::HangUp,
        1 => Deed::Answer(Reply::Refused(Refusal::new(
            RefusalKind::Unavailable,
            "overloaded",
            "too much waits",
        ))),
        _ => Deed::Answer(accepted(9)),
    });
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    let answer = connection.change(kill(), OPERATION).await.unwrap();
    assert_eq!(answer.lsn, 9);
    let requests = cluster.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests
            .iter()
            .all(|request| request.operation == Some(OPERATION))
    );
    assert!(requests.iter().all(|request| request.ask == kill()));
}

#[tokio::test]
async fn a_read_sees_what_the_client_wrote_before() {
    let script: Script = Arc::new(|count, _| match count {
        0 => Deed::Answer(accepted(9)),
        _ => Deed::Answer(Reply::Hosts(vec![host()])),
    });
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    connection.change(kill(), OPERATION).await.unwrap();
    connection.ask(Ask::Host(AskHost::List)).await.unwrap();
    let requests = cluster.requests();
    assert_eq!((requests[1].at_least, requests[1].operation), (9, None));
    assert_eq!(
        cluster.log.lock().unwrap().hellos.len(),
        1,
        "one connection serves both"
    );
}

#[tokio::test]
async fn a_change_outlives_a_restart_of_the_controller() {
    let (cluster, first) = Cluster::with_controller(Arc::new(|_, _| Deed::Silence)).await;
    let address = first.address;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    let log = Arc::clone(&cluster.log);
    let restart = async {
        while log.lock().unwrap().requests.is_empty() {
            tokio::task::yield_now().await;
        }
        first.stop().await;
        cluster
            .start(address, Arc::new(|_, _| Deed::Answer(accepted(4))))
            .await
    };
    let (answer, _second) = tokio::join!(connection.change(kill(), OPERATION), restart);
    assert_eq!(answer.unwrap().lsn, 4);
    let requests = cluster.requests();
    assert!(requests.len() >= 2);
    assert!(
        requests
            .iter()
            .all(|request| request.operation == Some(OPERATION))
    );
}

#[tokio::test]
async fn refusals_have_the_exit_code_of_their_kind() {
    for (kind, code) in [
        (RefusalKind::Refused, 1),
        (RefusalKind::Usage, 2),
        (RefusalKind::NotFound, 3),
        (RefusalKind::NotPermitted, 4),
        (RefusalKind::Unavailable, 5),
        (RefusalKind::OutcomeUnknown, 5),
    ] {
        let (cluster, _running) = Cluster::with_controller(refusing(kind, "some_code")).await;
        let mut connection = Connection::new(&cluster.global(ONCE)).unwrap();
        let failure = connection.change(kill(), OPERATION).await.unwrap_err();
        assert_eq!(failure.exit_code(), code, "{kind:?}");
        assert_eq!(failure.to_string(), "because");
        assert_eq!(cluster.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_lasting_refusal_is_not_asked_again() {
    let (cluster, _running) =
        Cluster::with_controller(refusing(RefusalKind::Refused, "not_possible")).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    assert_eq!(
        connection
            .change(kill(), OPERATION)
            .await
            .unwrap_err()
            .exit_code(),
        1
    );
    assert_eq!(cluster.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_of_another_kind_is_an_unknown_outcome() {
    let script: Script = Arc::new(|_, _| Deed::Answer(Reply::Lines(Vec::new())));
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    let failure = connection.change(kill(), OPERATION).await.unwrap_err();
    assert_eq!(failure.exit_code(), 5);
    assert!(
        failure.to_string().contains("answered with lines"),
        "{failure}"
    );
}

#[tokio::test]
async fn no_controller_is_said_with_its_address_and_what_to_do() {
    // Nobody listens on a port that was just given back.
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let cluster = Cluster::new(address);
    let mut connection = Connection::new(&cluster.global(ONCE)).unwrap();
    let failure = connection.ask(Ask::Host(AskHost::List)).await.unwrap_err();
    assert_eq!(failure.exit_code(), 5);
    let text = failure.to_string();
    assert!(
        text.contains(&address.to_string()) && text.contains("`xced dev`"),
        "{text}"
    );
}

#[tokio::test]
async fn a_client_of_another_cluster_is_refused() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let cluster = Cluster::new(address);
    cluster.write_client_file(address, "ffffffffffffffffffffffffffffffff");
    let failure = Connection::new(&cluster.global(ONCE)).err().unwrap();
    assert_eq!(failure.exit_code(), 4);
    assert!(
        failure
            .to_string()
            .contains("ffffffffffffffffffffffffffffffff"),
        "{failure}"
    );

    let (ours, running) = Cluster::with_controller(Arc::new(|_, _| Deed::Silence)).await;
    let theirs = Cluster::new(running.address);
    let mut connection = Connection::new(&theirs.global(LONG)).unwrap();
    let failure = connection.ask(Ask::Host(AskHost::List)).await.unwrap_err();
    assert_eq!(failure.exit_code(), 4, "{failure}");
    assert!(ours.requests().is_empty());
}

#[test]
fn a_home_without_a_client_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let mut global = cluster.global(ONCE);
    global.home = Some(folder.path().to_path_buf());
    let failure = Connection::new(&global).err().unwrap();
    assert_eq!(failure.exit_code(), 5);
    assert!(
        failure.to_string().contains("client.toml does not exist"),
        "{failure}"
    );

    std::fs::write(
        cluster.path().join("client/client.toml"),
        "controller = []\n",
    )
    .unwrap();
    let failure = Connection::new(&cluster.global(ONCE)).err().unwrap();
    assert_eq!(failure.exit_code(), 2);
    assert!(
        failure.to_string().contains("did you mean `controllers`?"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_watch_goes_on_after_the_last_change_it_saw() {
    let script: Script = Arc::new(|count, _| match count {
        0 => Deed::PushAndHangUp(Reply::Watching { after: 3 }, vec![changes(4), changes(6)]),
        _ => Deed::Push(Reply::Watching { after: 6 }, vec![changes(8)]),
    });
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    let filter = WatchFilter {
        hosts: true,
        after: 3,
        ..WatchFilter::default()
    };
    connection.subscribe(filter.clone()).await.unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&8) {
        if let Some(changes) = connection.next_change().await.unwrap() {
            seen.push(changes.lsn);
        }
    }
    assert_eq!(seen, [4, 6, 8]);
    let asked: Vec<Ask> = cluster
        .requests()
        .into_iter()
        .map(|request| request.ask)
        .collect();
    let watch = |after| {
        Ask::Cluster(AskCluster::Watch(WatchFilter {
            after,
            ..filter.clone()
        }))
    };
    assert_eq!(asked, [watch(3), watch(6)]);
    let log = cluster.log.lock().unwrap();
    assert_eq!(log.hellos[0].opening, Opening::New);
    let resume = Opening::Resume {
        token: b"token".to_vec(),
        last_lsn: 6,
        last_seq: 0,
    };
    assert_eq!(log.hellos[1].opening, resume);
    assert_eq!(log.hellos[0].incarnation, log.hellos[1].incarnation);
}

#[tokio::test]
async fn a_flood_of_pushes_does_not_hold_up_an_answer() {
    let script: Script = Arc::new(|count, _| match count {
        0 => Deed::Push(
            Reply::Watching { after: 0 },
            (1..2000).map(changes).collect(),
        ),
        _ => Deed::Answer(Reply::Hosts(vec![host()])),
    });
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    connection.subscribe(WatchFilter::default()).await.unwrap();
    let host = hosts::fetch(&mut connection, "w1").await.unwrap();
    assert_eq!(host.name, "w1");
    // What was passed over is said to have been.
    assert_eq!(connection.next_change().await.unwrap(), None);
}

#[tokio::test]
async fn a_misspelt_service_is_answered_with_a_proposal() {
    let script: Script = Arc::new(|count, _| match count {
        0 => Deed::Answer(Reply::Refused(Refusal::not_found("service", "wbe"))),
        _ => Deed::Answer(Reply::Services(vec![steady()])),
    });
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    let not_found = Failure::Refused(Refusal::not_found("service", "we"));
    // The first question is answered with a refusal, so the failure stays as it is.
    let kept = services_shown::with_proposal(not_found, "default", "we", &mut connection).await;
    assert_eq!(kept.to_string(), "there is no service `we`");
    let proposed = services_shown::with_proposal(kept, "default", "we", &mut connection).await;
    assert_eq!(
        proposed.to_string(),
        "there is no service `we`; did you mean `web`?"
    );
    assert_eq!(proposed.exit_code(), 3);
}

#[tokio::test]
async fn the_position_is_that_of_the_cluster() {
    let script: Script = Arc::new(|_, _| {
        Deed::Answer(Reply::Cluster(Box::new(ClusterView {
            lsn: 12,
            ..ClusterView::default()
        })))
    });
    let (cluster, _running) = Cluster::with_controller(script).await;
    let mut connection = Connection::new(&cluster.global(LONG)).unwrap();
    assert_eq!(connection.position().await.unwrap(), 12);
}
