//! Everything that knows the consensus library. Nothing outside this folder names it.

mod alone;
mod answering;
mod comparing;
mod encoding;
mod fields;
mod greeting;
mod machine;
mod membership;
mod message;
mod network;
mod node;
mod promoting;
mod rejoin;
mod storage;
mod types;

#[cfg(test)]
mod tests;

pub(crate) use alone::{alone, voters_in, voters_of};
pub(crate) use greeting::{Origin, Unfit};
pub(crate) use machine::{Applied, StateMachine, Waiters};
pub(crate) use message::{PeerAnswer, PeerRequest, SnapshotName};
pub(crate) use node::{Begin, ProposeError, RaftNode};
pub(crate) use storage::{LogStore, LogView};
pub(crate) use types::Groups;
