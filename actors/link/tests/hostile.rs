//! Peers and packets that mean harm, are lost, or belong elsewhere.

use std::net::UdpSocket;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::frames::Random;
use super::quic::{Ask, Cluster, LONG, Told, call, echo, loopback};
use crate::{
    BulkError, CallError, Caller, CloseCode, Closed, DialError, Dialer, FRAME_BYTES_MAX,
    FrameError, Head, ListenError, Listener, ReceiveError, Role, Route, SendError, Settings,
    listen,
};

/// A listener, one connection to it, and both ends.
async fn pair(
    cluster: &Cluster,
    settings: Settings,
) -> (Listener, crate::Connected, crate::Connected) {
    let mut listener = cluster.listen(&settings);
    let address = [listener.address()];
    let dialer = cluster.dialer();
    let (client, server) = tokio::join!(dialer.dial(&address, LONG), listener.accept());
    (listener, client.unwrap(), server.unwrap())
}

#[tokio::test]
async fn random_packets_do_not_disturb_a_client() {
    let cluster = Cluster::new(1);
    let listener = cluster.listen(&Settings::default());
    let address = listener.address();
    let _server = echo(listener);
    let connected = cluster.dialer().dial(&[address], LONG).await.unwrap();
    let (caller, _pushes) = Caller::new(connected, 8);
    let noise = UdpSocket::bind(loopback()).unwrap();
    let mut random = Random(42);
    for round in 0..200 {
        for _ in 0..20 {
            let packet: Vec<u8> = (0..random.below(1_400))
                .map(|_| random.next() as u8)
                .collect();
            noise.send_to(&packet, address).unwrap();
        }
        assert_eq!(
            call(&caller, 100 + round).await.unwrap().number,
            100 + round
        );
    }
}

#[tokio::test]
async fn a_client_of_another_cluster_is_told_both_clusters() {
    let (ours, theirs) = (Cluster::new(0xaa), Cluster::new(0xbb));
    let listener = theirs.listen(&Settings::default());
    let error = ours
        .dialer()
        .dial(&[listener.address()], LONG)
        .await
        .unwrap_err();
    assert!(matches!(error, DialError::WrongCluster { .. }), "{error}");
    let text = error.refusal().text;
    assert!(
        text.contains(&"aa".repeat(16)) && text.contains(&"bb".repeat(16)),
        "{text}"
    );
    assert!(text.contains(&listener.address().to_string()), "{text}");
}

#[tokio::test]
async fn impostors_with_the_same_cluster_id_are_refused_on_both_sides() {
    let (real, fake) = (Cluster::new(1), Cluster::new(1));
    let listener = fake.listen(&Settings::default());
    let error = real
        .dialer()
        .dial(&[listener.address()], LONG)
        .await
        .unwrap_err();
    assert!(matches!(error, DialError::UntrustedPeer { .. }), "{error}");

    // Certified by the false authority, but trusting the real one.
    let directory = tempfile::tempdir().unwrap();
    fake.identity(Role::Controller, "c1")
        .store(directory.path())
        .unwrap();
    std::fs::copy(
        real.directory.path().join("ca.pem"),
        directory.path().join("ca.pem"),
    )
    .unwrap();
    let impostor = crate::Identity::load(directory.path()).unwrap();
    let mut listener = real.listen(&Settings::default());
    let dialer = Dialer::new(impostor, Settings::default());
    let error = dialer.dial(&[listener.address()], LONG).await.unwrap_err();
    assert!(matches!(error, DialError::NotAccepted { .. }), "{error}");
    // The listener goes on, and has not accepted it.
    let address = [listener.address()];
    let honest = real.dialer();
    let (client, server) = tokio::join!(honest.dial(&address, LONG), listener.accept());
    assert_eq!(server.unwrap().peer.principal().name, "alice");
    drop(client);
}

#[tokio::test]
async fn only_a_controller_listens() {
    let cluster = Cluster::new(1);
    let worker = cluster.identity(Role::Worker, "w1");
    let refused = listen(loopback(), &worker, &Settings::default(), &cluster.keys());
    assert!(matches!(
        refused,
        Err(ListenError::NotAController { role: Role::Worker })
    ));
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let cluster = Cluster::new(1);
    let listener = cluster.listen(&Settings::default());
    let address = listener.address();
    let identity = cluster.identity(Role::Controller, "c2");
    let error = listen(address, &identity, &Settings::default(), &cluster.keys())
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!("{address} is in use by another process (UDP)")
    );
}

#[tokio::test]
async fn all_addresses_are_tried_and_silence_names_them() {
    let cluster = Cluster::new(1);
    let silent = UdpSocket::bind(loopback()).unwrap();
    let dead = silent.local_addr().unwrap();
    let listener = cluster.listen(&Settings::default());
    let live = listener.address();
    let _server = echo(listener);
    cluster.dialer().dial(&[dead, live], LONG).await.unwrap();
    let brief = Duration::from_millis(50);
    let error = cluster.dialer().dial(&[dead], brief).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no answer within 50 ms from {dead}")
    );
    let error = cluster.dialer().dial(&[], brief).await.unwrap_err();
    assert!(matches!(error, DialError::NoAddress));
}

#[tokio::test]
async fn an_oversized_frame_closes_only_its_peer() {
    let cluster = Cluster::new(1);
    let (mut listener, client, mut server) = pair(&cluster, Settings::default()).await;
    let address = [listener.address()];
    let dialer = cluster.dialer();
    let (good, good_server) = tokio::join!(dialer.dial(&address, LONG), listener.accept());
    let (good, mut good_server) = (good.unwrap(), good_server.unwrap());

    let head = Head {
        length: u32::MAX,
        kind: 200,
        version: 1,
        route: Route::request(1),
    };
    client
        .peer
        .send_encoded(Bytes::copy_from_slice(&head.to_bytes()))
        .unwrap();
    let error = server.inbox.receive().await.unwrap_err();
    let too_large = FrameError::TooLarge {
        claimed: u32::MAX,
        max: FRAME_BYTES_MAX,
    };
    assert_eq!(error, ReceiveError::Frame(too_large.clone()));
    let told = Closed::ByPeer {
        code: CloseCode::Protocol,
        reason: too_large.to_string(),
    };
    assert_eq!(client.peer.closed().await, told);

    good.peer
        .push(
            0,
            &Ask {
                number: 5,
                text: String::new(),
            },
        )
        .unwrap();
    let frame = good_server.inbox.receive().await.unwrap();
    assert_eq!(frame.decode::<Ask>().unwrap().number, 5);
}

#[tokio::test]
async fn a_frame_that_is_cut_or_late_ends_the_connection() {
    let cluster = Cluster::new(1);
    let (_listener, client, mut server) = pair(&cluster, Settings::default()).await;
    let head = Head {
        length: 100,
        kind: 200,
        version: 1,
        route: Route::request(1),
    };
    let half = Bytes::copy_from_slice(&head.to_bytes());
    client.peer.send_encoded(half.clone()).unwrap();
    client.peer.finish().await;
    let error = server.inbox.receive().await.unwrap_err();
    assert_eq!(
        error,
        ReceiveError::Frame(FrameError::Truncated {
            have: 16,
            want: 128
        })
    );

    let settings = Settings {
        frame_deadline: Duration::from_millis(20),
        ..Settings::default()
    };
    let (_listener, client, mut server) = pair(&cluster, settings).await;
    client.peer.send_encoded(half).unwrap();
    let error = server.inbox.receive().await.unwrap_err();
    assert_eq!(error, ReceiveError::Late { deadline_ms: 20 });
    let closed = client.peer.closed().await;
    assert!(
        matches!(
            closed,
            Closed::ByPeer {
                code: CloseCode::SlowPeer,
                ..
            }
        ),
        "{closed}"
    );
}

#[tokio::test]
async fn what_waits_for_a_peer_that_does_not_read_is_bounded() {
    let cluster = Cluster::new(1);
    let settings = Settings {
        stall_timeout: LONG,
        send_queue_bytes: 256 * 1024,
        ..Settings::default()
    };
    let (_listener, _client, server) = pair(&cluster, settings).await;
    let message = Told {
        number: 0,
        blob: vec![7; 50_000],
    };
    loop {
        match server.peer.push(0, &message) {
            Ok(()) => assert!(server.peer.waiting_bytes() <= 256 * 1024),
            Err(SendError::SlowPeer { waiting, .. }) => {
                assert!(waiting <= 256 * 1024);
                break;
            }
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    let error = server.peer.push(0, &message).unwrap_err();
    assert_eq!(error.refusal().code, "slow_peer");
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_cut_off() {
    let cluster = Cluster::new(1);
    let settings = Settings {
        stall_timeout: Duration::from_millis(100),
        ..Settings::default()
    };
    let (_listener, client, server) = pair(&cluster, settings).await;
    let message = Told {
        number: 0,
        blob: vec![7; 50_000],
    };
    // Twice the stream's window, so that the writer has to wait for the reader.
    for _ in 0..40 {
        server.peer.push(0, &message).unwrap();
    }
    let closed = server.peer.closed().await;
    assert!(
        matches!(
            closed,
            Closed::Here {
                code: CloseCode::SlowPeer,
                ..
            }
        ),
        "{closed}"
    );
    assert!(matches!(
        server.peer.push(0, &message),
        Err(SendError::Ended { .. })
    ));
    // On a loaded machine the close is sometimes missed although no datagram was lost. The likely
    // cause, not proved: quinn holds a close back behind congestion control while data waits. A
    // peer that speaks gets a reset then; a silent one learns of it by its idle time-out.
    client
        .peer
        .push(
            0,
            &Ask {
                number: 0,
                text: String::new(),
            },
        )
        .ok();
    let closed = client.peer.closed().await;
    let (sent, came) = (server.peer.packets_sent(), client.peer.packets_received());
    match closed {
        Closed::ByPeer {
            code: CloseCode::SlowPeer,
            ..
        } => {}
        Closed::Restarted => eprintln!("close was missed: {sent:?} sent, {came:?} came"),
        other => panic!("{other}: {sent:?} sent, {came:?} came"),
    }
}

#[tokio::test]
async fn a_bulk_stream_is_whole_or_an_error() {
    let cluster = Cluster::new(1);
    let (_listener, client, server) = pair(&cluster, Settings::default()).await;
    let send = async {
        let mut whole = server.peer.open_bulk().await.unwrap();
        for number in 0..40 {
            whole
                .send(&Told {
                    number,
                    blob: vec![1; 100_000],
                })
                .await
                .unwrap();
        }
        whole.finish().await.unwrap();
        let mut cut = server.peer.open_bulk().await.unwrap();
        cut.send(&Told {
            number: 0,
            blob: Vec::new(),
        })
        .await
        .unwrap();
        drop(cut);
    };
    let receive = async {
        let mut whole = client.peer.accept_bulk().await.unwrap();
        let mut count = 0;
        while let Some(frame) = whole.receive().await.unwrap() {
            assert_eq!(frame.decode::<Told>().unwrap().number, count);
            count += 1;
        }
        assert_eq!(count, 40);
        let mut cut = client.peer.accept_bulk().await.unwrap();
        loop {
            match cut.receive().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a cut stream was taken for a whole one"),
                Err(error) => {
                    assert!(matches!(error, BulkError::Cut { .. }), "{error}");
                    break;
                }
            }
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test]
async fn unread_bulk_streams_do_not_block_the_control_stream() {
    let cluster = Cluster::new(1);
    let (_listener, client, mut server) = pair(&cluster, Settings::default()).await;
    let mut streams = Vec::new();
    for _ in 0..crate::settings::BULK_STREAMS_MAX {
        let mut stream = client.peer.open_bulk().await.unwrap();
        // Two MiB, of which the window lets one through; nobody reads.
        let message = Told {
            number: 0,
            blob: vec![0; 2 * 1024 * 1024],
        };
        streams.push(tokio::spawn(async move { stream.send(&message).await }));
    }
    for number in 0..30 {
        client
            .peer
            .push(
                0,
                &Told {
                    number,
                    blob: vec![0; 100_000],
                },
            )
            .unwrap();
        let frame = server.inbox.receive().await.unwrap();
        assert_eq!(frame.decode::<Told>().unwrap().number, number);
    }
    streams.into_iter().for_each(|stream| stream.abort());
}

#[tokio::test]
async fn a_lost_connection_tells_what_was_not_sent_from_what_is_unknown() {
    let cluster = Cluster::new(1);
    let (listener, client, mut server) = pair(&cluster, Settings::default()).await;
    let (caller, _pushes) = Caller::new(client, 8);
    let lose = async {
        server.inbox.receive().await.unwrap();
        listener
            .close(CloseCode::Shutdown, "controller stops")
            .await;
    };
    let (outcome, ()) = tokio::join!(call(&caller, 1), lose);
    let error = outcome.unwrap_err();
    let reason = "controller stops".to_owned();
    let closed = Closed::ByPeer {
        code: CloseCode::Shutdown,
        reason,
    };
    let CallError::Unknown(ReceiveError::Closed(told)) = &error else {
        panic!("{error}")
    };
    assert_eq!(told, &closed);
    assert_eq!(error.refusal().kind.exit_code(), 5);
    assert!(error.is_outcome_unknown());
    let error = call(&caller, 2).await.unwrap_err();
    assert!(
        matches!(error, CallError::NotDelivered(SendError::Ended { .. })),
        "{error}"
    );
    assert!(!error.is_outcome_unknown());
}

#[tokio::test]
async fn a_slow_answer_times_out_and_the_connection_stays() {
    let cluster = Cluster::new(1);
    let (_listener, client, mut server) = pair(&cluster, Settings::default()).await;
    let (caller, _pushes) = Caller::new(client, 8);
    let ask = Ask {
        number: 1,
        text: String::new(),
    };
    let error = caller
        .call::<Ask, Ask>(&ask, Duration::from_millis(5))
        .await
        .unwrap_err();
    assert!(
        matches!(error, CallError::Timeout { deadline_ms: 5 }),
        "{error}"
    );
    // The late answer is thrown away; the next one finds its call.
    let late = server.inbox.receive().await.unwrap();
    server.peer.reply(late.route().request, &ask).unwrap();
    let answer = async {
        let frame = server.inbox.receive().await.unwrap();
        let ask = frame.decode::<Ask>().unwrap();
        server.peer.reply(frame.route().request, &ask).unwrap();
    };
    let (outcome, ()) = tokio::join!(call(&caller, 2), answer);
    assert_eq!(outcome.unwrap().number, 2);
    let wrong = async {
        let frame = server.inbox.receive().await.unwrap();
        let told = Told {
            number: 0,
            blob: Vec::new(),
        };
        server.peer.reply(frame.route().request, &told).unwrap();
    };
    let (outcome, ()) = tokio::join!(call(&caller, 3), wrong);
    assert!(matches!(outcome, Err(CallError::BadAnswer(_))));
}

/// Runs a listener on a runtime of its own that ends like a killed process: without a word.
fn crashing_listener(cluster: &Cluster) -> (std::net::SocketAddr, impl FnOnce() + use<>) {
    let identity = cluster.identity(Role::Controller, "c1");
    let keys = cluster.keys();
    let (told, address) = std::sync::mpsc::channel();
    let (crash, crashed) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = listen(loopback(), &identity, &Settings::default(), &keys).unwrap();
            told.send(listener.address()).unwrap();
            let _server = echo(listener);
            let _ = crashed.await;
        });
    });
    let address = address.recv().unwrap();
    let crash = move || {
        crash.send(()).unwrap();
        thread.join().unwrap();
    };
    (address, crash)
}

#[tokio::test]
async fn a_restarted_listener_is_noticed_long_before_the_idle_time_out() {
    let cluster = Cluster::new(1);
    let (address, crash) = crashing_listener(&cluster);
    // So long that only a reset can end the connection within this test.
    let settings = Settings {
        idle_timeout: Duration::from_secs(3_600),
        ..Settings::default()
    };
    let dialer = Dialer::new(cluster.identity(Role::Worker, "w1"), settings);
    let (caller, _pushes) = Caller::new(dialer.dial(&[address], LONG).await.unwrap(), 8);
    assert_eq!(call(&caller, 1).await.unwrap().number, 1);
    crash();
    let identity = cluster.identity(Role::Controller, "c1");
    let listener = listen(address, &identity, &Settings::default(), &cluster.keys()).unwrap();
    let _server = echo(listener);
    let error = call(&caller, 2).await.unwrap_err();
    let CallError::Unknown(ReceiveError::Closed(closed)) = error else {
        panic!("{error}")
    };
    assert_eq!(closed, Closed::Restarted);
    let (caller, _pushes) = Caller::new(dialer.dial(&[address], LONG).await.unwrap(), 8);
    assert_eq!(call(&caller, 3).await.unwrap().number, 3);
}

#[tokio::test]
async fn connections_above_the_limit_are_refused_and_places_come_back() {
    let cluster = Cluster::new(1);
    let settings = Settings {
        peers_max: 1,
        ..Settings::default()
    };
    let (mut listener, client, server) = pair(&cluster, settings).await;
    let address = [listener.address()];
    let error = cluster.dialer().dial(&address, LONG).await.unwrap_err();
    assert!(matches!(error, DialError::Unreachable { .. }), "{error}");
    client.peer.close(CloseCode::Done, "bye");
    server.peer.closed().await;
    drop(server);
    let dialer = cluster.dialer();
    let (client, server) = tokio::join!(dialer.dial(&address, LONG), listener.accept());
    assert!(client.is_ok() && server.is_some());
}

#[tokio::test]
async fn a_herd_larger_than_the_handshakes_at_once_gets_in() {
    let cluster = Cluster::new(1);
    let settings = Settings {
        handshakes_max: 2,
        ..Settings::default()
    };
    let listener = cluster.listen(&settings);
    let address = listener.address();
    let _server = echo(listener);
    let dialer = cluster.dialer();
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let dialer = dialer.clone();
            tokio::spawn(async move { dialer.dial(&[address], LONG).await.map(drop) })
        })
        .collect();
    for client in clients {
        client.await.unwrap().unwrap();
    }
}
