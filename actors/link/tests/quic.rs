//! Real connections over the loopback address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};
use xce_model::{ClusterId, Refusal};

use crate::{
    Authority, CallError, Caller, Dialer, EndpointKeys, Identity, Listener, Role, RouteRole,
    Settings, listen,
};

/// Far longer than anything here takes; only a hang reaches it.
pub(super) const LONG: Duration = Duration::from_secs(60);

#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) number: u64,
    pub(super) text: String,
}

#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) number: u64,
    pub(super) blob: Vec<u8>,
}

crate::messages! {
    Ask = 200 v 1;
    Told = 201 v 1;
}

/// A cluster of tests: its authority and a place for files.
pub(super) struct Cluster {
    pub(super) directory: tempfile::TempDir,
    pub(super) authority: Authority,
}

impl Cluster {
    pub(super) fn new(number: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority =
            Authority::create(directory.path(), ClusterId([number; 16]), now()).unwrap();
        Self {
            directory,
            authority,
        }
    }

    pub(super) fn identity(&self, role: Role, name: &str) -> Identity {
        self.authority.issue(role, name, now()).unwrap()
    }

    pub(super) fn keys(&self) -> EndpointKeys {
        EndpointKeys::load_or_create(self.directory.path()).unwrap()
    }

    pub(super) fn listen(&self, settings: &Settings) -> Listener {
        let identity = self.identity(Role::Controller, "c1");
        listen(loopback(), &identity, settings, &self.keys()).unwrap()
    }

    pub(super) fn dialer(&self) -> Dialer {
        Dialer::new(self.identity(Role::User, "alice"), Settings::default())
    }
}

pub(super) fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs() as i64
}

pub(super) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Answers every `Ask` with its own number, and refuses the number 13.
pub(super) fn echo(mut listener: Listener) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(connected) = listener.accept().await {
            tokio::spawn(async move {
                let (peer, mut inbox) = (connected.peer, connected.inbox);
                while let Ok(frame) = inbox.receive().await {
                    let request = frame.route().request;
                    let ask = frame.decode::<Ask>().unwrap();
                    let sent = if ask.number == 13 {
                        peer.refuse(request, &Refusal::refused("unlucky", "13 is not served"))
                    } else {
                        peer.reply(request, &ask)
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    })
}

pub(super) async fn call(caller: &Caller, number: u64) -> Result<Ask, CallError> {
    let ask = Ask {
        number,
        text: format!("question {number}"),
    };
    caller.call::<Ask, Ask>(&ask, LONG).await
}

#[tokio::test]
async fn sixty_four_calls_in_flight_each_get_their_own_answer() {
    let cluster = Cluster::new(1);
    let listener = cluster.listen(&Settings::default());
    let address = listener.address();
    let _server = echo(listener);
    let connected = cluster.dialer().dial(&[address], LONG).await.unwrap();
    assert_eq!(connected.peer.principal().role, Role::Controller);
    let (caller, _pushes) = Caller::new(connected, 8);
    let caller = Arc::new(caller);
    let tasks: Vec<_> = (0..64_u64)
        .map(|lane| {
            let caller = Arc::clone(&caller);
            tokio::spawn(async move {
                for round in 0..50 {
                    let number = 1000 + lane * 100 + round;
                    assert_eq!(call(&caller, number).await.unwrap().number, number);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let refused = call(&caller, 13).await.unwrap_err();
    assert!(matches!(&refused, CallError::Refused(refusal) if refusal.code == "unlucky"));
    assert!(!refused.is_outcome_unknown());
}

#[tokio::test]
async fn pushes_reach_the_receiver_with_their_subscription() {
    let cluster = Cluster::new(1);
    let mut listener = cluster.listen(&Settings::default());
    let address = listener.address();
    let server = tokio::spawn(async move {
        let connected = listener.accept().await.unwrap();
        for number in 0..100 {
            connected
                .peer
                .push(
                    7,
                    &Told {
                        number,
                        blob: vec![1; 100],
                    },
                )
                .unwrap();
        }
        assert!(connected.peer.finish().await);
        assert_eq!(connected.peer.principal().name, "alice");
    });
    let connected = cluster.dialer().dial(&[address], LONG).await.unwrap();
    let (_caller, mut pushes) = Caller::new(connected, 4);
    for number in 0..100 {
        let frame = pushes.recv().await.unwrap();
        assert_eq!(
            (frame.route().role, frame.route().request),
            (RouteRole::Push, 7)
        );
        assert_eq!(frame.decode::<Told>().unwrap().number, number);
    }
    server.await.unwrap();
}

#[tokio::test]
async fn both_ends_of_a_connection_share_a_binding_that_others_lack() {
    let cluster = Cluster::new(1);
    let mut listener = cluster.listen(&Settings::default());
    let address = [listener.address()];
    let dialer = cluster.dialer();
    let (one, one_server) = tokio::join!(dialer.dial(&address, LONG), listener.accept());
    let (two, _two_server) = tokio::join!(dialer.dial(&address, LONG), listener.accept());
    let (one, one_server, two) = (
        one.unwrap().peer,
        one_server.unwrap().peer,
        two.unwrap().peer,
    );
    let shared = one.binding(b"join").unwrap();
    assert_eq!(one_server.binding(b"join"), Some(shared));
    assert_ne!(one.binding(b"user"), Some(shared));
    assert_ne!(two.binding(b"join"), Some(shared));
    assert_eq!(one_server.fingerprint(), dialer.identity().fingerprint());
}
