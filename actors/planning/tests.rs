//! Tests.

mod bounded;
mod changes;
mod traces;
mod world;
