//! xce-daemons.
