//! Bytes of a group: its head, the event that it was decided on, then its facts, each in an envelope
//! of its own.
//!
//! A changed body is a new version with a conversion from the old one, which stays readable. The
//! fingerprints are pinned: a test compares them with the archives of samples, and the bytes of
//! whole groups with the files in `golden/`.

use xce_host::HostFact;
use xce_model::{ClusterTime, Lsn, WallTime};
use xce_replica::JobFact;
use xce_service::ServiceFact;

use crate::clock::ClockFact;
use crate::envelope::{self, DecodeError, Raw, Shape};
use crate::event::GroupEvent;
use crate::fact::Fact;
use crate::group::{Group, Operation, Precondition};
use crate::level::{AboveLevel, LEVEL_MAX, LEVEL_OF_EPOCHS};
use crate::past::{self, MEMBER_FACT_V1, MemberFactV1};
use crate::policies::PolicyFact;
use crate::sessions::SessionFact;

/// Most facts of one group. Source: derived, every element of the largest array and as many replicas.
pub const GROUP_FACTS_MAX: u32 = 200_000;

pub(crate) const HEAD: Shape = Shape {
    kind: 1,
    name: "group head",
    version: 1,
    min_reader: 1,
    fingerprint: 0x9efc_e910,
};
pub(crate) const EVENT: Shape = Shape {
    kind: 2,
    name: "group event",
    version: 1,
    min_reader: 1,
    fingerprint: 0xa0f0_0e31,
};
pub(crate) const JOB_FACT: Shape = Shape {
    kind: 16,
    name: "job fact",
    version: 1,
    min_reader: 1,
    fingerprint: 0x5cd5_23d9,
};
pub(crate) const HOST_FACT: Shape = Shape {
    kind: 17,
    name: "host fact",
    version: 1,
    min_reader: 1,
    fingerprint: 0x272a_1251,
};
pub(crate) const SERVICE_FACT: Shape = Shape {
    kind: 18,
    name: "service fact",
    version: 1,
    min_reader: 1,
    fingerprint: 0x4eef_2d31,
};
pub(crate) const SESSION_FACT: Shape = Shape {
    kind: 19,
    name: "session fact",
    version: 1,
    min_reader: 1,
    fingerprint: 0x161f_937c,
};
pub(crate) const CLOCK_FACT: Shape = Shape {
    kind: 20,
    name: "clock fact",
    version: 1,
    min_reader: 1,
    fingerprint: 0xc4fa_fb27,
};

pub(crate) const POLICY_FACT: Shape = Shape {
    kind: 21,
    name: "policy fact",
    version: 1,
    min_reader: 1,
    fingerprint: 0xf12e_9405,
};

pub(crate) const MEMBER_FACT: Shape = Shape {
    kind: 22,
    name: "member fact",
    version: 2,
    min_reader: 2,
    fingerprint: 0x44e2_9084,
};

/// A group without its facts, as written.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct HeadV1 {
    pub at: ClusterTime,
    pub wall: WallTime,
    pub principal: String,
    pub operation: Option<Operation>,
    pub cause: String,
    pub preconditions: Vec<Precondition>,
    pub facts: u32,
    pub rules: u16,
    /// Whether its event follows.
    pub event: bool,
    pub decided: Lsn,
}

impl Group {
    /// The bytes that the WAL carries, in the newest form.
    ///
    /// # Panics
    /// When the group has more than [`GROUP_FACTS_MAX`] facts: deciders work in bounded batches.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_at(LEVEL_MAX)
            .expect("whatever there is can be said at the highest level")
    }

    /// The bytes that the WAL carries, in a form that every program of a feature level reads.
    ///
    /// # Errors
    /// A fact cannot be said at the level.
    ///
    /// # Panics
    /// As [`Group::encode`].
    pub fn encode_at(&self, level: u16) -> Result<Vec<u8>, AboveLevel> {
        let facts = u32::try_from(self.facts.len()).unwrap_or(u32::MAX);
        assert!(
            facts <= GROUP_FACTS_MAX,
            "a group has at most {GROUP_FACTS_MAX} facts"
        );
        let head = HeadV1 {
            at: self.at,
            wall: self.wall,
            principal: self.principal.clone(),
            operation: self.operation,
            cause: self.cause.clone(),
            preconditions: self.preconditions.clone(),
            facts,
            rules: self.rules,
            event: self.event.is_some(),
            decided: self.decided,
        };
        let mut out = Vec::with_capacity(256 + 128 * self.facts.len());
        envelope::put(&mut out, &HEAD, &head);
        if let Some(event) = &self.event {
            envelope::put(&mut out, &EVENT, event);
        }
        for fact in &self.facts {
            match fact {
                Fact::Job(fact) => envelope::put(&mut out, &JOB_FACT, fact),
                Fact::Host(fact) => envelope::put(&mut out, &HOST_FACT, fact),
                Fact::Service(fact) => envelope::put(&mut out, &SERVICE_FACT, fact),
                Fact::Session(fact) => envelope::put(&mut out, &SESSION_FACT, fact),
                Fact::Clock(fact) => envelope::put(&mut out, &CLOCK_FACT, fact),
                Fact::Policy(fact) => envelope::put(&mut out, &POLICY_FACT, fact),
                Fact::Member(fact) if level >= LEVEL_OF_EPOCHS => {
                    envelope::put(&mut out, &MEMBER_FACT, fact);
                }
                Fact::Member(fact) => {
                    let what = "a beginning anew, or a level,";
                    let old = MemberFactV1::of(fact).ok_or(AboveLevel { what, level })?;
                    envelope::put(&mut out, &MEMBER_FACT_V1, &old);
                }
            }
        }
        Ok(out)
    }

    /// Reads what [`Group::encode`] wrote.
    ///
    /// # Errors
    /// Names the first record that is short, damaged, unknown or of a newer version.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let raw = envelope::take(&mut bytes)?;
        if raw.kind != HEAD.kind {
            return Err(DecodeError::Misplaced {
                found: format!("record kind {}", raw.kind),
                wanted: HEAD.name,
            });
        }
        let head: HeadV1 = raw.read(&HEAD)?;
        if head.facts > GROUP_FACTS_MAX {
            return Err(DecodeError::Damaged {
                name: HEAD.name,
                detail: format!("it announces {} facts", head.facts),
            });
        }
        let event = if head.event {
            Some(read_event(&envelope::take(&mut bytes)?)?)
        } else {
            None
        };
        // A fact takes at least an envelope, so that a false count reserves nothing.
        let mut facts =
            Vec::with_capacity((bytes.len() / envelope::ENVELOPE_BYTES).min(head.facts as usize));
        for _ in 0..head.facts {
            facts.push(read_fact(&envelope::take(&mut bytes)?)?);
        }
        if !bytes.is_empty() {
            return Err(DecodeError::Damaged {
                name: HEAD.name,
                detail: format!("{} bytes follow its last fact", bytes.len()),
            });
        }
        Ok(Self {
            at: head.at,
            wall: head.wall,
            principal: head.principal,
            operation: head.operation,
            cause: head.cause,
            rules: head.rules,
            decided: head.decided,
            event,
            preconditions: head.preconditions,
            facts,
        })
    }
}

fn read_event(raw: &Raw<'_>) -> Result<GroupEvent, DecodeError> {
    if raw.kind == EVENT.kind {
        return raw.read(&EVENT);
    }
    Err(DecodeError::Misplaced {
        found: format!("record kind {}", raw.kind),
        wanted: EVENT.name,
    })
}

fn read_fact(raw: &Raw<'_>) -> Result<Fact, DecodeError> {
    match raw.kind {
        kind if kind == JOB_FACT.kind => raw.read::<JobFact>(&JOB_FACT).map(Fact::Job),
        kind if kind == HOST_FACT.kind => raw.read::<HostFact>(&HOST_FACT).map(Fact::Host),
        kind if kind == SERVICE_FACT.kind => {
            raw.read::<ServiceFact>(&SERVICE_FACT).map(Fact::Service)
        }
        kind if kind == SESSION_FACT.kind => {
            raw.read::<SessionFact>(&SESSION_FACT).map(Fact::Session)
        }
        kind if kind == CLOCK_FACT.kind => raw.read::<ClockFact>(&CLOCK_FACT).map(Fact::Clock),
        kind if kind == MEMBER_FACT.kind => raw
            .read_any(&MEMBER_FACT, past::MEMBER_FACTS)
            .map(Fact::Member),
        kind if kind == POLICY_FACT.kind => raw.read::<PolicyFact>(&POLICY_FACT).map(Fact::Policy),
        _ => Err(raw.unknown()),
    }
}
