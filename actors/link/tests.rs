//! Tests of this crate; those that need sockets stay on the loopback address.

mod quic;
