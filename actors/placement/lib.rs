//! xce-placement.
