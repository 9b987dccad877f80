//! Generations of endpoints: for each service the position at which its set of endpoints last changed.
//!
//! ```text
//! a replica becomes ready, or is not any more ─┐
//! its host is suspect, answers again, moves ───┴─► generation of its service = position of the fact
//! ```
//!
//! A generation rises with every change, and is the same on every controller and after every start.

use xce_host::{HostLife, HostRecord};
use xce_model::{JobId, Lsn, Run, ServiceId};
use xce_replica::JobRecord;

use crate::view::View;

/// What readers of endpoints see of a replica.
#[derive(PartialEq, Eq)]
struct Served<'a> {
    run: Run,
    host: Option<&'a str>,
    ports: &'a [(String, u16)],
}

/// What readers of endpoints see of a replica; nothing of one that takes no work.
fn served(job: &JobRecord) -> Option<Served<'_>> {
    let serves = job.ready_since.is_some() && !job.ports.is_empty();
    serves.then(|| Served {
        run: job.run,
        host: job.host.as_deref(),
        ports: &job.ports,
    })
}

/// What readers of endpoints see of a host: whether it answers, is lost, and where it is.
fn seen(host: &HostRecord) -> (bool, bool, &str) {
    let answers = host.life == HostLife::Up;
    let lost = host.life == HostLife::Lost;
    (answers, lost, host.inventory.address.as_str())
}

impl View {
    /// Position at which the endpoints of a service last changed; 0 before its first one.
    pub fn endpoints_changed(&self, service: ServiceId) -> Lsn {
        self.endpoints.get(&service).copied().unwrap_or(0)
    }

    /// Notes what the change of a job means for the endpoints of its service.
    pub(crate) fn note_served(&mut self, before: &JobRecord, after: &JobRecord) {
        if let Some(replica) = after.service
            && served(before) != served(after)
        {
            self.endpoints.insert(replica.service, after.changed);
        }
    }

    /// Notes what the change of a host means for the endpoints there.
    pub(crate) fn note_host(&mut self, before: &HostRecord, after: &HostRecord) {
        if seen(before) == seen(after) {
            return;
        }
        let Some(usage) = self.usage.get(after.inventory.name.as_str()) else {
            return;
        };
        let jobs: Vec<JobId> = usage.jobs.iter().copied().collect();
        for id in jobs {
            let Some(job) = self.jobs.get(&id).filter(|job| served(job).is_some()) else {
                continue;
            };
            if let Some(replica) = job.service {
                self.endpoints.insert(replica.service, after.changed);
            }
        }
    }
}
