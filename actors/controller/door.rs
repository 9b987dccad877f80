//! Where peers come in: accepts connections, checks the first words, begins or resumes sessions.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use xce_link::{
    Bearer, Claims, Connected, Frame, Hello, HelloAnswer, HelloCode, HelloRefusal, KeyRing,
    Listener, Opening, Peer, PeerKind, Role, Welcome,
};
use xce_model::{Millis, SessionId};
use xce_runtime::{Key, Task};

use crate::control::Control;
use crate::peer_doors;
use crate::reign::House;
use crate::session::Session;
use crate::sessions::SessionInfo;

/// How long a peer may take for its first words. Source: chosen; some round trips of a slow link.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long a token can be used. Source: as long as an operation is remembered, design section 3.2.
const TOKEN_LIFE: Millis = Millis::seconds(24 * 3600);

/// Accepts until the listener is closed.
pub async fn serve(house: Arc<House>, ring: Arc<KeyRing>, mut listener: Listener) {
    while let Some(connected) = listener.accept().await {
        let (house, ring) = (Arc::clone(&house), Arc::clone(&ring));
        Task::spawn(async move { welcome(&house, &ring, connected).await }).detach();
    }
}

async fn welcome(house: &Arc<House>, ring: &KeyRing, mut connected: Connected) {
    let first = tokio::time::timeout(HELLO_WITHIN, connected.inbox.receive()).await;
    let Ok(Ok(frame)) = first else {
        // It said nothing, or no frame; the link has closed it or the drop does.
        return;
    };
    let request = frame.route().request;
    let refusal = match first_words(house, &connected.peer, &frame) {
        Ok((hello, version)) if hello.kind == PeerKind::Controller => {
            match peer_doors::admit(house, &connected.peer) {
                Ok(()) => return peer_doors::serve(house, connected, request, version).await,
                Err(refusal) => refusal,
            }
        }
        Ok((hello, version)) => match house.control() {
            Some(control) => match open(&control, ring, &connected.peer, &hello, version) {
                Ok(welcome) => return greet(&control, connected, request, &hello, welcome),
                Err(refusal) => refusal,
            },
            None => HelloRefusal::not_primary(house.primary()),
        },
        Err(refusal) => refusal,
    };
    refuse(connected, request, refusal).await;
}

async fn refuse(connected: Connected, request: u64, refusal: HelloRefusal) {
    let peer = connected.peer;
    tracing::info!(peer = %peer.principal(), code = refusal.code.word(), "hello refused");
    drop(peer.reply(request, &HelloAnswer::Refused(refusal.clone())));
    peer.finish().await;
    peer.close(xce_link::CloseCode::Refused, &refusal.text);
}

fn greet(
    control: &Arc<Control>,
    connected: Connected,
    request: u64,
    hello: &Hello,
    welcome: Welcome,
) {
    let info = Arc::new(SessionInfo {
        id: welcome.session,
        kind: hello.kind,
        principal: connected.peer.principal().to_string(),
        remote: connected.peer.remote().to_string(),
        epoch: welcome.epoch,
        received: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        connected: AtomicBool::new(true),
        resume: Mutex::new(if welcome.resumed { "resumed" } else { "new" }.to_owned()),
    });
    begin(control, connected, request, info, welcome);
}

fn begin(
    control: &Arc<Control>,
    connected: Connected,
    request: u64,
    info: Arc<SessionInfo>,
    welcome: Welcome,
) {
    // A resumed session's former connection is over: the newer one fences it.
    if let Some(epoch) = control.sessions.epoch_of(welcome.session) {
        drop(control.session_family.stop(&key(welcome.session, epoch)));
    }
    if connected
        .peer
        .reply(request, &HelloAnswer::Welcome(welcome))
        .is_err()
    {
        return;
    }
    control.sessions.add(Arc::clone(&info));
    let key = key(info.id, info.epoch);
    let session = Session::new(Arc::clone(control), info, connected);
    if let Err(refusal) = control.session_family.spawn(key, None, session) {
        tracing::warn!(%refusal, "session not started");
    }
}

/// Each connection of a session has an actor of its own, told apart by the epoch.
fn key(session: SessionId, epoch: u64) -> Key {
    Key::new("session", format!("{session}.{epoch}"))
}

/// What a peer says first, checked as far as any controller can.
fn first_words(house: &House, peer: &Peer, frame: &Frame) -> Result<(Hello, u16), HelloRefusal> {
    let malformed = |text: String| HelloRefusal::new(HelloCode::Malformed, text);
    let hello: Hello = frame
        .decode()
        .map_err(|error| malformed(error.to_string()))?;
    let cluster = house.settings.cluster;
    let version = xce_link::hello::check(&hello, xce_link::hello::VERSIONS, cluster)?;
    permit(peer, hello.kind)?;
    Ok((hello, version))
}

/// Begins a session, or goes on with the one of a token.
fn open(
    control: &Control,
    ring: &KeyRing,
    peer: &Peer,
    hello: &Hello,
    version: u16,
) -> Result<Welcome, HelloRefusal> {
    let bearer = Bearer {
        principal: peer.principal().clone(),
        fingerprint: peer.fingerprint(),
        incarnation: hello.incarnation,
    };
    let now = control.now();
    let (session, epoch, resumed) = match &hello.opening {
        Opening::New => (control.sessions.next_id(), 1, false),
        Opening::Resume { token, .. } => {
            let claims = ring
                .open(token, &bearer, now)
                .map_err(|error| HelloRefusal::new(HelloCode::Token, error.to_string()))?;
            let latest = control.sessions.epoch_of(claims.session).unwrap_or(0);
            if claims.epoch < latest {
                let text = format!(
                    "session {} goes on under epoch {latest}; this token is of epoch {}",
                    claims.session, claims.epoch
                );
                return Err(HelloRefusal::new(HelloCode::Fenced, text));
            }
            (claims.session, claims.epoch + 1, true)
        }
    };
    let token = seal(ring, session, epoch, now, bearer);
    let status = control.wal.status();
    let lsn = control.view().lsn();
    Ok(Welcome {
        version,
        session,
        epoch,
        token,
        term: status.term,
        lsn,
        resumed,
    })
}

fn seal(
    ring: &KeyRing,
    session: SessionId,
    epoch: u64,
    now: xce_model::ClusterTime,
    bearer: Bearer,
) -> Vec<u8> {
    ring.seal(&Claims {
        session,
        epoch,
        issued: now,
        expires: now.after(TOKEN_LIFE),
        bearer,
    })
}

/// A peer may be what its certificate says.
fn permit(peer: &Peer, kind: PeerKind) -> Result<(), HelloRefusal> {
    let role = peer.principal().role;
    let allowed = match kind {
        PeerKind::Worker => role == Role::Worker,
        PeerKind::Client => true,
        PeerKind::Scheduler => role == Role::Scheduler,
        PeerKind::Apiserver => role == Role::Apiserver,
        PeerKind::Controller => role == Role::Controller,
    };
    if allowed {
        return Ok(());
    }
    let text = format!(
        "{} may not speak as a {}: its certificate is of the role {}",
        peer.principal(),
        crate::sessions::kind_word(kind),
        role.word()
    );
    Err(HelloRefusal::new(HelloCode::NotPermitted, text))
}
