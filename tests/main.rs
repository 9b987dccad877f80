//! All integration tests.

mod tidy;
