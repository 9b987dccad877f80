//! Planning: what would become of a change of a service, without making it.
//!
//! ```text
//!  View (a copy) ──► the change, decided by the real rules ──► imagined facts ─┐
//!    ▲                                                                         │
//!    └── virtual time ◄── next event of obedient workers, or wake of the rules ┘
//!                         (rules and placement are the real ones)
//! ```
//!
//! Pure and bounded: the same view, question and time give the same plan, and nothing is written.
//! What is imagined of workers: a placed replica starts, becomes ready and stops in the time that
//! its version was measured to need, or an earlier version of the service, or else in the time that
//! its probes suggest. Other services and jobs stand still; those that wait are placed as the
//! placement would. Hosts stay as they are.
//!
//! The run ends where the service is as wanted; where nothing would happen any more, or the rollout
//! is stuck, with the reason; or at a bound, which is named, and the rest is extrapolated.

mod bounds;
mod imagined;
mod outcome;
mod question;
mod tally;
mod times;
mod workers;

#[cfg(test)]
mod tests;

pub use bounds::Bounds;
pub use question::{Question, Wanted, plan};
