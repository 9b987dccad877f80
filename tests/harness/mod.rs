//! Parts of the harness.

pub mod binaries;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod groups;
pub mod load;
pub mod net;
pub mod network;
pub mod patience;
pub mod processes;
pub mod programs;
pub mod three;
pub mod watch;
