//! Tests of the whole crate.

mod book;
mod wal;
