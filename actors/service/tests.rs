//! Tables, scenarios and properties of a service's rules.

mod properties;
mod replacing;
mod returning;
mod rollouts;
mod scaling;
mod shown;
mod steps;
mod tables;
mod victims;
mod world;
