//! Tables, scenarios and properties of a service's rules.

mod properties;
mod replacing;
mod rollouts;
mod scaling;
mod shown;
mod tables;
mod world;
