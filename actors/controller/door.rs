//! Where peers come in: accepts connections, checks the first words, begins or resumes sessions.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use xce_link::{
    Connected, Frame, Hello, HelloAnswer, HelloCode, HelloRefusal, KeyRing, Listener, Opening,
    Peer, PeerKind, Role, Welcome,
};
use xce_model::SessionId;
use xce_runtime::{Key, Task};

use crate::control::Control;
use crate::reign::House;
use crate::requests::looking;
use crate::session::Session;
use crate::sessions::SessionInfo;
use crate::{opening, peer_doors};

/// How long a peer may take for its first words. Source: chosen; some round trips of a slow link.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Sessions that are opened at once; others wait for their turn.
/// Source: foundations section 3, as many handshakes at once let none of 5 000 fail.
const OPENINGS_MAX: usize = 64;

/// Accepts until the listener is closed.
pub async fn serve(house: Arc<House>, ring: Arc<KeyRing>, mut listener: Listener) {
    let turns = Arc::new(Semaphore::new(OPENINGS_MAX));
    while let Some(connected) = listener.accept().await {
        let (house, ring, turns) = (Arc::clone(&house), Arc::clone(&ring), Arc::clone(&turns));
        Task::spawn(async move { welcome(&house, &ring, &turns, connected).await }).detach();
    }
}

async fn welcome(house: &Arc<House>, ring: &KeyRing, turns: &Semaphore, mut connected: Connected) {
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
        Ok((hello, version)) if hello.opening == Opening::Look => {
            return looking::serve(house, connected, request, version).await;
        }
        Ok((hello, version)) => match house.control() {
            // Another one may lead by now: whoever stays here would never find it.
            Some(control) if !control.holds_lease() => house.not_primary(),
            Some(control) => {
                // Err says that nobody waits any more: the door was closed.
                let _turn = turns.acquire().await;
                match opening::open(&control, ring, &connected.peer, &hello, version).await {
                    Ok(welcome) => return greet(&control, connected, request, &hello, welcome),
                    Err(refusal) => refusal,
                }
            }
            None => house.not_primary(),
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
        cost: Mutex::new(None),
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
    let version = xce_link::hello::check(&hello, house.settings.protocol, cluster)?;
    permit(peer, hello.kind)?;
    Ok((hello, version))
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
