//! xce-replica.
