//! Tables, scenarios and properties of a service's rules.

mod cases;
mod draining;
mod endpoints;
mod making;
mod origins;
mod properties;
mod replacing;
mod restarting;
mod returning;
mod rollouts;
mod scaling;
mod shown;
mod steps;
mod tables;
mod victims;
mod world;
