//! What people write down: service files, and the settings of controller, worker and client.
//!
//! ```text
//!   service file ──► document (places) ──► service ──► ServiceFile, or every fault at once
//!   defaults < file < environment < flags ──► load (figment) ──► ControllerConfig, ...
//! ```
//!
//! This is the only crate that knows figment. It reads text that it is given and never a clock; the
//! only files it opens are the settings file that a daemon names. A fault names file, line, column
//! and key, and lists what is allowed.

pub mod fault;

pub mod document;
pub mod syntax;
mod tree;

pub mod policy;
pub mod schema;
pub mod service;
pub mod service_file;

pub mod changes;
pub mod forms;
pub mod home;
pub mod load;
pub mod logging;
pub mod option;
pub mod reference;

pub mod client;
pub mod compatibility;
pub mod controller;
pub mod scheduler;
pub mod worker;

pub use client::ClientConfig;
pub use controller::ControllerConfig;
pub use document::Document;
pub use fault::{Fault, Faults};
pub use home::Home;
pub use load::{Sources, load, load_text};
pub use scheduler::SchedulerConfig;
pub use syntax::Format;
pub use worker::WorkerConfig;
pub use xce_profile::closest;
pub use xce_profile::defaults;

#[cfg(test)]
mod tests;
