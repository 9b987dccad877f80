//! Tables, scenarios and properties of a service's rules.

mod properties;
mod replacing;
mod rollouts;
mod scaling;
mod shown;
mod steps;
mod tables;
mod world;
