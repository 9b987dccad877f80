//! Where the other controllers come in: what they say goes to consensus, whoever leads.

use std::sync::Arc;

use xce_link::{
    CloseCode, Connected, HelloAnswer, HelloCode, HelloRefusal, Message as _, Peer, Welcome,
};
use xce_model::SessionId;
use xce_session::peer_wire::{PeerAbout, PeerAsk, PeerCall, PeerReply};

use xce_ledger::Epoch;

use crate::peers::node_of;
use crate::reign::House;

/// A controller may come in while it belongs to the cluster, as far as this one knows.
///
/// # Errors
/// One that was taken out, or whose certificate names no controller.
pub fn admit(house: &House, peer: &Peer) -> Result<(), HelloRefusal> {
    let name = &peer.principal().name;
    let refused = |text: String| Err(HelloRefusal::new(HelloCode::NotPermitted, text));
    let Some(node) = node_of(name) else {
        return refused(format!(
            "`{name}` is not the name of a controller, such as c2"
        ));
    };
    let view = house.reader.view();
    let ended = |epoch: &&Epoch| epoch.has_ended_controller(node);
    if let Some(epoch) = view.epochs().iter().rev().find(ended) {
        let text = format!(
            "controller {name} belongs to the time before epoch {}, in which this cluster began anew \
             ({}): its state can never be used again. Move it aside, and join with a new token of \
             `xcecli cluster add`",
            epoch.number,
            epoch.anew.word()
        );
        return Err(HelloRefusal::new(HelloCode::Fenced, text));
    }
    let members = house.wal.members();
    let known = members.iter().any(|state| state.member.node == node);
    // One that knows nobody yet waits for whoever takes it in.
    if known || members.is_empty() {
        return Ok(());
    }
    refused(format!(
        "controller {name} does not belong to this cluster any more"
    ))
}

/// Gives requests to consensus in the order in which they come; each lane has a connection of its
/// own, so that none waits behind another.
pub async fn serve(house: &Arc<House>, connected: Connected, request: u64, version: u16) {
    let Connected { peer, mut inbox } = connected;
    let welcome = Welcome {
        version,
        session: SessionId(0),
        epoch: 0,
        token: Vec::new(),
        term: house.wal.status().term,
        lsn: house.reader.lsn(),
        resumed: false,
        spread_ms: 0,
    };
    if peer.reply(request, &HelloAnswer::Welcome(welcome)).is_err() {
        return;
    }
    while let Ok(frame) = inbox.receive().await {
        let number = frame.route().request;
        if frame.kind() == PeerAsk::KIND {
            if peer.reply(number, &about(house)).is_err() {
                return;
            }
            continue;
        }
        let call: PeerCall = match frame.decode() {
            Ok(call) => call,
            Err(error) => {
                tracing::info!(peer = %peer.principal(), %error, kind = PeerCall::KIND, "protocol error");
                peer.close(CloseCode::Protocol, &error.to_string());
                return;
            }
        };
        let bytes = house.wal.answer(&call.bytes).await;
        if peer.reply(number, &PeerReply { bytes }).is_err() {
            return;
        }
    }
}

/// What this controller is.
fn about(house: &House) -> PeerAbout {
    PeerAbout {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        level: house.settings.level_max,
        certificate_ends_s: house.certificate_ends_s,
        epoch: house.reader.view().epoch(),
    }
}
