//! The controller's half.
