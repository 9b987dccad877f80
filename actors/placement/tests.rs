//! Tables of placement rules and reasons, and properties of plans.

mod world;

mod properties;
mod reasons;
mod rules;
mod spread;
