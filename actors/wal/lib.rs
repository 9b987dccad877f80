//! xce-wal.
