//! Connecting to a cluster: all given addresses, verified, with errors that say what is wrong.

mod error;
mod order;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, TokioRuntime};
use tokio::task::JoinSet;

pub use self::error::DialError;
pub use self::order::Order;
use crate::close::{CloseCode, Closed};
use crate::endpoint::grow_buffers;
use crate::frame::{LINK_VERSION, open_frame};
use crate::identity::Identity;
use crate::peer::{Connected, Peer};
use crate::settings::Settings;
use crate::tls::{self, TlsFault, Witness};

/// Wait before the next address is tried while the ones before have not answered.
///
/// Source: RFC 8305 section 8, 250 ms between attempts.
const NEXT_ADDRESS_WAIT: Duration = Duration::from_millis(250);

/// Most addresses tried in one call.
///
/// Source: chosen; a cluster has at most five controllers, each with a few addresses.
const ADDRESSES_MAX: usize = 32;

/// Bits of a QUIC error code that mark a TLS alert; the alert is in the low byte.
///
/// Source: RFC 9001 section 4.8.
const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

/// The TLS alert for a protocol name that the other side does not know.
///
/// Source: RFC 7301 section 3.2.
const ALERT_NO_PROTOCOL: u64 = 0x100 + 120;

/// Connects with one identity; keeps its UDP sockets for further connections.
#[derive(Clone)]
pub struct Dialer {
    inner: Arc<Inner>,
}

struct Inner {
    identity: Identity,
    settings: Settings,
    sockets: Mutex<Sockets>,
}

#[derive(Default)]
struct Sockets {
    v4: Option<Endpoint>,
    v6: Option<Endpoint>,
}

/// Connects once; see [`Dialer::dial`].
///
/// # Errors
/// See [`DialError`].
pub async fn dial(
    addresses: &[SocketAddr],
    identity: &Identity,
    settings: &Settings,
    timeout: Duration,
) -> Result<Connected, DialError> {
    Dialer::new(identity.clone(), settings.clone())
        .dial(addresses, timeout)
        .await
}

impl Dialer {
    /// Makes a dialler; opens no socket yet.
    pub fn new(identity: Identity, settings: Settings) -> Self {
        Self {
            inner: Arc::new(Inner {
                identity,
                settings,
                sockets: Mutex::default(),
            }),
        }
    }

    /// The identity it connects with.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Connects to the first address that answers as a listener of our cluster.
    ///
    /// Addresses are tried in their order, each 250 ms after the one before or as soon as that one
    /// failed, without giving up on those before. When this returns the peer has accepted our
    /// certificate.
    ///
    /// # Errors
    /// The most telling error of all addresses; see [`DialError`].
    pub async fn dial(
        &self,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<Connected, DialError> {
        if addresses.is_empty() {
            return Err(DialError::NoAddress);
        }
        let mut worst = DialError::NoAnswer {
            tried: addresses.iter().copied().take(ADDRESSES_MAX).collect(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        match tokio::time::timeout(timeout, self.race(addresses, &mut worst)).await {
            Ok(Some(connected)) => Ok(connected),
            Ok(None) | Err(_) => Err(worst),
        }
    }

    async fn race(&self, addresses: &[SocketAddr], worst: &mut DialError) -> Option<Connected> {
        let mut waiting = addresses.iter().copied().take(ADDRESSES_MAX);
        let mut attempts = JoinSet::new();
        let mut next = waiting.next();
        loop {
            if let Some(address) = next.take() {
                let dialer = self.clone();
                attempts.spawn(async move { dialer.attempt(address).await });
            }
            let rest = waiting.len();
            tokio::select! {
                finished = attempts.join_next() => match finished {
                    Some(Ok(Ok(connected))) => return Some(connected),
                    Some(Ok(Err(error))) => {
                        if error.weight() >= worst.weight() {
                            *worst = error;
                        }
                        next = waiting.next();
                    }
                    Some(Err(error)) => tracing::error!(%error, "attempt to connect failed"),
                    None if rest == 0 => return None,
                    None => next = waiting.next(),
                },
                () = tokio::time::sleep(NEXT_ADDRESS_WAIT), if rest > 0 => next = waiting.next(),
            }
        }
    }

    async fn attempt(&self, address: SocketAddr) -> Result<Connected, DialError> {
        let ours = self.inner.identity.principal().cluster;
        let here = |reason: String| DialError::Here { reason };
        let witness = Arc::new(Witness::default());
        let config = self
            .client_config(Arc::clone(&witness))
            .map_err(|error| here(format!("{error}: {}", reason_of(&error))))?;
        let endpoint = self
            .endpoint(address)
            .map_err(|error| here(error.to_string()))?;
        let name = tls::server_name_text(ours);
        let connecting = endpoint
            .connect_with(config, address, &name)
            .map_err(|error| unreachable(address, &error.to_string()))?;
        let connection = connecting
            .await
            .map_err(|error| self.explain(address, &error, &witness))?;
        self.open(&connection).await.map_err(|fault| match fault {
            OpenFault::Version(theirs) => DialError::Protocol {
                address,
                reason: format!("it has link version {theirs}, this program {LINK_VERSION}"),
            },
            OpenFault::Failed(reason) => match connection.close_reason() {
                Some(error) => self.explain(address, &error, &witness),
                None => unreachable(address, &reason),
            },
        })
    }

    /// Opens the control stream and waits until the listener has opened it too.
    ///
    /// TLS 1.3 lets a client finish before its certificate was checked; only this answer says that
    /// it was accepted.
    async fn open(&self, connection: &Connection) -> Result<Connected, OpenFault> {
        let cluster = self.inner.identity.principal().cluster;
        let streams = connection.open_bi().await?;
        let settings = &self.inner.settings;
        let mut connected = Peer::start(connection.clone(), streams, cluster, settings, None)?;
        connected.peer.send_head(open_frame())?;
        match connected.inbox.receive_open().await {
            Ok(LINK_VERSION) => Ok(connected),
            Ok(theirs) => {
                let reason = "link version is not known here";
                connected.peer.close(CloseCode::Protocol, reason);
                Err(OpenFault::Version(theirs))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn client_config(&self, witness: Arc<Witness>) -> Result<ClientConfig, TlsFault> {
        let tls = tls::client(&self.inner.identity, witness)?;
        let quic = QuicClientConfig::try_from(tls)
            .map_err(|error| TlsFault::Authority(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(quic));
        config.transport_config(self.inner.settings.transport(0));
        Ok(config)
    }

    fn endpoint(&self, address: SocketAddr) -> io::Result<Endpoint> {
        let mut sockets = self
            .inner
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (place, local) = if address.is_ipv4() {
            (
                &mut sockets.v4,
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            )
        } else {
            (
                &mut sockets.v6,
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            )
        };
        if let Some(endpoint) = place {
            return Ok(endpoint.clone());
        }
        let socket = std::net::UdpSocket::bind(local)?;
        grow_buffers(&socket);
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)?;
        Ok(place.insert(endpoint).clone())
    }

    fn explain(
        &self,
        address: SocketAddr,
        error: &ConnectionError,
        witness: &Witness,
    ) -> DialError {
        let principal = self.inner.identity.principal();
        let ours = principal.cluster;
        if let Some(rejection) = witness.rejection() {
            let theirs = rejection.claimed.map(|claimed| claimed.cluster);
            return match theirs.filter(|theirs| *theirs != ours) {
                Some(theirs) => DialError::WrongCluster {
                    address,
                    ours,
                    theirs,
                },
                None => DialError::UntrustedPeer {
                    address,
                    ours,
                    reason: rejection.reason,
                },
            };
        }
        let alert = match error {
            ConnectionError::ConnectionClosed(close) => Some(u64::from(close.error_code)),
            ConnectionError::TransportError(fault) => Some(u64::from(fault.code)),
            ConnectionError::VersionMismatch
            | ConnectionError::ApplicationClosed(_)
            | ConnectionError::Reset
            | ConnectionError::TimedOut
            | ConnectionError::LocallyClosed
            | ConnectionError::CidsExhausted => None,
        };
        let reason = error.to_string();
        match (error, alert.filter(|code| ALERTS.contains(code))) {
            (_, Some(ALERT_NO_PROTOCOL)) | (ConnectionError::VersionMismatch, _) => {
                DialError::Protocol { address, reason }
            }
            (ConnectionError::ConnectionClosed(_), Some(_)) => DialError::NotAccepted {
                address,
                ours: principal.to_string(),
                reason,
            },
            (ConnectionError::ApplicationClosed(_), _) => DialError::TurnedAway {
                address,
                closed: Closed::of(error),
            },
            _ => DialError::Unreachable { address, reason },
        }
    }
}

/// Why the control stream did not open.
enum OpenFault {
    /// The listener has this other version of the frame form.
    Version(u8),
    /// The stream or connection failed.
    Failed(String),
}

impl<E: std::error::Error> From<E> for OpenFault {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

fn unreachable(address: SocketAddr, reason: &str) -> DialError {
    DialError::Unreachable {
        address,
        reason: reason.to_owned(),
    }
}

fn reason_of(error: &TlsFault) -> String {
    std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default()
}
