//! Tests of the command line; those with sockets talk to a controller of their own on loopback.

mod arguments;
mod fake;
mod printing;
mod rollouts;
mod submitting;
mod talking;
mod updating;
mod views;
mod waiting;
