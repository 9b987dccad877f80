//! Everything that knows the consensus library. Nothing outside this folder names it.

mod encoding;
mod machine;
mod network;
mod node;
mod storage;
mod types;

#[cfg(test)]
mod tests;

pub(crate) use machine::{Applied, StateMachine, Waiters};
pub(crate) use node::{ProposeError, RaftNode};
pub(crate) use storage::LogStore;
pub(crate) use types::Groups;
