//! The worker's half.
