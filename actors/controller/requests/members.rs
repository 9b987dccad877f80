//! The controllers of the cluster: who they are, who joins, who leaves, who leads.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xce_ledger::{FOUNDER, MemberFact};
use xce_link::{Authority, AuthorityError, Invitation, Invited, Role};
use xce_model::{Refusal, RefusalKind};
use xce_runtime::Task;
use xce_session::member_wire::{AskMember, Invite, Joined, MemberView, ReplyMember};
use xce_session::wire::{Accepted, Reply};
use xce_wal::{Member, MemberChange, MemberState, MembershipError};

use super::{Caller, refusal_of};
use crate::control::Control;
use crate::peers::{name_of, node_of};

/// Pause between two looks at a learner that catches up. Source: chosen; a snapshot takes seconds.
const LEARNER_PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn answer(caller: &Caller<'_>, ask: AskMember) -> Result<Reply, Refusal> {
    match ask {
        AskMember::List => Ok(Reply::Member(ReplyMember::List(views(caller.control)))),
        AskMember::Invite(invite) => self::invite(caller, invite).await,
        AskMember::Join { address } => join(caller, &address).await,
        AskMember::Remove(node) => remove(caller, node).await,
        AskMember::Transfer(node) => {
            let moved = caller.control.wal.transfer(node).await;
            moved.map_err(refused)?;
            Ok(accepted(
                caller,
                format!("controller {} leads", name_of(node)),
            ))
        }
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
            MemberView {
                name: name_of(state.member.node),
                node: state.member.node,
                address: state.member.address,
                role: role.to_owned(),
                lsn: state.matched,
                behind: last.zip(state.matched).map(|(last, at)| last - at),
                heard_ms: state.heard_ms.filter(|_| state.member.node != own),
            }
        })
        .collect()
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
async fn join(caller: &Caller<'_>, address: &str) -> Result<Reply, Refusal> {
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
    let node = member.node;
    let taken = control.wal.change_members(MemberChange::AddLearner(member));
    taken.await.map_err(refused)?;
    promote_later(control, node);
    Ok(())
}

/// Gives learners their vote as soon as they have caught up; also those of an earlier reign.
pub fn promote_learners(control: &Arc<Control>) {
    for state in control.wal.members() {
        if !state.voter {
            promote_later(control, state.member.node);
        }
    }
}

fn promote_later(control: &Arc<Control>, node: u64) {
    let control = Arc::clone(control);
    Task::spawn(async move {
        loop {
            let members = control.wal.members();
            let of = |wanted: u64| members.iter().find(|state| state.member.node == wanted);
            let leads = control.wal.role().borrow().primary_term().is_some();
            let Some(learner) = of(node).filter(|state| leads && !state.voter) else {
                return;
            };
            if has_caught_up(learner, of(control.settings.node)) {
                match control
                    .wal
                    .change_members(MemberChange::Promote(node))
                    .await
                {
                    Ok(()) => {
                        tracing::info!(node, "a controller got its vote");
                        return;
                    }
                    Err(MembershipError::NotPrimary { .. }) => return,
                    Err(error) => tracing::info!(node, %error, "no vote yet"),
                }
            }
            tokio::time::sleep(LEARNER_PAUSE).await;
        }
    })
    .detach();
}

fn has_caught_up(learner: &MemberState, own: Option<&MemberState>) -> bool {
    let last = own.and_then(|own| own.matched).unwrap_or(u64::MAX);
    learner
        .matched
        .is_some_and(|at| at > 0 && last.saturating_sub(at) < 100)
}

async fn remove(caller: &Caller<'_>, node: u64) -> Result<Reply, Refusal> {
    let control = caller.control;
    if node == control.settings.node && control.wal.members().len() > 1 {
        let text = format!(
            "controller {} is the primary; hand the leadership over first, with `cluster transfer`",
            name_of(node)
        );
        return Err(Refusal::refused("is_primary", text));
    }
    let removed = control.wal.change_members(MemberChange::Remove(node)).await;
    removed.map_err(refused)?;
    Ok(accepted(
        caller,
        format!("controller {} is out", name_of(node)),
    ))
}
