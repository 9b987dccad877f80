//! Tests of the ledger; every step of every history is audited.

mod builders;

mod arrays;
mod clock;
mod events;
mod feeds;
mod golden;
mod groups;
mod histories;
mod operations;
mod ranges;
mod sample_rows;
mod samples;
mod snapshots;
