//! Tests of the texts that people write.

mod bad_files;
mod daemons;
mod defaults;
mod examples;
mod formats;
mod forms;
mod policies;
mod schema;
mod service;
mod validator;
