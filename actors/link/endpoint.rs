//! Listening: one UDP port, a bounded number of handshakes and of peers.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::udp::{UdpSockRef, UdpSocketState};
use quinn::{Endpoint, Incoming, ServerConfig, TokioRuntime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use xce_model::ClusterId;

use crate::close::CloseCode;
use crate::frame::{LINK_VERSION, open_frame};
use crate::identity::Identity;
use crate::keys::EndpointKeys;
use crate::peer::{Connected, Peer};
use crate::principal::Role;
use crate::settings::{SOCKET_BUFFER_BYTES, Settings};
use crate::tls::{self, TlsFault};

/// Connections that are ready and wait for [`Listener::accept`].
///
/// Source: chosen; as many as handshakes at once by default.
const READY_MAX: usize = 64;

/// First packets of handshakes that wait for their turn; more are refused.
///
/// Source: derived; a herd of 5 000 (foundations section 3) with room.
const INCOMING_MAX: usize = 8_192;

/// Bytes kept for one handshake that waits, and for all of them.
///
/// Source: derived; a first flight of ours has under 4 KiB, and 8 192 times 4 KiB = 32 MiB.
const INCOMING_BYTES_MAX: (u64, u64) = (4 * 1024, 32 * 1024 * 1024);

/// It is not possible to listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process has the port.
    #[error("{address} is in use by another process (UDP)")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not one of this host.
    #[error("{address} is not an address of this host")]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// The port needs a permission that this process lacks.
    #[error("no permission to listen on {address} (UDP)")]
    NotPermitted {
        /// The address.
        address: SocketAddr,
    },
    /// Another error of the operating system.
    #[error("cannot listen on {address} (UDP)")]
    Io {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Only a controller's certificate is accepted by those who connect.
    #[error("a {role} cannot listen; only a controller can")]
    NotAController {
        /// The role of the identity.
        role: Role,
    },
    /// The identity cannot be used.
    #[error("cannot listen with this identity")]
    Tls(#[from] TlsFault),
}

/// Accepts connections on one address. Dropping it closes every connection it accepted.
pub struct Listener {
    endpoint: Endpoint,
    ready: mpsc::Receiver<Connected>,
    address: SocketAddr,
    accepting: tokio::task::AbortHandle,
}

/// Listens on an address; port 0 takes a free port.
///
/// # Errors
/// See [`ListenError`].
pub fn listen(
    address: SocketAddr,
    identity: &Identity,
    settings: &Settings,
    keys: &EndpointKeys,
) -> Result<Listener, ListenError> {
    let role = identity.principal().role;
    if role != Role::Controller {
        return Err(ListenError::NotAController { role });
    }
    let config = server_config(identity, settings)?;
    let fault = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::AddressInUse { address },
        io::ErrorKind::AddrNotAvailable => ListenError::NotHere { address },
        io::ErrorKind::PermissionDenied => ListenError::NotPermitted { address },
        _ => ListenError::Io { address, source },
    };
    let socket = UdpSocket::bind(address).map_err(fault)?;
    grow_buffers(&socket);
    let runtime = Arc::new(TokioRuntime);
    let endpoint =
        Endpoint::new(keys.endpoint_config(), Some(config), socket, runtime).map_err(fault)?;
    let address = endpoint.local_addr().map_err(fault)?;
    let cluster = identity.principal().cluster;
    let (sender, ready) = mpsc::channel(READY_MAX);
    let accepting = tokio::spawn(run_accept(
        endpoint.clone(),
        cluster,
        settings.clone(),
        sender,
    ))
    .abort_handle();
    Ok(Listener {
        endpoint,
        ready,
        address,
        accepting,
    })
}

impl Listener {
    /// The address it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next peer whose certificate is verified and whose control stream is open.
    ///
    /// `None` after [`Listener::close`].
    pub async fn accept(&mut self) -> Option<Connected> {
        self.ready.recv().await
    }

    /// Connections that are open now, those in the handshake included.
    pub fn connections(&self) -> usize {
        self.endpoint.open_connections()
    }

    /// Closes every connection with a reason, and waits until the peers could hear it.
    pub async fn close(mut self, code: CloseCode, reason: &str) {
        self.accepting.abort();
        self.endpoint
            .close(code.wire(), crate::close::cut(reason).as_bytes());
        self.ready.close();
        self.endpoint.wait_idle().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
        self.endpoint
            .close(CloseCode::Shutdown.wire(), b"listener stops");
    }
}

fn server_config(identity: &Identity, settings: &Settings) -> Result<ServerConfig, TlsFault> {
    let quic = QuicServerConfig::try_from(tls::server(identity)?)
        .map_err(|error| TlsFault::Authority(error.to_string()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(quic));
    config
        .transport_config(settings.transport(1))
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BYTES_MAX.0)
        .incoming_buffer_size_total(INCOMING_BYTES_MAX.1);
    Ok(config)
}

async fn run_accept(
    endpoint: Endpoint,
    cluster: ClusterId,
    settings: Settings,
    ready: mpsc::Sender<Connected>,
) {
    let handshakes = Arc::new(Semaphore::new(settings.handshakes_max.max(1)));
    let peers = Arc::new(Semaphore::new(
        settings.peers_max.clamp(1, Semaphore::MAX_PERMITS),
    ));
    while let Some(incoming) = endpoint.accept().await {
        let busy = handshakes.available_permits() < settings.handshakes_max / 2;
        if busy && !incoming.remote_address_validated() && incoming.may_retry() {
            // Under load a sender first proves that its address is real.
            let _ = incoming.retry();
            continue;
        }
        let Ok(place) = Arc::clone(&peers).try_acquire_owned() else {
            tracing::warn!(remote = %incoming.remote_address(), "too many connections");
            incoming.refuse();
            continue;
        };
        let Ok(turn) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        let (settings, ready) = (settings.clone(), ready.clone());
        tokio::spawn(async move {
            let remote = incoming.remote_address();
            let greeting = greet(incoming, cluster, &settings, place, turn);
            match tokio::time::timeout(settings.handshake_timeout, greeting).await {
                // The receiver is gone when the listener stops.
                Ok(Ok(connected)) => drop(ready.send(connected).await),
                Ok(Err(reason)) => tracing::debug!(%remote, reason, "connection not accepted"),
                Err(_) => tracing::debug!(%remote, "handshake not finished in time"),
            }
        });
    }
}

/// Takes a connection through the handshake and the opening of its control stream.
async fn greet(
    incoming: Incoming,
    cluster: ClusterId,
    settings: &Settings,
    place: OwnedSemaphorePermit,
    turn: OwnedSemaphorePermit,
) -> Result<Connected, String> {
    let connecting = incoming.accept().map_err(|error| error.to_string())?;
    let connection = connecting.await.map_err(|error| error.to_string())?;
    drop(turn);
    let streams = connection
        .accept_bi()
        .await
        .map_err(|error| error.to_string())?;
    let mut connected = Peer::start(connection, streams, cluster, settings, Some(place))
        .map_err(|error| error.to_string())?;
    let version = connected
        .inbox
        .receive_open()
        .await
        .map_err(|error| error.to_string())?;
    connected
        .peer
        .send_head(open_frame())
        .map_err(|error| error.to_string())?;
    if version != LINK_VERSION {
        connected.peer.finish().await;
        return Err(format!(
            "peer has link version {version}, this program {LINK_VERSION}"
        ));
    }
    Ok(connected)
}

/// Asks for large socket buffers; the kernel may give less.
pub(crate) fn grow_buffers(socket: &UdpSocket) {
    let Ok(state) = UdpSocketState::new(UdpSockRef::from(socket)) else {
        return;
    };
    let _ = state.set_recv_buffer_size(UdpSockRef::from(socket), SOCKET_BUFFER_BYTES);
    let _ = state.set_send_buffer_size(UdpSockRef::from(socket), SOCKET_BUFFER_BYTES);
    if let Ok(got) = state.recv_buffer_size(UdpSockRef::from(socket)) {
        tracing::debug!(
            asked = SOCKET_BUFFER_BYTES,
            got,
            "receive buffer of the UDP socket"
        );
    }
}
