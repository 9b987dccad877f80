//! Changes as bytes: the rows of snapshots, in the form of the cluster's feature level, each
//! specification once for each connection before the first row that uses it.
//!
//! ```text
//!   { specification }* row | gone | forget     (forget: numbers of specifications begin again at 0)
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xce_host::HostRecord;
use xce_model::spec::JobSpec;
use xce_model::{JobId, Lsn, ServiceId, SessionId};
use xce_profile::PolicyKind;

use super::Change;
use crate::arrays::ElementCounts;
use crate::envelope::{self, DecodeError, Raw, Shape};
use crate::intern::Specs;
use crate::policies::PolicyRecord;
use crate::rows::{ArrayV1, JobV1, ServiceV1, SpecNumber, SpecV1};
use crate::sessions::SessionRecord;
use crate::snapshot::{ARRAY, HOST, JOB, POLICY, SERVICE, SESSION, SPEC};
use crate::view::Key;

pub(crate) const GONE: Shape = shape(80, "end of an object", 0xa777_081b);
pub(crate) const FORGET: Shape = shape(81, "end of specifications", 0x6546_e888);

/// A kind in its first version.
const fn shape(kind: u16, name: &'static str, fingerprint: u32) -> Shape {
    Shape {
        kind,
        name,
        version: 1,
        min_reader: 1,
        fingerprint,
    }
}

/// Specifications that a writer and its reader remember. Source: derived; the shapes of a busy hour,
/// and some 3 MiB on the writer's side.
const SPECS_MAX: usize = 4096;
/// Specifications of one row beyond these are damage. Source: derived; far more than the versions that
/// a service keeps.
const SPECS_OF_A_ROW_MAX: usize = 1024;

/// An object that is gone.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct GoneV1 {
    pub lsn: Lsn,
    pub key: GoneKeyV1,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) enum GoneKeyV1 {
    Job(JobId),
    Array(u64),
    Host(String),
    Service(u64),
    Session(u64),
    Policy(PolicyKind, String),
}

/// How many specifications are forgotten.
#[derive(Debug, Clone, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub(crate) struct ForgetV1 {
    pub count: u32,
}

impl GoneKeyV1 {
    fn of(key: &Key) -> Self {
        match key {
            Key::Job(id) => Self::Job(*id),
            Key::Array(number) => Self::Array(*number),
            Key::Host(name) => Self::Host(name.to_string()),
            Key::Service(id) => Self::Service(id.0),
            Key::Session(id) => Self::Session(id.0),
            Key::Policy(kind, name) => Self::Policy(*kind, name.to_string()),
        }
    }

    fn into_key(self) -> Key {
        match self {
            Self::Job(id) => Key::Job(id),
            Self::Array(number) => Key::Array(number),
            Self::Host(name) => Key::Host(Arc::from(name)),
            Self::Service(id) => Key::Service(ServiceId(id)),
            Self::Session(id) => Key::Session(SessionId(id)),
            Self::Policy(kind, name) => Key::Policy(kind, Arc::from(name)),
        }
    }
}

/// Writes the changes of one connection.
#[derive(Debug, Default)]
pub struct RowWriter {
    /// By address, which is not given to another one while the weak pointer is held.
    numbers: HashMap<usize, (SpecNumber, Weak<JobSpec>)>,
}

impl RowWriter {
    /// One for a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a change.
    pub fn put(&mut self, out: &mut Vec<u8>, change: &Change) {
        if self.numbers.len() >= SPECS_MAX {
            let count = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            envelope::put(out, &FORGET, &ForgetV1 { count });
            self.numbers.clear();
        }
        match change {
            Change::Job(record) => {
                let number = self.number(out, &record.spec);
                envelope::put(out, &JOB, &JobV1::of(record, number));
            }
            Change::Array(record) => {
                let number = self.number(out, &record.spec);
                envelope::put(out, &ARRAY, &ArrayV1::of(record, number));
            }
            Change::Host(record) => {
                // Marks are no part of a feed, so that a row is the same whenever it is written.
                let row = HostRecord {
                    epoch: 0,
                    sequence: 0,
                    ..(**record).clone()
                };
                envelope::put(out, &HOST, &row);
            }
            Change::Service(record) => {
                let row = ServiceV1::of(record, |spec| self.number(out, spec));
                envelope::put(out, &SERVICE, &row);
            }
            Change::Session(record) => envelope::put(out, &SESSION, &**record),
            Change::Policy(record) => envelope::put(out, &POLICY, &**record),
            Change::Gone { key, lsn } => {
                let key = GoneKeyV1::of(key);
                envelope::put(out, &GONE, &GoneV1 { lsn: *lsn, key });
            }
        }
    }

    /// The number of a specification; a new one is written first.
    fn number(&mut self, out: &mut Vec<u8>, spec: &Arc<JobSpec>) -> SpecNumber {
        let address = Arc::as_ptr(spec) as usize;
        if let Some((number, _)) = self.numbers.get(&address) {
            return *number;
        }
        let number = SpecNumber::try_from(self.numbers.len()).unwrap_or(SpecNumber::MAX);
        self.numbers.insert(address, (number, Arc::downgrade(spec)));
        let row = SpecV1 {
            spec: (**spec).clone(),
        };
        envelope::put(out, &SPEC, &row);
        number
    }
}

/// Reads the changes of one connection.
#[derive(Default)]
pub struct RowReader {
    specs: Vec<Arc<JobSpec>>,
    shared: Specs,
}

impl std::fmt::Debug for RowReader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "RowReader({} specifications)", self.specs.len())
    }
}

impl RowReader {
    /// One for a first connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another connection begins: its writer numbers specifications anew.
    pub fn begin(&mut self) {
        self.specs.clear();
    }

    /// The changes in some bytes that a [`RowWriter`] wrote, in their order.
    ///
    /// # Errors
    /// [`DecodeError`] for damage, and for rows of a newer program: this one must stop, since what it
    /// cannot read would be missing in what it holds.
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<Vec<Change>, DecodeError> {
        let mut changes = Vec::new();
        while !bytes.is_empty() {
            let raw = envelope::take(&mut bytes)?;
            changes.extend(self.row(&raw)?);
        }
        Ok(changes)
    }

    fn row(&mut self, raw: &Raw<'_>) -> Result<Option<Change>, DecodeError> {
        let change = match raw.kind {
            kind if kind == SPEC.kind => {
                self.add_spec(&raw.read::<SpecV1>(&SPEC)?.spec)?;
                return Ok(None);
            }
            kind if kind == FORGET.kind => {
                let _row: ForgetV1 = raw.read(&FORGET)?;
                self.specs.clear();
                return Ok(None);
            }
            kind if kind == JOB.kind => {
                let row: JobV1 = raw.read(&JOB)?;
                let spec = self.spec(row.spec)?;
                Change::Job(Arc::new(row.into_record(spec)))
            }
            kind if kind == ARRAY.kind => {
                let row: ArrayV1 = raw.read(&ARRAY)?;
                let spec = self.spec(row.spec)?;
                // Whoever holds the elements counts them.
                Change::Array(Arc::new(row.into_record(spec, ElementCounts::default())))
            }
            kind if kind == HOST.kind => Change::Host(Arc::new(raw.read(&HOST)?)),
            kind if kind == SERVICE.kind => {
                let row: ServiceV1 = raw.read(&SERVICE)?;
                let record = row.into_record(&self.specs).ok_or_else(no_spec)?;
                Change::Service(Arc::new(record))
            }
            kind if kind == SESSION.kind => {
                let row: SessionRecord = raw.read(&SESSION)?;
                Change::Session(Arc::new(row))
            }
            kind if kind == POLICY.kind => {
                let row: PolicyRecord = raw.read(&POLICY)?;
                Change::Policy(Arc::new(row))
            }
            kind if kind == GONE.kind => {
                let row: GoneV1 = raw.read(&GONE)?;
                Change::Gone {
                    key: row.key.into_key(),
                    lsn: row.lsn,
                }
            }
            _ => return Err(raw.unknown()),
        };
        Ok(Some(change))
    }

    fn add_spec(&mut self, spec: &JobSpec) -> Result<(), DecodeError> {
        if self.specs.len() >= SPECS_MAX + SPECS_OF_A_ROW_MAX {
            return Err(DecodeError::Damaged {
                name: SPEC.name,
                detail: format!("more than {SPECS_MAX} without a word that they are forgotten"),
            });
        }
        self.specs.push(self.shared.share(spec));
        Ok(())
    }

    fn spec(&self, number: SpecNumber) -> Result<Arc<JobSpec>, DecodeError> {
        self.specs.get(number as usize).cloned().ok_or_else(no_spec)
    }
}

fn no_spec() -> DecodeError {
    DecodeError::Damaged {
        name: SPEC.name,
        detail: "a row names one that did not come before it".to_owned(),
    }
}
