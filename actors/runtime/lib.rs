//! xce-runtime.
