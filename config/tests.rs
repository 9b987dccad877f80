//! Tests of the texts that people write.

mod bad_files;
mod daemons;
mod defaults;
