//! How a session is opened, or goes on after a lost connection.
//!
//! ```text
//!   worker, scheduler, apiserver: Opened / Resumed is committed ─► token ─► welcome
//!   client:                                                        token ─► welcome
//! ```
//! The session of a daemon is committed before its token is given out, so that every controller
//! knows its epoch and which incarnation it belongs to: a token that was fenced stays so over a change
//! of the primary. A client's session carries nothing that has to be fenced, since its changes count
//! by their operation ids, and one that lives for one command is not worth a sync.

use xce_ledger::{Created, Precondition, SessionFact, SessionKind, View};
use xce_link::{
    Bearer, Claims, Hello, HelloCode, HelloRefusal, KeyRing, Opening, Peer, PeerKind, Welcome,
};
use xce_model::{ClusterTime, Millis, SessionId};

use crate::control::{CommitError, Control};

/// How long a token can be used. Source: as long as an operation is remembered, design section 3.2.
const TOKEN_LIFE: Millis = Millis::seconds(24 * 3600);

/// Time over which peers spread their coming back, for each host that is known.
/// Source: foundations section 3: 5 000 that come over 5 s wait 11 ms at most, all at once 3.4 s.
const SPREAD_EACH: Millis = Millis(1);

/// A session as it is told to its peer.
struct Opened {
    session: SessionId,
    epoch: u64,
    resumed: bool,
}

/// Begins a session, or goes on with the one of a token.
///
/// # Errors
/// A token that is not valid or was fenced; busy where the cluster cannot write now.
pub async fn open(
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
    let resumes = match &hello.opening {
        Opening::New | Opening::Look => None,
        Opening::Resume { token, .. } => {
            let claims = ring
                .open(token, &bearer, now)
                .map_err(|error| HelloRefusal::new(HelloCode::Token, error.to_string()))?;
            Some(claims)
        }
    };
    let opened = match (committed_kind(hello.kind), &resumes) {
        (Some(kind), None) => begin(control, kind, &bearer).await?,
        (Some(_), Some(claims)) => resume(control, claims).await?,
        (None, None) => unwritten(control),
        (None, Some(claims)) => resume_client(control, claims)?,
    };
    let token = seal(ring, &opened, now, bearer);
    let view = control.view();
    Ok(Welcome {
        version,
        session: opened.session,
        epoch: opened.epoch,
        token,
        term: control.wal.status().term,
        lsn: view.lsn(),
        resumed: opened.resumed,
        spread_ms: spread(&view).0,
    })
}

/// Over how long peers spread their coming back.
fn spread(view: &View) -> Millis {
    Millis(SPREAD_EACH.0 * view.hosts().len() as u64)
}

/// The kind of those whose sessions are committed.
const fn committed_kind(kind: PeerKind) -> Option<SessionKind> {
    match kind {
        PeerKind::Worker => Some(SessionKind::Worker),
        PeerKind::Scheduler => Some(SessionKind::Scheduler),
        PeerKind::Apiserver => Some(SessionKind::Apiserver),
        PeerKind::Client | PeerKind::Controller => None,
    }
}

fn unwritten(control: &Control) -> Opened {
    Opened {
        session: control.sessions.next_id(),
        epoch: 1,
        resumed: false,
    }
}

async fn begin(
    control: &Control,
    kind: SessionKind,
    bearer: &Bearer,
) -> Result<Opened, HelloRefusal> {
    let fact = SessionFact::Opened {
        principal: bearer.principal.to_string(),
        kind,
        incarnation: bearer.incarnation,
        fingerprint: bearer.fingerprint.0,
    };
    let group = control.group("session opened").with(fact);
    match control.commit(&group).await {
        Ok(committed) => {
            let number = committed.answer.created.iter().find_map(|created| {
                if let Created::Session(session) = created {
                    Some(*session)
                } else {
                    None
                }
            });
            number
                .map(|session| Opened {
                    session,
                    epoch: 1,
                    resumed: false,
                })
                .ok_or_else(|| HelloRefusal::new(HelloCode::Busy, "no session was made; try again"))
        }
        // On a full disk hosts go on: their facts are fenced by incarnation and mark.
        Err(CommitError::Refused(refusal)) if refusal.code == "disk_full" => Ok(unwritten(control)),
        Err(error) => Err(busy(&error)),
    }
}

async fn resume(control: &Control, claims: &Claims) -> Result<Opened, HelloRefusal> {
    let (session, epoch) = (claims.session, claims.epoch);
    let fact = SessionFact::Resumed {
        session,
        epoch: epoch + 1,
    };
    let mut group = control.group("session resumed").with(fact);
    group.preconditions = vec![Precondition::SessionEpoch { session, epoch }];
    let opened = Opened {
        session,
        epoch: epoch + 1,
        resumed: true,
    };
    match control.commit(&group).await {
        Ok(_) => Ok(opened),
        Err(CommitError::Refused(refusal)) if refusal.code == "disk_full" => Ok(opened),
        Err(CommitError::Stale(_)) => Err(fenced(&control.view(), claims)),
        Err(error) => Err(busy(&error)),
    }
}

/// Why a token's session does not go on, in words.
fn fenced(view: &View, claims: &Claims) -> HelloRefusal {
    let (session, epoch) = (claims.session, claims.epoch);
    let principal = claims.bearer.principal.to_string();
    let newer = view
        .sessions()
        .values()
        .find(|other| other.principal == principal);
    let text = match (view.session(session), newer) {
        (Some(found), _) => format!(
            "session {session} goes on under epoch {}; this token is of epoch {epoch}",
            found.epoch
        ),
        (None, Some(newer)) => format!(
            "session {session} is over: session {} of incarnation {} of {principal} took its place",
            newer.id, newer.incarnation
        ),
        (None, None) => format!("session {session} is not known any more"),
    };
    HelloRefusal::new(HelloCode::Fenced, text)
}

fn resume_client(control: &Control, claims: &Claims) -> Result<Opened, HelloRefusal> {
    let latest = control.sessions.epoch_of(claims.session).unwrap_or(0);
    if claims.epoch < latest {
        let text = format!(
            "session {} goes on under epoch {latest}; this token is of epoch {}",
            claims.session, claims.epoch
        );
        return Err(HelloRefusal::new(HelloCode::Fenced, text));
    }
    Ok(Opened {
        session: claims.session,
        epoch: claims.epoch + 1,
        resumed: true,
    })
}

fn busy(error: &CommitError) -> HelloRefusal {
    let text = format!("the session could not be written: {error}; try again");
    HelloRefusal::new(HelloCode::Busy, text)
}

fn seal(ring: &KeyRing, opened: &Opened, now: ClusterTime, bearer: Bearer) -> Vec<u8> {
    ring.seal(&Claims {
        session: opened.session,
        epoch: opened.epoch,
        issued: now,
        expires: now.after(TOKEN_LIFE),
        bearer,
    })
}
