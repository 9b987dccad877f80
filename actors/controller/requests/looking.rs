//! A look at what one controller has applied, whoever leads: reads of one position, and nothing else.
//!
//! It is for times without a primary, and for readers that can do with a state that may be behind.

use std::sync::Arc;
use std::time::Instant;

use xce_host::HostLife;
use xce_ledger::View;
use xce_link::{Connected, HelloAnswer, Message as _, Principal, Welcome};
use xce_model::{Millis, Refusal, RefusalKind, SessionId, WallTime};
use xce_runtime::{Clock, RealClock};
use xce_session::wire::{Ask, AskCluster, ClusterView, Reply, Request};

use super::{hosts, jobs, may_ask, needs_primary, services};
use crate::reign::House;
use crate::views::{Seer, Times};

/// Answers reads of the position at which it was begun, which the welcome names.
pub async fn serve(house: &House, connected: Connected, request: u64, version: u16) {
    let Connected { peer, mut inbox } = connected;
    let view = house.reader.view();
    // When the position was published here, as nearly as is known.
    let published = Instant::now().checked_sub(house.touched.heard_ago());
    let published = published.unwrap_or_else(Instant::now);
    let welcome = Welcome {
        version,
        session: SessionId(0),
        epoch: 0,
        token: Vec::new(),
        term: view.term(),
        lsn: view.lsn(),
        resumed: false,
        spread_ms: 0,
    };
    if peer.reply(request, &HelloAnswer::Welcome(welcome)).is_err() {
        return;
    }
    while let Ok(frame) = inbox.receive().await {
        let number = frame.route().request;
        if frame.kind() != Request::KIND {
            let text = "a look takes requests only";
            peer.close(xce_link::CloseCode::Protocol, text);
            return;
        }
        let answered = match frame.decode::<Request>() {
            Ok(asked) => answer(house, &view, published, peer.principal(), &asked),
            Err(error) => Err(Refusal::new(
                RefusalKind::Usage,
                "malformed_request",
                error.to_string(),
            )),
        };
        let sent = match answered {
            Ok(reply) => peer.reply(number, &reply),
            Err(refusal) => peer.refuse(number, &refusal),
        };
        if let Err(error) = sent {
            // An answer that does not fit is refused in words; a peer that is gone hears nothing.
            drop(peer.refuse(number, &error.refusal()));
        }
    }
}

fn answer(
    house: &House,
    view: &Arc<View>,
    published: Instant,
    principal: &Principal,
    asked: &Request,
) -> Result<Reply, Refusal> {
    may_ask(principal, &asked.ask)?;
    if asked.at_least > view.lsn() {
        let text = format!(
            "this controller is at position {}, not yet at {}",
            view.lsn(),
            asked.at_least
        );
        return Err(Refusal::new(RefusalKind::Unavailable, "behind", text));
    }
    // Cluster time goes on from the last that was heard of it.
    let ago = u64::try_from(published.elapsed().as_millis()).unwrap_or(u64::MAX);
    let wall = i64::try_from(RealClock.wall_ms()).unwrap_or(i64::MAX);
    let times: Times = (view.clock().last.after(Millis(ago)), WallTime(wall));
    match &asked.ask {
        Ask::Service(ask) => services::read(view, &Seer::new(view, times), ask),
        Ask::Job(ask) => jobs::read(view, &Seer::new(view, times), ask),
        Ask::Host(ask) => hosts::read(view, times, None, ask),
        Ask::Cluster(AskCluster::Status) => {
            Ok(Reply::Cluster(Box::new(status(house, view, times))))
        }
        Ask::Cluster(_) | Ask::Actor(_) | Ask::Plan(_) | Ask::Policy(_) | Ask::Member(_) => {
            Err(needs_primary())
        }
    }
}

/// What one controller knows of the cluster by itself.
fn status(house: &House, view: &View, times: Times) -> ClusterView {
    let wal = house.wal.status();
    let up = |host: &&Arc<xce_host::HostRecord>| host.life == HostLife::Up;
    let short = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let live = view.jobs().values().filter(|job| !job.state.is_terminal());
    let waiting = view.arrays().values().map(|array| array.pending.count());
    let role = if house.control().is_some() {
        "primary"
    } else {
        "standby"
    };
    let mut alarms: Vec<String> = wal.alarm.iter().cloned().collect();
    if house.control().is_none() && house.primary().is_none() {
        alarms.push(house.not_primary().text);
    }
    ClusterView {
        cluster: house.settings.cluster.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: role.to_owned(),
        term: wal.term,
        lsn: view.lsn(),
        time_ms: times.0.0,
        services: view.services().len() as u64,
        jobs: live.count() as u64 + waiting.sum::<u64>(),
        pending: view.pending().values().map(|jobs| jobs.len() as u64).sum(),
        hosts_up: short(view.hosts().values().filter(up).count()),
        hosts: short(view.hosts().len()),
        pid: std::process::id(),
        alarms,
        primary: house.primary().unwrap_or_default(),
        epoch: view.epoch(),
        level: view.level(),
        level_max: house.settings.level_max,
        ..ClusterView::default()
    }
}
