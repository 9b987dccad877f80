//! One connection to one peer: a handle to send and close, and an inbox to receive.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, RecvStream, SendStream};
use rustls_pki_types::CertificateDer;
use tokio::sync::OwnedSemaphorePermit;
use xce_model::{ClusterId, Refusal, RefusalKind};

use crate::bulk::{BulkError, BulkReceiver, BulkSender};
use crate::close::{self, CloseCode, Closed};
use crate::frame::{Head, Route, encode_frame};
use crate::inbox::Inbox;
use crate::message::{EncodeError, Message};
use crate::outbox::{Outbox, OutboxRefusal, ResetOnDrop, WriteFault, run_writer};
use crate::principal::{Fingerprint, Principal, PrincipalError};
use crate::reader::FrameReader;
use crate::settings::Settings;

/// A new connection: the handle that sends and the inbox that receives.
#[derive(Debug)]
pub struct Connected {
    /// Sends and closes.
    pub peer: Peer,
    /// Receives.
    pub inbox: Inbox,
}

/// Sends to one peer and closes its connection. Cheap to clone.
///
/// The connection closes, and what still waits is lost, when the last handle, its [`Inbox`]
/// included, is dropped; [`Peer::finish`] waits for what was sent.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Connection,
    principal: Principal,
    fingerprint: Fingerprint,
    outbox: Arc<Outbox>,
    settings: Settings,
    closed_here: Arc<OnceLock<Closed>>,
    _place: Option<OwnedSemaphorePermit>,
}

/// A frame was not taken for sending.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The peer reads too slowly: so many bytes wait for it already.
    #[error("slow peer: {waiting} bytes wait for {principal} already")]
    SlowPeer {
        /// Who is slow.
        principal: Principal,
        /// Bytes that wait.
        waiting: usize,
    },
    /// The connection has ended, or [`Peer::finish`] was called.
    #[error("connection to {principal} has ended")]
    Ended {
        /// Whose connection.
        principal: Principal,
    },
    /// The message cannot be made into a frame.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl SendError {
    /// The form in which a third party hears of it.
    pub fn refusal(&self) -> Refusal {
        let code = match self {
            Self::SlowPeer { .. } => "slow_peer",
            Self::Ended { .. } => "peer_gone",
            Self::Encode(_) => {
                return Refusal::new(RefusalKind::Refused, "message_too_large", self.to_string());
            }
        };
        Refusal::new(RefusalKind::Unavailable, code, self.to_string())
    }
}

impl Peer {
    pub(crate) fn start(
        connection: Connection,
        streams: (SendStream, RecvStream),
        cluster: ClusterId,
        settings: &Settings,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Connected, PrincipalError> {
        let certificate = peer_certificate(&connection)?;
        let principal = Principal::of_certificate(&certificate)?;
        if principal.cluster != cluster {
            let theirs = principal.cluster;
            return Err(PrincipalError::OtherCluster {
                ours: cluster,
                theirs,
            });
        }
        let outbox = Arc::new(Outbox::new(settings.send_queue_bytes));
        let closed_here = Arc::new(OnceLock::new());
        let inner = Inner {
            principal,
            fingerprint: Fingerprint::of_certificate(&certificate)?,
            connection: connection.clone(),
            outbox: Arc::clone(&outbox),
            settings: settings.clone(),
            closed_here: Arc::clone(&closed_here),
            _place: place,
        };
        let (send, receive) = streams;
        let stall = settings.stall_timeout;
        tokio::spawn(async move {
            let outcome = run_writer(&outbox, ResetOnDrop::new(send), stall).await;
            outbox.end(outcome.is_ok());
            if outcome == Err(WriteFault::Stalled) {
                close_once(
                    &connection,
                    &closed_here,
                    CloseCode::SlowPeer,
                    "reads too slowly",
                );
            }
        });
        let peer = Self {
            inner: Arc::new(inner),
        };
        let inbox = Inbox::new(peer.clone(), FrameReader::new(receive, settings));
        Ok(Connected { peer, inbox })
    }

    /// Who the peer is, as its verified certificate says.
    pub fn principal(&self) -> &Principal {
        &self.inner.principal
    }

    /// Fingerprint of the peer's key, for binding a session token.
    pub fn fingerprint(&self) -> Fingerprint {
        self.inner.fingerprint
    }

    /// Where the peer is now; may change during a connection.
    pub fn remote(&self) -> SocketAddr {
        self.inner.connection.remote_address()
    }

    /// Round-trip time as the transport estimates it.
    pub fn round_trip(&self) -> Duration {
        self.inner.connection.rtt()
    }

    /// A value that only the two ends of this one connection know, equal on both.
    ///
    /// For proofs that are bound to the connection: a join secret, a statement about a local user.
    /// `None` when the connection has no TLS session any more.
    pub fn binding(&self, label: &[u8]) -> Option<[u8; 32]> {
        let mut secret = [0; 32];
        let context = b"";
        let exported = self
            .inner
            .connection
            .export_keying_material(&mut secret, label, context);
        exported.ok().map(|()| secret)
    }

    /// Datagrams sent; quinn does not count the close frames among them.
    #[cfg(test)]
    pub(crate) fn packets_sent(&self) -> u64 {
        self.inner.connection.stats().udp_tx.datagrams
    }

    /// Datagrams received, and close frames among them.
    #[cfg(test)]
    pub(crate) fn packets_received(&self) -> (u64, u64) {
        let statistics = self.inner.connection.stats();
        (
            statistics.udp_rx.datagrams,
            statistics.frame_rx.connection_close,
        )
    }

    /// Bytes that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.inner.outbox.waiting()
    }

    /// Queues a message; never waits.
    ///
    /// # Errors
    /// [`SendError::SlowPeer`] when too much waits already, [`SendError::Ended`] after the end,
    /// [`SendError::Encode`] for a message that is too large. In each case nothing was sent.
    pub fn send<T: Message>(&self, route: Route, message: &T) -> Result<(), SendError> {
        let bytes = encode_frame(route, message)?;
        self.queue(EncodedFrame(bytes))
    }

    /// Queues a frame made by [`encode_frame`], for messages that many peers get.
    ///
    /// # Errors
    /// As [`Peer::send`].
    pub fn send_encoded(&self, frame: Bytes) -> Result<(), SendError> {
        self.queue(frame)
    }

    /// Queues the answer to a request.
    ///
    /// # Errors
    /// As [`Peer::send`].
    pub fn reply<T: Message>(&self, request: u64, message: &T) -> Result<(), SendError> {
        self.send(Route::reply(request), message)
    }

    /// Queues a refusal of a request.
    ///
    /// # Errors
    /// As [`Peer::send`].
    pub fn refuse(&self, request: u64, refusal: &Refusal) -> Result<(), SendError> {
        self.send(Route::refusal(request), refusal)
    }

    /// Queues a message that was not asked for, for a subscription or 0.
    ///
    /// # Errors
    /// As [`Peer::send`].
    pub fn push<T: Message>(&self, subscription: u64, message: &T) -> Result<(), SendError> {
        self.send(Route::push(subscription), message)
    }

    /// As [`Peer::push`]; tells how many bytes the frame has.
    ///
    /// # Errors
    /// As [`Peer::send`].
    pub fn push_counted<T: Message>(
        &self,
        subscription: u64,
        message: &T,
    ) -> Result<usize, SendError> {
        let bytes = encode_frame(Route::push(subscription), message)?;
        let length = bytes.len();
        self.queue(EncodedFrame(bytes))?;
        Ok(length)
    }

    fn queue<F: AsRef<[u8]> + Into<Bytes>>(&self, frame: F) -> Result<(), SendError> {
        self.inner.outbox.push(frame).map_err(|refusal| {
            let principal = self.inner.principal.clone();
            match refusal {
                OutboxRefusal::Full { waiting } => SendError::SlowPeer { principal, waiting },
                OutboxRefusal::Ended => SendError::Ended { principal },
            }
        })
    }

    pub(crate) fn send_head(&self, head: Head) -> Result<(), SendError> {
        self.queue(Bytes::copy_from_slice(&head.to_bytes()))
    }

    /// Sends what waits, then ends the sending side; true when the peer acknowledged all of it.
    ///
    /// The connection stays open for receiving; close it afterwards.
    pub async fn finish(&self) -> bool {
        self.inner.outbox.finish();
        self.inner.outbox.ended().await
    }

    /// Opens a one-way stream for bulk data; waits while the peer has enough of them open.
    ///
    /// # Errors
    /// [`BulkError::Closed`] when the connection ends.
    pub async fn open_bulk(&self) -> Result<BulkSender, BulkError> {
        let stream = self
            .inner
            .connection
            .open_uni()
            .await
            .map_err(|error| self.ended_by(&error))?;
        // Control frames go first wherever both wait.
        let _ = stream.set_priority(-1);
        Ok(BulkSender::new(stream, self.inner.settings.stall_timeout))
    }

    /// Waits for the next bulk stream that the peer opens.
    ///
    /// # Errors
    /// [`BulkError::Closed`] when the connection ends.
    pub async fn accept_bulk(&self) -> Result<BulkReceiver, BulkError> {
        let stream = self
            .inner
            .connection
            .accept_uni()
            .await
            .map_err(|error| self.ended_by(&error))?;
        Ok(BulkReceiver::new(stream, &self.inner.settings))
    }

    /// Closes at once; what waits to be sent is lost. Only the first reason counts.
    pub fn close(&self, code: CloseCode, reason: &str) {
        close_once(
            &self.inner.connection,
            &self.inner.closed_here,
            code,
            reason,
        );
        self.inner.outbox.end(false);
    }

    /// Waits until the connection has ended, and says why.
    pub async fn closed(&self) -> Closed {
        let error = self.inner.connection.closed().await;
        self.ended_by(&error)
    }

    /// Whether and why the connection has ended.
    pub fn closed_now(&self) -> Option<Closed> {
        self.inner
            .connection
            .close_reason()
            .map(|error| self.ended_by(&error))
    }

    pub(crate) fn ended_by(&self, error: &quinn::ConnectionError) -> Closed {
        match (error, self.inner.closed_here.get()) {
            (quinn::ConnectionError::LocallyClosed, Some(closed)) => closed.clone(),
            (error, _) => Closed::of(error),
        }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Peer({} at {})", self.inner.principal, self.remote())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        close_once(
            &self.connection,
            &self.closed_here,
            CloseCode::Dropped,
            "handle dropped",
        );
        self.outbox.end(false);
    }
}

/// Frame bytes on their way to the outbox.
struct EncodedFrame(rkyv::util::AlignedVec);

impl AsRef<[u8]> for EncodedFrame {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<EncodedFrame> for Bytes {
    fn from(frame: EncodedFrame) -> Self {
        Self::from_owner(frame)
    }
}

/// Closes a connection that has not ended; a later close would hide why it ended.
fn close_once(
    connection: &Connection,
    closed_here: &OnceLock<Closed>,
    code: CloseCode,
    reason: &str,
) {
    if connection.close_reason().is_some() {
        return;
    }
    let reason = close::cut(reason);
    let closed = Closed::Here {
        code,
        reason: reason.to_owned(),
    };
    // Whoever closed first gave the reason.
    if closed_here.set(closed).is_ok() {
        connection.close(code.wire(), reason.as_bytes());
    }
}

fn peer_certificate(connection: &Connection) -> Result<CertificateDer<'static>, PrincipalError> {
    connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
        .and_then(|chain| chain.into_iter().next())
        .ok_or_else(|| PrincipalError::Certificate("the peer presented none".to_owned()))
}
