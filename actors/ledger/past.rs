//! Bodies of earlier versions, frozen, and how each becomes the body of now.
//!
//! One never changes: what is stored in its form stays readable for ever. A body that changes leaves
//! its last form here, with a `From`, and is read by way of it.

use xce_model::Lsn;

use crate::clock::ClusterClock;
use crate::encode::MEMBER_FACT;
use crate::envelope::{Past, Shape};
use crate::members::MemberFact;
use crate::rows::{CountsV1, MetaV2};
use crate::snapshot::META;

pub(crate) const MEMBER_FACT_V1: Shape = Shape {
    version: 1,
    min_reader: 1,
    fingerprint: 0x540f_a616,
    ..MEMBER_FACT
};
pub(crate) const META_V1: Shape = Shape {
    version: 1,
    min_reader: 1,
    fingerprint: 0x283e_2b24,
    ..META
};

/// Earlier forms of facts of controllers.
pub(crate) const MEMBER_FACTS: &[Past<MemberFact>] = &[Past::of::<MemberFactV1>(MEMBER_FACT_V1)];
/// Earlier forms of the head of a snapshot.
pub(crate) const METAS: &[Past<MetaV2>] = &[Past::of::<MetaV1>(META_V1)];

/// What was known of the controllers before there were epochs and levels.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) enum MemberFactV1 {
    /// As [`MemberFact::Numbered`].
    Numbered {
        /// The number.
        node: u64,
    },
}

impl From<MemberFactV1> for MemberFact {
    fn from(fact: MemberFactV1) -> Self {
        match fact {
            MemberFactV1::Numbered { node } => Self::Numbered { node },
        }
    }
}

impl MemberFactV1 {
    /// The same in this form, where it can say it.
    pub fn of(fact: &MemberFact) -> Option<Self> {
        match fact {
            MemberFact::Numbered { node } => Some(Self::Numbered { node: *node }),
            MemberFact::BeganAnew { .. } | MemberFact::LevelRaised { .. } => None,
        }
    }
}

/// The head of a snapshot before there were epochs and levels.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct MetaV1 {
    pub lsn: Lsn,
    pub term: u64,
    pub clock: ClusterClock,
    pub last_job: u64,
    pub last_service: u64,
    pub last_session: u64,
    pub last_controller: u64,
    pub ignored: u64,
    pub operations_floor: Lsn,
    pub operation_floors: Vec<(String, Lsn)>,
    pub counts: CountsV1,
    pub floors: CountsV1,
}

impl From<MetaV1> for MetaV2 {
    fn from(row: MetaV1) -> Self {
        Self {
            lsn: row.lsn,
            term: row.term,
            clock: row.clock,
            last_job: row.last_job,
            last_service: row.last_service,
            last_session: row.last_session,
            last_controller: row.last_controller,
            ignored: row.ignored,
            operations_floor: row.operations_floor,
            operation_floors: row.operation_floors,
            counts: row.counts,
            floors: row.floors,
            level: 0,
            epochs: Vec::new(),
        }
    }
}

impl MetaV1 {
    /// The same in this form; epochs and a higher level are above it.
    pub fn of(row: MetaV2) -> Self {
        debug_assert!(row.epochs.is_empty(), "epochs come with a higher level");
        Self {
            lsn: row.lsn,
            term: row.term,
            clock: row.clock,
            last_job: row.last_job,
            last_service: row.last_service,
            last_session: row.last_session,
            last_controller: row.last_controller,
            ignored: row.ignored,
            operations_floor: row.operations_floor,
            operation_floors: row.operation_floors,
            counts: row.counts,
            floors: row.floors,
        }
    }
}
