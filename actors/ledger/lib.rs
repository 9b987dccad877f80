//! xce-ledger.
