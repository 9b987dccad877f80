//! xce-tests.
