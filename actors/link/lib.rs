//! xce-link.
