//! All integration tests.

mod cluster;
mod compat;
mod tidy;
