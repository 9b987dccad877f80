//! One peer of the cluster: what it may ask, and what it is told.
//!
//! A session outlives its connection: it is resumed by a token that any controller can check, and
//! it is fenced when a newer incarnation of its peer appears.

pub mod config_wire;
pub mod endpoints_wire;
pub mod feed_wire;
pub mod history;
pub mod journal_wire;
pub mod kinds;
pub mod member_wire;
pub mod operator_wire;
pub mod peer_wire;
pub mod plan;
pub mod policy_wire;
pub mod wire;
pub mod worker_wire;
