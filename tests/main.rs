//! All integration tests.

mod cluster;
mod tidy;
