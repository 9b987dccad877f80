//! Peers that hold a good certificate and speak QUIC, but not as this crate does.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint};

use super::quic::{Cluster, LONG};
use crate::frame::{HEADER_BYTES, LINK_VERSION, open_frame};
use crate::{CloseCode, Head, Listener, Role, Route, Settings, tls};

/// Connects without the rules of this crate.
async fn stranger(
    cluster: &Cluster,
    listener: &Listener,
    protocol: &[u8],
) -> Result<Connection, ConnectionError> {
    let identity = cluster.identity(Role::User, "mallory");
    let mut config = tls::client(&identity, Arc::default()).unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let name = tls::server_name_text(identity.principal().cluster);
    endpoint
        .connect_with(config, listener.address(), &name)
        .unwrap()
        .await
}

/// Waits for the code with which the listener closes.
async fn code(connection: &Connection) -> CloseCode {
    match connection.closed().await {
        ConnectionError::ApplicationClosed(close) => CloseCode::from_wire(close.error_code),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn another_protocol_name_is_refused_in_the_handshake() {
    let cluster = Cluster::new(1);
    let listener = cluster.listen(&Settings::default());
    let error = stranger(&cluster, &listener, b"xce/2").await.unwrap_err();
    let ConnectionError::ConnectionClosed(close) = error else {
        panic!("{error}")
    };
    assert_eq!(u64::from(close.error_code), 0x100 + 120);
}

#[tokio::test]
async fn a_stranger_that_opens_nothing_is_sent_away() {
    let cluster = Cluster::new(1);
    let settings = Settings {
        handshake_timeout: Duration::from_millis(500),
        ..Settings::default()
    };
    let listener = cluster.listen(&settings);
    let connection = stranger(&cluster, &listener, b"xce/1").await.unwrap();
    assert_eq!(code(&connection).await, CloseCode::Dropped);
}

#[tokio::test]
async fn a_first_frame_that_opens_nothing_breaks_the_protocol() {
    let cluster = Cluster::new(1);
    let listener = cluster.listen(&Settings::default());
    let first = Head {
        length: 0,
        kind: 200,
        version: 1,
        route: Route::request(1),
    };
    for bytes in [
        first.to_bytes().to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let connection = stranger(&cluster, &listener, b"xce/1").await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        assert_eq!(code(&connection).await, CloseCode::Protocol);
    }
}

#[tokio::test]
async fn another_link_version_is_told_ours() {
    let cluster = Cluster::new(1);
    let listener = cluster.listen(&Settings::default());
    let connection = stranger(&cluster, &listener, b"xce/1").await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let theirs = Head {
        version: LINK_VERSION + 1,
        ..open_frame()
    };
    send.write_all(&theirs.to_bytes()).await.unwrap();
    let mut answer = [0; HEADER_BYTES];
    receive.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, open_frame().to_bytes());
    assert_eq!(code(&connection).await, CloseCode::Dropped);
}

#[tokio::test]
async fn a_second_control_stream_cannot_be_opened() {
    let cluster = Cluster::new(1);
    let mut listener = cluster.listen(&Settings::default());
    let connection = stranger(&cluster, &listener, b"xce/1").await.unwrap();
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    send.write_all(&open_frame().to_bytes()).await.unwrap();
    let accepted = tokio::time::timeout(LONG, listener.accept())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(accepted.peer.principal().name, "mallory");
    let mut second = std::pin::pin!(connection.open_bi());
    let ready = std::future::poll_fn(|context| {
        std::task::Poll::Ready(second.as_mut().poll(context).is_ready())
    });
    assert!(!ready.await, "the limit of streams is one");
}
