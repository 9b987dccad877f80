//! A controller that answers as a test tells it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use xce_config::{ClientConfig, Home};
use xce_link::{
    Authority, CloseCode, Connected, EndpointKeys, Hello, HelloAnswer, Identity, ListenError,
    Message, Role, Settings, Welcome,
};
use xce_model::{ClusterId, Millis, SessionId};
use xce_session::wire::{Changes, Reply, Request};

use crate::cli::arguments::{Form, Global};

/// What the controller does about a request.
pub enum Deed {
    /// Answers.
    Answer(Reply),
    /// Answers and pushes changes.
    Push(Reply, Vec<Changes>),
    /// Answers, pushes changes and closes the connection.
    PushAndHangUp(Reply, Vec<Changes>),
    /// Closes the connection without an answer.
    HangUp,
    /// Says nothing.
    Silence,
}

/// Decides about a request; the number counts requests from 0.
pub type Script = Arc<dyn Fn(usize, &Request) -> Deed + Send + Sync>;

/// What was asked.
#[derive(Default)]
pub struct Log {
    /// Hellos in their order.
    pub hellos: Vec<Hello>,
    /// Requests in their order.
    pub requests: Vec<Request>,
}

/// A cluster's authority and the home of its user.
pub struct Cluster {
    folder: TempDir,
    controller: Identity,
    /// What was asked of all its controllers.
    pub log: Arc<Mutex<Log>>,
}

/// Source: any moment within the certificates' validity serves; this is the machine's.
fn now_unix_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl Cluster {
    /// Makes a cluster with a user whose client file names an address.
    pub fn new(address: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        std::fs::create_dir(home.authority()).unwrap();
        std::fs::create_dir(home.client()).unwrap();
        let id = ClusterId([7; 16]);
        let authority = Authority::create(&home.authority(), id, now_unix_s()).unwrap();
        let user = authority.issue(Role::User, "ada", now_unix_s()).unwrap();
        user.store(&home.client()).unwrap();
        let controller = authority
            .issue(Role::Controller, "c1", now_unix_s())
            .unwrap();
        let cluster = Self {
            folder,
            controller,
            log: Arc::default(),
        };
        cluster.write_client_file(address, &id.to_string());
        cluster
    }

    /// Writes the client file.
    pub fn write_client_file(&self, address: SocketAddr, cluster: &str) {
        let home = Home::new(self.folder.path());
        let config = ClientConfig {
            config_version: 1,
            controllers: vec![address.to_string()],
            cluster: Some(cluster.to_owned()),
            identity_dir: home.client(),
        };
        std::fs::write(home.client_file(), config.to_file()).unwrap();
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Options of a user of this cluster.
    pub fn global(&self, retry_for: Millis) -> Global {
        Global {
            output: Form::Table,
            project: None,
            home: Some(self.folder.path().to_path_buf()),
            stale: false,
            retry_for: Some(retry_for),
        }
    }

    /// Starts a controller on an address.
    pub async fn start(&self, address: SocketAddr, script: Script) -> Running {
        let keys = EndpointKeys::from_secret(&[9; 32]);
        let mut listener = loop {
            match xce_link::listen(address, &self.controller, &Settings::default(), &keys) {
                // The one before has not quite let go of its socket.
                Err(ListenError::AddressInUse { .. }) => tokio::task::yield_now().await,
                outcome => break outcome.unwrap(),
            }
        };
        let address = listener.address();
        let log = Arc::clone(&self.log);
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // Dropped with this task, which ends all its connections.
            let mut peers = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    connected = listener.accept() => match connected {
                        Some(connected) => {
                            peers.spawn(serve(connected, Arc::clone(&script), Arc::clone(&log)));
                        }
                        None => return,
                    },
                    _ = &mut stopped => break,
                }
            }
            peers.shutdown().await;
            listener.close(CloseCode::Done, "as the test says").await;
        });
        let stop = Some(stop);
        Running {
            address,
            stop,
            task,
        }
    }

    /// Starts a controller on a free port and points the user to it.
    pub async fn with_controller(script: Script) -> (Self, Running) {
        let cluster = Self::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let running = cluster
            .start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)
            .await;
        cluster.write_client_file(running.address, &ClusterId([7; 16]).to_string());
        (cluster, running)
    }

    /// Requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().requests.clone()
    }
}

/// A controller that runs until it is dropped.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it and waits until its connections have ended.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(connected: Connected, script: Script, log: Arc<Mutex<Log>>) {
    let Connected { peer, mut inbox } = connected;
    while let Ok(frame) = inbox.receive().await {
        let number = frame.route().request;
        if frame.kind() == Hello::KIND {
            log.lock().unwrap().hellos.push(frame.decode().unwrap());
            peer.reply(number, &HelloAnswer::Welcome(welcome()))
                .unwrap();
            continue;
        }
        let request: Request = frame.decode().unwrap();
        let count = {
            let mut log = log.lock().unwrap();
            log.requests.push(request.clone());
            log.requests.len() - 1
        };
        let (reply, changes, ends) = match script(count, &request) {
            Deed::Answer(reply) => (Some(reply), Vec::new(), false),
            Deed::Push(reply, changes) => (Some(reply), changes, false),
            Deed::PushAndHangUp(reply, changes) => (Some(reply), changes, true),
            Deed::HangUp => (None, Vec::new(), true),
            Deed::Silence => (None, Vec::new(), false),
        };
        if let Some(reply) = reply {
            peer.reply(number, &reply).unwrap();
        }
        for changes in changes {
            peer.push(number, &changes).unwrap();
        }
        if ends {
            peer.finish().await;
            peer.close(CloseCode::Done, "as the test says");
            return;
        }
    }
}

fn welcome() -> Welcome {
    Welcome {
        version: 1,
        session: SessionId(1),
        epoch: 1,
        token: b"token".to_vec(),
        term: 1,
        lsn: 5,
        resumed: false,
        spread_ms: 0,
    }
}
