//! The worker with real shims, real jobs and a controller of our own over real QUIC.

// The helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod adoption;
mod controller;
mod disk;
mod jobs;
mod kinds;
mod probes;
mod stopping;
mod turns;
mod world;
