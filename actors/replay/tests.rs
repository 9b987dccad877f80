//! Histories that are decided by the same functions as in the controller, and replayed.

mod files;
mod histories;
mod world;
