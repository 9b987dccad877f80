//! xce-service.
