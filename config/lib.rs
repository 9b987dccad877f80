//! xce-config.
