//! What is remembered of the controllers besides the log's own membership.

/// A committed change of the controllers.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum MemberFact {
    /// A number was given to a controller that is invited; it is never given again.
    Numbered {
        /// The number.
        node: u64,
    },
}

/// Number of the controller that founds a cluster.
pub const FOUNDER: u64 = 1;
