//! Scenarios of services, placement and hosts together, on a ledger in memory.

mod blame;
mod fencing;
mod losing;
