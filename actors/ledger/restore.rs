//! A view from the records of a snapshot; derived tables are built again.

use std::sync::Arc;

use xce_host::HostRecord;
use xce_model::spec::JobSpec;
use xce_model::{JobId, ServiceId, SessionId};

use crate::arrays::ElementCounts;
use crate::envelope::{self, DecodeError, Raw};
use crate::intern::Specs;
use crate::operations::Remembered;
use crate::past;
use crate::policies::PolicyRecord;
use crate::rows::{
    ArrayV1, CountsV1, JobV1, MetaV2, OperationV1, ServiceV1, SpecNumber, SpecV1, TombstonesV1,
};
use crate::sessions::SessionRecord;
use crate::snapshot::{
    ARRAY, HOST, JOB, META, OPERATION, POLICY, SERVICE, SESSION, SPEC, TOMBSTONES,
};
use crate::view::View;

/// A view under construction.
pub(crate) struct Restore<'a> {
    view: View,
    specs: Vec<Arc<JobSpec>>,
    shared: &'a mut Specs,
    expected: Option<CountsV1>,
}

impl<'a> Restore<'a> {
    pub fn new(shared: &'a mut Specs) -> Self {
        Self {
            view: View::default(),
            specs: Vec::new(),
            shared,
            expected: None,
        }
    }

    /// Takes the next record in.
    pub fn add(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        let raw = envelope::take(&mut bytes)?;
        if !bytes.is_empty() {
            return Err(DecodeError::Damaged {
                name: "snapshot record",
                detail: format!("{} bytes follow it", bytes.len()),
            });
        }
        if self.expected.is_none() != (raw.kind == META.kind) {
            return Err(DecodeError::Misplaced {
                found: format!("record kind {}", raw.kind),
                wanted: if self.expected.is_none() {
                    META.name
                } else {
                    "an object"
                },
            });
        }
        self.add_known(&raw)
    }

    fn add_known(&mut self, raw: &Raw<'_>) -> Result<(), DecodeError> {
        match raw.kind {
            kind if kind == META.kind => self.add_meta(raw.read_any(&META, past::METAS)?),
            kind if kind == SPEC.kind => {
                let row: SpecV1 = raw.read(&SPEC)?;
                self.specs.push(self.shared.share(&row.spec));
            }
            kind if kind == SERVICE.kind => {
                let row: ServiceV1 = raw.read(&SERVICE)?;
                if row.endpoints > 0 {
                    self.view.endpoints.insert(row.id, row.endpoints);
                }
                let record = row.into_record(&self.specs).ok_or_else(no_spec)?;
                let changed = record.changed;
                let id = record.id;
                self.view.add_name(&record);
                self.view.services.insert(id, Arc::new(record));
                self.view.changes.services.touch(None, changed, &id);
            }
            kind if kind == JOB.kind => {
                let row: JobV1 = raw.read(&JOB)?;
                let spec = self.spec(row.spec)?;
                self.view.put_job(row.into_record(spec));
            }
            kind if kind == ARRAY.kind => {
                let row: ArrayV1 = raw.read(&ARRAY)?;
                let spec = self.spec(row.spec)?;
                let counts = self.count(row.number);
                self.view.put_array(row.into_record(spec, counts));
            }
            kind if kind == HOST.kind => self.add_host(raw.read(&HOST)?),
            kind if kind == SESSION.kind => {
                let row: SessionRecord = raw.read(&SESSION)?;
                let (id, changed) = (row.id, row.changed);
                self.view.sessions.insert(id, Arc::new(row));
                self.view.changes.sessions.touch(None, changed, &id);
            }
            kind if kind == POLICY.kind => {
                let row: PolicyRecord = raw.read(&POLICY)?;
                let (key, changed) = (row.key(), row.changed);
                self.view.changes.policies.touch(None, changed, &key);
                self.view.policies.insert(key, Arc::new(row));
            }
            kind if kind == OPERATION.kind => self.add_operation(raw.read(&OPERATION)?),
            kind if kind == TOMBSTONES.kind => self.add_tombstones(raw.read(&TOMBSTONES)?),
            _ => return Err(raw.unknown()),
        }
        Ok(())
    }

    fn spec(&self, number: SpecNumber) -> Result<Arc<JobSpec>, DecodeError> {
        self.specs.get(number as usize).cloned().ok_or_else(no_spec)
    }

    /// Counts the elements of an array that have a job; the jobs come before the arrays.
    fn count(&self, number: u64) -> ElementCounts {
        let elements = JobId::element(number, 0)..JobId::single(number);
        let mut counts = ElementCounts::default();
        for (_, job) in self.view.jobs.range(elements) {
            *counts.slot(job.state) += 1;
        }
        counts
    }

    fn add_meta(&mut self, row: MetaV2) {
        let view = &mut self.view;
        view.lsn = row.lsn;
        view.term = row.term;
        view.clock = row.clock;
        view.last_job = row.last_job;
        view.last_service = row.last_service;
        view.last_session = row.last_session;
        view.last_controller = row.last_controller;
        view.ignored = row.ignored;
        view.level = row.level;
        view.epochs = row.epochs.into();
        view.operations.set_floor(row.operations_floor);
        for (principal, floor) in row.operation_floors {
            view.operations.set_floor_of(&principal, floor);
        }
        view.changes.jobs.set_floor(row.floors.jobs);
        view.changes.arrays.set_floor(row.floors.arrays);
        view.changes.hosts.set_floor(row.floors.hosts);
        view.changes.services.set_floor(row.floors.services);
        view.changes.sessions.set_floor(row.floors.sessions);
        view.changes.policies.set_floor(row.floors.policies);
        self.expected = Some(row.counts);
    }

    /// Jobs restored before share their host's name with it from here on by value only.
    fn add_host(&mut self, row: HostRecord) {
        let used = self.view.usage.get_key_value(row.inventory.name.as_str());
        let name: Arc<str> = match used {
            Some((name, _)) => name.clone(),
            None => Arc::from(row.inventory.name.as_str()),
        };
        self.view.changes.hosts.touch(None, row.changed, &name);
        self.view.set_host(&name, &Arc::new(row));
    }

    fn add_operation(&mut self, row: OperationV1) {
        let remembered = Remembered {
            place: (row.lsn, row.sub),
            at: row.at,
            answer: row.answer,
        };
        self.view
            .operations
            .remember(&row.principal, row.id, remembered);
    }

    fn add_tombstones(&mut self, row: TombstonesV1) {
        let changes = &mut self.view.changes;
        for (lsn, id) in row.jobs {
            changes.jobs.add_tombstone(lsn, id);
        }
        for (lsn, number) in row.arrays {
            changes.arrays.add_tombstone(lsn, number);
        }
        for (lsn, name) in row.hosts {
            changes.hosts.add_tombstone(lsn, Arc::from(name));
        }
        for (lsn, id) in row.services {
            changes.services.add_tombstone(lsn, ServiceId(id));
        }
        for (lsn, id) in row.sessions {
            changes.sessions.add_tombstone(lsn, SessionId(id));
        }
        for (lsn, kind, name) in row.policies {
            changes.policies.add_tombstone(lsn, (kind, Arc::from(name)));
        }
    }

    /// The view, when it has as many objects as the snapshot's head announced.
    pub fn finish(self) -> Result<View, DecodeError> {
        let view = self.view;
        let found = CountsV1 {
            jobs: view.jobs.len() as u64,
            arrays: view.arrays.len() as u64,
            hosts: view.hosts.len() as u64,
            services: view.services.len() as u64,
            sessions: view.sessions.len() as u64,
            operations: view.operations.len() as u64,
            policies: view.policies.len() as u64,
        };
        if self.expected == Some(found) {
            return Ok(view);
        }
        Err(DecodeError::Damaged {
            name: META.name,
            detail: format!("it announces {:?}, there are {found:?}", self.expected),
        })
    }
}

fn no_spec() -> DecodeError {
    DecodeError::Damaged {
        name: SPEC.name,
        detail: "a record names one that did not come before it".to_owned(),
    }
}
