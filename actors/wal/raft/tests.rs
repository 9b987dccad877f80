//! Tests of the consensus adapter.
