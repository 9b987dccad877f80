//! A view as records, in the order of keys, so that equal states give equal bytes.
//!
//! ```text
//! meta, { spec, … service }*, { spec, … job }*, { spec, … array }*, host*, session*, policy*, operation*, tombstones
//! ```
//!
//! A specification is written once, before the first record that uses it, whoever shares it in
//! memory: equal ones are found by content. Derived tables are not written.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use xce_model::spec::JobSpec;
use xce_model::{JobId, ServiceId, SessionId};

use crate::envelope::{self, Shape};
use crate::level::LEVEL_OF_EPOCHS;
use crate::operations::Place;
use crate::past::{META_V1, MetaV1};
use crate::policies::PolicyKey;
use crate::rows::{
    ArrayV1, CountsV1, JobV1, MetaV2, OperationV1, ServiceV1, SpecNumber, SpecV1, TombstonesV1,
};
use crate::view::View;

pub(crate) const META: Shape = Shape {
    version: 2,
    min_reader: 2,
    ..shape(64, "snapshot head", 0x3d2f_02b9)
};
pub(crate) const SPEC: Shape = shape(65, "specification", 0x9fc2_7925);
pub(crate) const SERVICE: Shape = shape(66, "service", 0xdc16_1bfe);
pub(crate) const JOB: Shape = shape(67, "job", 0x4318_10a6);
pub(crate) const ARRAY: Shape = shape(68, "array", 0xfeaa_b892);
pub(crate) const HOST: Shape = shape(69, "host", 0x0103_6ebc);
pub(crate) const SESSION: Shape = shape(70, "session", 0xe2b3_7768);
pub(crate) const OPERATION: Shape = shape(71, "operation", 0x0ba8_3b0e);
pub(crate) const POLICY: Shape = shape(73, "policy", 0xfec9_e0c5);
pub(crate) const TOMBSTONES: Shape = shape(72, "tombstones", 0x3333_2f8e);

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

/// Objects encoded at a time. Source: derived, keeps what is buffered below 1 MiB of usual records.
const BATCH: usize = 512;

/// What comes next.
#[derive(Debug, Clone)]
enum Stage {
    Meta,
    Services(Option<ServiceId>),
    Jobs(Option<JobId>),
    Arrays(Option<u64>),
    Hosts(Option<Arc<str>>),
    Sessions(Option<SessionId>),
    Policies(Option<PolicyKey>),
    Operations(Option<Place>),
    Tombstones,
    End,
}

/// The records of one view; made in constant time, encoded as they are asked for.
#[derive(Debug)]
pub struct SnapshotRecords {
    view: View,
    stage: Stage,
    ready: VecDeque<Vec<u8>>,
    numbers: Numbers,
}

/// Numbers of the specifications written so far, found by content.
#[derive(Debug, Default)]
struct Numbers {
    by_hash: HashMap<u64, Vec<(SpecNumber, Arc<JobSpec>)>>,
    // Most jobs share their neighbour's specification: that costs no hash.
    last: Option<(SpecNumber, Arc<JobSpec>)>,
    count: SpecNumber,
}

impl Numbers {
    /// The number of a specification; a new one is written to `out`.
    fn of(&mut self, spec: &Arc<JobSpec>, out: &mut VecDeque<Vec<u8>>) -> SpecNumber {
        if let Some((number, _)) = self
            .last
            .as_ref()
            .filter(|(_, last)| Arc::ptr_eq(last, spec))
        {
            return *number;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&envelope::archive(&**spec));
        let known = self.by_hash.entry(hasher.finish()).or_default();
        let number = match known.iter().find(|(_, other)| **other == **spec) {
            Some((number, _)) => *number,
            None => {
                let number = self.count;
                self.count += 1;
                known.push((number, spec.clone()));
                let row = SpecV1 {
                    spec: (**spec).clone(),
                };
                out.push_back(record(&SPEC, &row));
                number
            }
        };
        self.last = Some((number, spec.clone()));
        number
    }
}

fn record<T: envelope::Body>(shape: &Shape, value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    envelope::put(&mut out, shape, value);
    out
}

impl SnapshotRecords {
    pub(crate) fn new(view: View) -> Self {
        Self {
            view,
            stage: Stage::Meta,
            ready: VecDeque::new(),
            numbers: Numbers::default(),
        }
    }

    /// Encodes the next batch and moves on when its table has no more.
    fn fill(&mut self) {
        let view = &self.view;
        let (ready, numbers) = (&mut self.ready, &mut self.numbers);
        self.stage = match &self.stage {
            Stage::Meta => {
                // A standby of the level may be sent this snapshot.
                ready.push_back(if view.level() >= LEVEL_OF_EPOCHS {
                    record(&META, &meta(view))
                } else {
                    record(&META_V1, &MetaV1::of(meta(view)))
                });
                Stage::Services(None)
            }
            Stage::Services(after) => next(&view.services, after, Stage::Services, |service| {
                let row = ServiceV1 {
                    endpoints: view.endpoints_changed(service.id),
                    ..ServiceV1::of(service, |spec| numbers.of(spec, ready))
                };
                ready.push_back(record(&SERVICE, &row));
            })
            .unwrap_or(Stage::Jobs(None)),
            Stage::Jobs(after) => next(&view.jobs, after, Stage::Jobs, |job| {
                let number = numbers.of(&job.spec, ready);
                ready.push_back(record(&JOB, &JobV1::of(job, number)));
            })
            .unwrap_or(Stage::Arrays(None)),
            Stage::Arrays(after) => next(&view.arrays, after, Stage::Arrays, |array| {
                let number = numbers.of(&array.spec, ready);
                ready.push_back(record(&ARRAY, &ArrayV1::of(array, number)));
            })
            .unwrap_or(Stage::Hosts(None)),
            Stage::Hosts(after) => next(&view.hosts, after, Stage::Hosts, |host| {
                ready.push_back(record(&HOST, &**host));
            })
            .unwrap_or(Stage::Sessions(None)),
            Stage::Sessions(after) => next(&view.sessions, after, Stage::Sessions, |session| {
                ready.push_back(record(&SESSION, &**session));
            })
            .unwrap_or(Stage::Policies(None)),
            Stage::Policies(after) => next(&view.policies, after, Stage::Policies, |policy| {
                ready.push_back(record(&POLICY, &**policy));
            })
            .unwrap_or(Stage::Operations(None)),
            Stage::Operations(after) => {
                let last = operations(view, *after, ready);
                last.map_or(Stage::Tombstones, |place| Stage::Operations(Some(place)))
            }
            Stage::Tombstones => {
                ready.push_back(record(&TOMBSTONES, &tombstones(view)));
                Stage::End
            }
            Stage::End => Stage::End,
        };
    }
}

impl Iterator for SnapshotRecords {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(record);
            }
            if matches!(self.stage, Stage::End) {
                return None;
            }
            self.fill();
        }
    }
}

/// Visits the batch behind `after`; tells where to go on, or that the table has no more.
fn next<Key: Ord + Clone, Value: Clone>(
    table: &OrdMap<Key, Value>,
    after: &Option<Key>,
    stage: impl FnOnce(Option<Key>) -> Stage,
    mut visit: impl FnMut(&Value),
) -> Option<Stage> {
    let from = match after {
        Some(key) => Bound::Excluded(key.clone()),
        None => Bound::Unbounded,
    };
    let mut last = None;
    for (key, value) in table.range((from, Bound::Unbounded)).take(BATCH) {
        visit(value);
        last = Some(key.clone());
    }
    last.map(|key| stage(Some(key)))
}

fn operations(view: &View, after: Option<Place>, ready: &mut VecDeque<Vec<u8>>) -> Option<Place> {
    let mut last = None;
    for (principal, id, found) in view.operations.after(after).take(BATCH) {
        let row = OperationV1 {
            principal: principal.to_string(),
            id,
            lsn: found.place.0,
            sub: found.place.1,
            at: found.at,
            answer: found.answer.clone(),
        };
        ready.push_back(record(&OPERATION, &row));
        last = Some(found.place);
    }
    last
}

fn meta(view: &View) -> MetaV2 {
    let changes = &view.changes;
    MetaV2 {
        lsn: view.lsn,
        term: view.term,
        clock: view.clock.clone(),
        last_job: view.last_job,
        last_service: view.last_service,
        last_session: view.last_session,
        last_controller: view.last_controller,
        ignored: view.ignored,
        operations_floor: view.operations.floor(),
        operation_floors: view.operations.floors(),
        counts: CountsV1 {
            jobs: view.jobs.len() as u64,
            arrays: view.arrays.len() as u64,
            hosts: view.hosts.len() as u64,
            services: view.services.len() as u64,
            sessions: view.sessions.len() as u64,
            operations: view.operations.len() as u64,
            policies: view.policies.len() as u64,
        },
        floors: CountsV1 {
            jobs: changes.jobs.floor(),
            arrays: changes.arrays.floor(),
            hosts: changes.hosts.floor(),
            services: changes.services.floor(),
            sessions: changes.sessions.floor(),
            operations: 0,
            policies: changes.policies.floor(),
        },
        level: view.level,
        epochs: view.epochs.to_vec(),
    }
}

fn tombstones(view: &View) -> TombstonesV1 {
    let changes = &view.changes;
    let services = changes.services.tombstones().iter();
    let sessions = changes.sessions.tombstones().iter();
    let hosts = changes.hosts.tombstones().iter();
    let policies = changes.policies.tombstones().iter();
    TombstonesV1 {
        jobs: changes.jobs.tombstones().iter().copied().collect(),
        arrays: changes.arrays.tombstones().iter().copied().collect(),
        hosts: hosts.map(|(lsn, name)| (*lsn, name.to_string())).collect(),
        services: services.map(|(lsn, id)| (*lsn, id.0)).collect(),
        sessions: sessions.map(|(lsn, id)| (*lsn, id.0)).collect(),
        policies: policies
            .map(|(lsn, (kind, name))| (*lsn, *kind, name.to_string()))
            .collect(),
    }
}
