//! A simulated cluster: the real rules of controller and worker on one thread, in virtual time, from
//! one seed.
//!
//! ```text
//!   commands ─► controller: actors that decide ─► log ─► ledger ─► publisher ─┐
//!                  ▲   one write in flight each   (groups under preconditions) │
//!                  │                                                          ▼ look
//!               links: beats, facts, orders; delayed, cut                    actors
//!                  │
//!                  ▼
//!   machines: worker (run rules, probes, spool) ─► fake shims and processes by behaviour
//! ```
//!
//! Real: ledger with preconditions in log order and several groups an entry, rules of services, jobs
//! and hosts, plans of the scheduler, rules of a run with its restarts and probes, queue of the
//! spool. Made anew for this: the shells, in the same order (decide, commit, act), since theirs wait.
//! Fake: processes, network, disks.
//!
//! Faults: any actor dies with its mailbox and its timer; the controller dies and starts from
//! snapshot and log; workers die and start again; hosts lose power; the network is cut or slow.
//!
//! Several controllers (`seats`, `consensus`, `clients`, `control_plane`): the same actors, entered per
//! controller, above a small Raft, disks that lose and rot, clocks that jump, a network that loses,
//! repeats and cuts; clients that ask again until they know, and whose answers must be linearizable.
//!
//! `XCE_SEED=7` runs one history and tells its story; `XCE_HISTORIES=100000` runs so many;
//! `cargo x sim --seeds 1..5000` runs those of several controllers.

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod consensus;
#[cfg(test)]
mod control_plane;
#[cfg(test)]
mod controller;
#[cfg(test)]
mod converged;
#[cfg(test)]
mod deciding;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod log;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod network;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod seats;
#[cfg(test)]
mod specs;
#[cfg(test)]
mod users;
#[cfg(test)]
mod world;
