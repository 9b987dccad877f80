//! The controllers of the cluster: who they are, who joins, who leaves, who leads.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use xce_ledger::{FOUNDER, MemberFact};
use xce_link::{Authority, AuthorityError, Invitation, Invited, Role};
use xce_model::{Refusal, RefusalKind};
use xce_session::member_wire::{AskMember, BackupHead, Invite, Joined, MemberView, ReplyMember};
use xce_session::peer_wire::PeerAbout;
use xce_session::wire::{Accepted, Reply};
use xce_wal::{Member, MemberChange, MemberState, MembershipError};

use super::{Caller, refusal_of};
use crate::control::Control;
use crate::peers::{name_of, node_of};

/// Silence after which a controller counts as not answering. Source: derived; sixty beats of
/// consensus, and ten elections.
pub const SILENT_AFTER_MS: u64 = 3_000;

pub(super) async fn answer(caller: &Caller<'_>, ask: AskMember) -> Result<Reply, Refusal> {
    match ask {
        AskMember::List => Ok(Reply::Member(ReplyMember::List(views(caller.control)))),
        AskMember::Invite(invite) => self::invite(caller, invite).await,
        AskMember::Join { address, level } => join(caller, &address, level).await,
        AskMember::Remove(node) => remove(caller, node).await,
        AskMember::Transfer(node) => transfer(caller, node).await,
        AskMember::Backup => backup(caller).await,
    }
}

fn accepted(caller: &Caller<'_>, text: String) -> Reply {
    Reply::Accepted(Accepted {
        lsn: caller.control.view().lsn(),
        ids: Vec::new(),
        text,
    })
}

fn refused(error: MembershipError) -> Refusal {
    let text = error.to_string();
    match error {
        MembershipError::NotPrimary { .. } => {
            Refusal::new(RefusalKind::Unavailable, "not_primary", text)
        }
        MembershipError::Busy => Refusal::new(RefusalKind::Unavailable, "busy", text),
        MembershipError::Refused(_) => Refusal::refused("membership", text),
        MembershipError::Unknown(_) => {
            Refusal::new(RefusalKind::OutcomeUnknown, "outcome_unknown", text)
        }
    }
}

/// The controllers, by number.
pub fn views(control: &Control) -> Vec<MemberView> {
    let members = control.wal.members();
    let own = control.settings.node;
    let last = members.iter().filter_map(|state| state.matched).max();
    members
        .into_iter()
        .map(|state| {
            let role = match (state.member.node == own, state.voter) {
                (true, _) => "primary",
                (false, true) => "standby",
                (false, false) => "learner",
            };
            let node = state.member.node;
            let about = control.known.of(node).unwrap_or_else(|| PeerAbout {
                version: String::new(),
                level: 0,
                certificate_ends_s: 0,
                epoch: 0,
            });
            let about = if node == own {
                own_about(control)
            } else {
                about
            };
            MemberView {
                name: name_of(node),
                node,
                address: state.member.address,
                role: role.to_owned(),
                lsn: state.matched,
                behind: last.zip(state.matched).map(|(last, at)| last - at),
                heard_ms: state.heard_ms.filter(|_| node != own),
                version: about.version,
                level: about.level,
                certificate_ends_s: about.certificate_ends_s,
            }
        })
        .collect()
}

fn own_about(control: &Control) -> PeerAbout {
    PeerAbout {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        level: control.settings.level_max,
        certificate_ends_s: control.certificate_ends_s,
        epoch: control.view().epoch(),
    }
}

/// Only who may sign for others may invite them: the key lies with the controllers.
fn authority(directory: &Path, control: &Control) -> Result<Authority, Refusal> {
    Authority::load(directory, control.settings.cluster).map_err(|error| {
        tracing::warn!(%error, "nobody can be invited here");
        let text = match error {
            AuthorityError::Missing(path) => format!(
                "this controller has no authority to sign with: {} holds none",
                path.display()
            ),
            error => error.to_string(),
        };
        Refusal::refused("no_authority", text)
    })
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

fn addresses(control: &Control) -> Vec<String> {
    let members = control.wal.members().into_iter();
    let known = members.map(|state| state.member.address);
    known.filter(|address| !address.is_empty()).collect()
}

async fn invite(caller: &Caller<'_>, invite: Invite) -> Result<Reply, Refusal> {
    let control = caller.control;
    let authority = authority(&control.settings.authority_dir, control)?;
    let invited = match invite {
        Invite::Controller => Invited {
            role: Role::Controller,
            name: name_of(next_number(caller).await?),
        },
        Invite::Worker(name) => Invited {
            role: Role::Worker,
            name,
        },
        Invite::User(name) if xce_link::invitation::is_reserved(&name) => {
            let text = format!("`{name}` cannot be the name of a user: `join.` is kept");
            return Err(Refusal::refused("name_reserved", text));
        }
        Invite::User(name) => Invited {
            role: Role::User,
            name,
        },
        Invite::Scheduler(name) => Invited {
            role: Role::Scheduler,
            name,
        },
    };
    let issued = Invitation::issue(&authority, &invited, addresses(control), unix_seconds());
    let invitation = issued.map_err(|error| Refusal::refused("cannot_invite", chain(&error)))?;
    Ok(Reply::Member(ReplyMember::Token(invitation.to_text())))
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// A number that no controller ever had: committed before anybody is told of it.
async fn next_number(caller: &Caller<'_>) -> Result<u64, Refusal> {
    let control = caller.control;
    let highest = control.wal.members().into_iter();
    let highest = highest
        .map(|state| state.member.node)
        .max()
        .unwrap_or(FOUNDER);
    let node = control.view().last_controller().max(highest) + 1;
    let group = control
        .group("invite")
        .on_behalf(caller.name(), caller.operation)
        .with(MemberFact::Numbered { node });
    control.commit(&group).await.map_err(refusal_of)?;
    Ok(node)
}

/// Redeems an invitation.
async fn join(caller: &Caller<'_>, address: &str, level: u16) -> Result<Reply, Refusal> {
    let control = caller.control;
    let not_invited = || {
        let text =
            "only the certificate of an invitation may join; `xcecli cluster invite` makes one";
        Refusal::new(RefusalKind::NotPermitted, "not_invited", text)
    };
    let invited = Invited::of_name(caller.name()).ok_or_else(not_invited)?;
    let directory = &control.settings.authority_dir;
    let authority = authority(directory, control)?;
    let identity = authority
        .issue(invited.role, &invited.name, unix_seconds())
        .map_err(|error| Refusal::refused("cannot_join", chain(&error)))?;
    let mut joined = Joined {
        name: invited.name.clone(),
        certificate: identity.pem().0.to_owned(),
        key: identity.pem().1.to_owned(),
        controllers: addresses(control),
        authority_key: String::new(),
        session_key: Vec::new(),
    };
    if invited.role == Role::Controller {
        let node = node_of(&invited.name).ok_or_else(not_invited)?;
        reads_level(control, level)?;
        let member = Member {
            node,
            address: address.to_owned(),
        };
        take_in(control, member).await?;
        let unreadable = |text: String| Refusal::refused("cannot_join", text);
        joined.authority_key =
            Authority::key_pem(directory).map_err(|error| unreadable(error.to_string()))?;
        let ring = control.settings.state_dir.join("session.key");
        joined.session_key = std::fs::read(&ring).map_err(|error| unreadable(error.to_string()))?;
    }
    tracing::info!(name = %invited.name, role = invited.role.word(), address, "joined");
    Ok(Reply::Member(ReplyMember::Joined(Box::new(joined))))
}

/// A controller that could not read what is written here is not taken in.
fn reads_level(control: &Control, supported: u16) -> Result<(), Refusal> {
    let level = control.view().level();
    if supported >= level {
        return Ok(());
    }
    let text = format!(
        "this cluster is at feature level {level}, and the controller that wants to join supports up to \
         {supported}: use a newer program there"
    );
    Err(Refusal::refused("feature_level", text))
}

/// What a backup begins with.
async fn backup(caller: &Caller<'_>) -> Result<Reply, Refusal> {
    let control = caller.control;
    let directory = control.settings.authority_dir.clone();
    let authority = authority(&directory, control)?;
    let unreadable = |text: String| Refusal::refused("no_authority", text);
    let key = Authority::key_pem(&directory).map_err(|error| unreadable(error.to_string()))?;
    let members = control.wal.members().into_iter();
    let controllers = members.map(|state| (state.member.node, state.member.address));
    tracing::info!(principal = caller.name(), "a backup is taken");
    Ok(Reply::Member(ReplyMember::Backup(Box::new(BackupHead {
        taken_ms: control.wall().0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        controllers: controllers.collect(),
        certificate: authority.certificate_pem().to_owned(),
        key,
    }))))
}

/// Takes a controller in as a learner; it gets its vote when it has caught up.
async fn take_in(control: &Arc<Control>, member: Member) -> Result<(), Refusal> {
    let port = member
        .address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(port)) if port > 0) {
        let shown = member.address.escape_debug();
        let text = format!("`{shown}` is not where others can reach a controller: host:port");
        return Err(Refusal::refused("bad_address", text));
    }
    let taken = control.wal.change_members(MemberChange::AddLearner(member));
    taken.await.map_err(refused)
}

/// The member of a number, or a refusal that names those that there are.
fn known(members: &[MemberState], node: u64) -> Result<&MemberState, Refusal> {
    let found = members.iter().find(|state| state.member.node == node);
    found.ok_or_else(|| {
        let names: Vec<String> = members
            .iter()
            .map(|state| name_of(state.member.node))
            .collect();
        let text = format!(
            "there is no controller `{}`; the cluster has {}",
            name_of(node),
            names.join(", ")
        );
        Refusal::new(RefusalKind::NotFound, "not_found", text)
    })
}

/// Whether a controller answers now.
fn is_heard(control: &Control, state: &MemberState) -> bool {
    state.member.node == control.settings.node
        || state.heard_ms.is_some_and(|ms| ms <= SILENT_AFTER_MS)
}

/// How many controllers have a vote, how many of these answer, and how many must agree.
pub fn quorum(control: &Control, without: Option<u64>) -> (usize, usize, usize) {
    let members = control.wal.members();
    let voters: Vec<&MemberState> = members
        .iter()
        .filter(|state| state.voter && Some(state.member.node) != without)
        .collect();
    let up = voters.iter().filter(|state| is_heard(control, state));
    (voters.len(), up.count(), voters.len() / 2 + 1)
}

/// Commits that a change of the members was asked for, so that a repeat of it is known.
async fn note(caller: &Caller<'_>, cause: &str) -> Result<(), Refusal> {
    let group = caller
        .control
        .group(cause)
        .on_behalf(caller.name(), caller.operation);
    caller.control.commit(&group).await.map_err(refusal_of)?;
    Ok(())
}

async fn remove(caller: &Caller<'_>, node: u64) -> Result<Reply, Refusal> {
    if let Some(reply) = caller.remembered() {
        return Ok(reply);
    }
    let control = caller.control;
    let members = control.wal.members();
    let state = known(&members, node)?;
    let name = name_of(node);
    if members.len() == 1 {
        let text = format!("controller {name} is the last one, it cannot be removed");
        return Err(Refusal::refused("last_controller", text));
    }
    if node == control.settings.node {
        let text = format!(
            "controller {name} is the primary; hand the leadership over first, with `cluster \
             transfer-leader`"
        );
        return Err(Refusal::refused("is_primary", text));
    }
    let (voters, up, needed) = quorum(control, Some(node));
    if state.voter && up < needed {
        let text = format!(
            "without {name} the cluster would have {voters} controllers with a vote, and of these only \
             {up} answer now, where {needed} must agree: bring one back first, or remove one that is \
             silent"
        );
        return Err(Refusal::refused("quorum_at_risk", text));
    }
    let removed = control.wal.change_members(MemberChange::Remove(node)).await;
    removed.map_err(refused)?;
    note(caller, "cluster remove").await?;
    tracing::info!(node, principal = caller.name(), "a controller was removed");
    Ok(accepted(caller, format!("controller {name} is out")))
}

async fn transfer(caller: &Caller<'_>, node: u64) -> Result<Reply, Refusal> {
    if let Some(reply) = caller.remembered() {
        return Ok(reply);
    }
    let control = caller.control;
    let members = control.wal.members();
    let state = known(&members, node)?;
    let name = name_of(node);
    if !state.voter {
        let text = format!("controller {name} has no vote yet: it is still catching up");
        return Err(Refusal::refused("no_vote", text));
    }
    if !is_heard(control, state) {
        let text = format!("controller {name} does not answer now");
        return Err(Refusal::new(RefusalKind::Unavailable, "silent", text));
    }
    if node != control.settings.node {
        // Afterwards this controller cannot write any more.
        note(caller, "cluster transfer-leader").await?;
    }
    control.wal.transfer(node).await.map_err(refused)?;
    Ok(accepted(caller, format!("controller {name} leads")))
}
