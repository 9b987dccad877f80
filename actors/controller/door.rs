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
use crate::session::Session;
use crate::sessions::SessionInfo;

/// How long a peer may take for its first words. Source: chosen; some round trips of a slow link.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long a token can be used. Source: as long as an operation is remembered, design section 3.2.
const TOKEN_LIFE: Millis = Millis::seconds(24 * 3600);

/// Accepts until the listener is closed.
pub async fn serve(control: Arc<Control>, ring: Arc<KeyRing>, mut listener: Listener) {
    while let Some(connected) = listener.accept().await {
        let (control, ring) = (Arc::clone(&control), Arc::clone(&ring));
        Task::spawn(async move { welcome(&control, &ring, connected).await }).detach();
    }
}

async fn welcome(control: &Arc<Control>, ring: &KeyRing, mut connected: Connected) {
    let first = tokio::time::timeout(HELLO_WITHIN, connected.inbox.receive()).await;
    let Ok(Ok(frame)) = first else {
        // It said nothing, or no frame; the link has closed it or the drop does.
        return;
    };
    let request = frame.route().request;
    match admit(control, ring, &connected.peer, &frame) {
        Ok((hello, welcome)) => {
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
        Err(refusal) => {
            tracing::info!(peer = %connected.peer.principal(), code = refusal.code.word(), "hello refused");
            drop(
                connected
                    .peer
                    .reply(request, &HelloAnswer::Refused(refusal.clone())),
            );
            connected.peer.finish().await;
            connected
                .peer
                .close(xce_link::CloseCode::Refused, &refusal.text);
        }
    }
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

fn admit(
    control: &Control,
    ring: &KeyRing,
    peer: &Peer,
    frame: &Frame,
) -> Result<(Hello, Welcome), HelloRefusal> {
    let malformed = |text: String| HelloRefusal::new(HelloCode::Malformed, text);
    let hello: Hello = frame
        .decode()
        .map_err(|error| malformed(error.to_string()))?;
    let version =
        xce_link::hello::check(&hello, xce_link::hello::VERSIONS, control.settings.cluster)?;
    permit(peer, hello.kind)?;
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
    Ok((
        hello,
        Welcome {
            version,
            session,
            epoch,
            token,
            term: status.term,
            lsn,
            resumed,
        },
    ))
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
