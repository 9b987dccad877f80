//! Tests of this crate; those that need sockets stay on the loopback address.

mod frames;
mod hello;
mod hostile;
mod identity;
mod quic;
mod strangers;
mod tokens;
