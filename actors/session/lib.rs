//! xce-session.
