//! Numbers of the message kinds on the wire, in one place.

use crate::endpoints_wire::{EndpointsPush, EndpointsUsed};
use crate::feed_wire::{FromReader, ToReader};
use crate::peer_wire::{PeerAbout, PeerAsk, PeerCall, PeerReply};
use crate::wire::{Changes, Reply, Request};
use crate::worker_wire::{FromWorker, ToWorker};

xce_link::messages! {
    Request = 16 v 1;
    Reply = 17 v 1;
    Changes = 18 v 1;
    EndpointsPush = 19 v 1;
    EndpointsUsed = 20 v 1;
    FromReader = 24 v 1;
    ToReader = 25 v 1;
    FromWorker = 32 v 1;
    ToWorker = 33 v 1;
    PeerCall = 48 v 1;
    PeerReply = 49 v 1;
    PeerAsk = 50 v 1;
    PeerAbout = 51 v 1;
}
