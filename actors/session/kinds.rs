//! Numbers of the message kinds on the wire, in one place.

use crate::wire::{Changes, Reply, Request};
use crate::worker_wire::{FromWorker, ToWorker};

xce_link::messages! {
    Request = 16 v 1;
    Reply = 17 v 1;
    Changes = 18 v 1;
    FromWorker = 32 v 1;
    ToWorker = 33 v 1;
}
