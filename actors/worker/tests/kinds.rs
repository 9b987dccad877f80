//! Kinds of probes, against servers of our own and real programs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use xce_model::Millis;
use xce_model::spec::{Probe, ProbeAction};
use xce_replica::wire::Want;
use xce_worker::environment::Environment;
use xce_worker::probe::Outcome;
use xce_worker::probe::attempt::{Surroundings, attempt};

use crate::world::{World, batch, replica, run};

fn probe(action: ProbeAction, timeout_ms: u64) -> Probe {
    Probe {
        action,
        initial_delay: Millis(0),
        period: Millis(20),
        timeout: Millis(timeout_ms),
        success_threshold: 1,
        failure_threshold: 1,
    }
}

fn around(port: u16) -> Arc<Surroundings> {
    Arc::new(Surroundings {
        environment: Environment::of(&batch(1, ""), "h", "", None),
        work_dir: "/".to_owned(),
        ports: vec![("web".to_owned(), port)],
        user: None,
    })
}

async fn tried(action: ProbeAction, port: u16) -> String {
    match attempt(&probe(action, 30_000), &around(port)).await {
        Outcome::Success => "good".to_owned(),
        Outcome::Failure(text) => format!("bad: {text}"),
        Outcome::Unrunnable(text) => format!("could not be run: {text}"),
    }
}

fn grpc(service: &str, host: &str) -> ProbeAction {
    ProbeAction::Grpc {
        port: "web".to_owned(),
        host: host.to_owned(),
        service: service.to_owned(),
    }
}

/// A server of gRPC with or without the health protocol.
async fn grpc_server(with_health: bool) -> SocketAddr {
    use tonic::transport::Server;
    use tonic::transport::server::TcpIncoming;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let (health, service) = tonic_health::server::health_reporter();
    let sick = tonic_health::ServingStatus::NotServing;
    let well = tonic_health::ServingStatus::Serving;
    health.set_service_status("sick", sick).await;
    health.set_service_status("well", well).await;
    let lost = tonic_health::ServingStatus::Unknown;
    health.set_service_status("lost", lost).await;
    let mut server = Server::builder();
    let router = match with_health {
        true => server.add_service(service),
        false => server.add_routes(tonic::service::Routes::default()),
    };
    tokio::spawn(router.serve_with_incoming(incoming));
    address
}

#[tokio::test]
async fn grpc_health_is_asked() {
    let port = grpc_server(true).await.port();
    for (service, expected) in [
        ("", "good"),
        ("well", "good"),
        ("sick", "bad: the server says NOT_SERVING of service `sick`"),
        ("lost", "bad: the server says UNKNOWN of service `lost`"),
    ] {
        assert_eq!(tried(grpc(service, "127.0.0.1"), port).await, expected);
    }
    let unknown = tried(grpc("other", "localhost"), port).await;
    let wanted = format!("bad: localhost:{port} does not know service `other`");
    assert_eq!(unknown, wanted);
    let none = tried(grpc("", "no host"), port).await;
    assert!(none.starts_with("could not be run: "), "{none}");
    let without = grpc_server(false).await.port();
    let told = tried(grpc("", "127.0.0.1"), without).await;
    assert!(told.starts_with("could not be run: "), "{told}");
    assert!(told.contains("UNIMPLEMENTED"), "{told}");
    // Nobody listens there any more.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let told = tried(grpc("", "127.0.0.1"), port).await;
    assert!(told.starts_with("bad: 127.0.0.1:"), "{told}");
    assert!(told.contains("refused"), "{told}");
}

/// A listener that answers every connection with this, and what it was asked.
async fn answering(
    address: &str,
    answer: &'static str,
) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, questions) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let count = stream.read(&mut request).await.unwrap_or(0);
            let _ = asked.send(String::from_utf8_lossy(&request[..count]).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, questions)
}

fn http(host: &str, status: (u16, u16), headers: &[(&str, &str)]) -> ProbeAction {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ProbeAction::Http {
        port: "web".to_owned(),
        host: host.to_owned(),
        path: "/h".to_owned(),
        status_min: status.0,
        status_max: status.1,
        headers: headers.iter().map(pair).collect(),
    }
}

#[tokio::test]
async fn http_takes_a_range_of_statuses_and_follows_nothing() {
    let cases: [(&'static str, (u16, u16), &str); 7] = [
        ("HTTP/1.1 204 No Content\r\n\r\n", (200, 399), "good"),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
            (200, 399),
            "good",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: /h\r\n\r\n",
            (200, 299),
            "bad: status 302, wanted 200 to 299",
        ),
        ("HTTP/1.1 404 Not Found\r\n\r\n", (404, 404), "good"),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 503 Busy\r\n\r\n",
            (200, 399),
            "bad: status 503, wanted 200 to 399",
        ),
        ("SSH-2.0-x\r\n", (200, 399), "bad: "),
        ("", (200, 399), "bad: "),
    ];
    for (answer, status, expected) in cases {
        let (port, _questions) = answering("127.0.0.1:0", answer).await;
        let found = tried(http("127.0.0.1", status, &[]), port).await;
        assert!(found.starts_with(expected), "{answer}: {found}");
    }
}

#[tokio::test]
async fn http_names_the_host_that_is_asked_also_a_virtual_one_or_an_address_of_version_6() {
    let answer = "HTTP/1.1 200 OK\r\n\r\n";
    let (port, mut questions) = answering("127.0.0.1:0", answer).await;
    let own = http(
        "127.0.0.1",
        (200, 299),
        &[("Host", "shop.example"), ("X-A", "b c")],
    );
    assert_eq!(tried(own, port).await, "good");
    let question = questions.recv().await.unwrap();
    assert!(
        question.contains("\r\nHost: shop.example\r\n"),
        "{question}"
    );
    assert!(question.contains("\r\nX-A: b c\r\n"), "{question}");
    assert_eq!(question.matches("Host:").count(), 1, "{question}");
    let (port, mut questions) = answering("[::1]:0", answer).await;
    for host in ["::1", "[::1]"] {
        assert_eq!(tried(http(host, (200, 299), &[]), port).await, "good");
        let question = questions.recv().await.unwrap();
        let line = format!("\r\nHost: [::1]:{port}\r\n");
        assert!(question.contains(&line), "{question}");
        let tcp = ProbeAction::Tcp {
            port: "web".to_owned(),
            host: host.to_owned(),
        };
        assert_eq!(tried(tcp, port).await, "good");
        questions.recv().await.unwrap();
    }
}

#[tokio::test]
async fn http_reads_no_endless_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endless = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    });
    let found = tried(http("127.0.0.1", (200, 299), &[]), port).await;
    assert!(found.starts_with("bad: "), "{found}");
    endless.await.unwrap();
}

/// Processes of the groups that a probe has begun, by what their command line says.
fn marked(mark: &str) -> usize {
    let processes = xce_shim::machine::processes().into_iter();
    let has_mark = |pid: i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(mark)
    };
    processes
        .filter(|stat| stat.is_alive() && has_mark(stat.pid))
        .count()
}

/// Children of this process that ended and were not waited for.
fn zombies() -> usize {
    let own = i32::try_from(std::process::id()).unwrap();
    let processes = xce_shim::machine::processes().into_iter();
    processes
        .filter(|stat| stat.parent == own && !stat.is_alive())
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn p44_probes_that_hang_leave_nothing_in_sixty_rounds() {
    // The numbers are the mark by which the processes are found.
    let mark = format!("1000.{}", std::process::id());
    let script = format!("sleep {mark} & sleep {mark}");
    let action = ProbeAction::Exec {
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script],
    };
    let probe = probe(action, 50);
    let around = around(1);
    for round in 0..60 {
        let outcome = attempt(&probe, &around).await;
        assert!(matches!(outcome, Outcome::Failure(_)), "{outcome:?}");
        let left = marked(&mark);
        assert!(left <= 3, "round {round}: {left}");
    }
    // A killed process may take a moment to go.
    while marked(&mark) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(zombies(), 0);
    // One that is dropped in the middle, as when its run ends.
    let long = Probe {
        timeout: Millis(600_000),
        ..probe
    };
    let trying = tokio::spawn(async move { attempt(&long, &around).await });
    while marked(&mark) < 3 {
        tokio::task::yield_now().await;
    }
    trying.abort();
    while marked(&mark) > 0 || zombies() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_probe_is_an_actor_below_its_run() {
    let world = World::joined().await;
    let mut spec = replica(1, "sleep 1000");
    let command = vec!["/bin/true".to_owned()];
    let well = probe(ProbeAction::Exec { command }, 30_000);
    spec.template.probes.readiness = Some(Box::new(well.clone()));
    spec.template.probes.liveness = Some(Box::new(well));
    let controller = world.controller();
    controller.want(run(1), Want::Start(Box::new(spec)));
    let is_ready =
        |what: &xce_replica::wire::Happened| matches!(what, xce_replica::wire::Happened::Ready);
    controller.happened(run(1), "ready", is_ready).await;
    let node = world.worker().node();
    let page = node.page(&xce_runtime::Filter::default(), None, 1_000);
    let mut below: HashMap<String, usize> = HashMap::new();
    for row in page.rows.iter().filter(|row| row.key.kind() == "probe") {
        let parent = row.parent.as_ref().unwrap();
        *below.entry(parent.to_string()).or_default() += 1;
    }
    assert_eq!(below, HashMap::from([("run/1-1".to_owned(), 2)]));
}
