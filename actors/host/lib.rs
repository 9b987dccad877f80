//! xce-host.
