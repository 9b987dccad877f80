//! When a replica that stops need not be drained any longer: pure.

use std::sync::Arc;

use xce_model::{ClusterTime, JobState};
use xce_replica::{JobFact, JobRecord};
use xce_service::view::EndpointSet;

/// What one reader that says what it uses may send work to.
#[derive(Debug, Clone)]
pub struct Uses {
    /// Whether it is connected, else it may come back.
    pub connected: bool,
    /// The set that it said it uses; nothing before it said so, when it may use anything.
    pub set: Option<Arc<EndpointSet>>,
}

impl Uses {
    fn may_use(&self, job: &JobRecord) -> bool {
        self.set.as_ref().is_none_or(|set| set.has(job.id))
    }
}

/// Replicas whose drain is over, since every reader that says what it uses uses a set without them, and
/// at least one of these readers is connected. A drain that has run out needs nobody's word.
pub fn over<'a>(
    jobs: impl Iterator<Item = &'a Arc<JobRecord>>,
    readers: &[Uses],
    now: ClusterTime,
) -> Vec<JobFact> {
    if !readers.iter().any(|reader| reader.connected) {
        return Vec::new();
    }
    jobs.filter(|job| is_draining(job, now))
        .filter(|job| !readers.iter().any(|reader| reader.may_use(job)))
        .map(|job| JobFact::Drained {
            job: job.id,
            run: job.run,
        })
        .collect()
}

fn is_draining(job: &JobRecord, now: ClusterTime) -> bool {
    let drain = job.template().stop.drain;
    job.state == JobState::Stopping
        && job
            .stop
            .is_some_and(|stop| !stop.drained && now < stop.since.after(drain))
}

#[cfg(test)]
mod tests {
    use xce_model::spec::{
        JobSpec, Probes, Resources, RestartMode, RestartPolicy, StopPolicy, Template, User,
    };
    use xce_model::{Bytes, Cause, JobId, MilliCpu, Millis, WallTime};
    use xce_replica::AfterStop;
    use xce_service::view::{EndpointState, EndpointView};

    use super::*;

    fn stopping(number: u64, drain: u64) -> Arc<JobRecord> {
        let zero = Millis(0);
        let template = Template {
            command: Vec::new(),
            env: Vec::new(),
            cwd: None,
            user: User {
                name: String::new(),
                uid: 0,
                gid: 0,
            },
            resources: Resources {
                cpus: MilliCpu(0),
                memory: Bytes(0),
            },
            ports: Vec::new(),
            probes: Probes::default(),
            restart: RestartPolicy {
                mode: RestartMode::Never,
                delay: zero,
                delay_max: zero,
                max_restarts: 0,
                window: zero,
                stable_after: zero,
            },
            stop: StopPolicy {
                drain: Millis(drain),
                signal: 15,
                grace: zero,
            },
            run_limit: None,
            constraints: Vec::new(),
            single_copy: xce_model::spec::SingleCopy::None,
        };
        let spec = JobSpec {
            name: "web".to_owned(),
            project: "default".to_owned(),
            queue: "normal".to_owned(),
            template,
            array: None,
            held: false,
            rerunnable: false,
        };
        let at = (1, ClusterTime(0), WallTime(0));
        let mut job = JobRecord::submitted(JobId::single(number), Arc::new(spec), None, at);
        let id = job.id;
        let placed = JobFact::Placed {
            job: id,
            run: 1,
            host: "w1".to_owned(),
            ports: Vec::new(),
        };
        let stop = JobFact::StopRequested {
            job: id,
            run: 1,
            cause: Cause::TermUpdate,
            then: AfterStop::End,
        };
        for fact in [placed, stop] {
            job.apply(&fact, ClusterTime(100), 2);
        }
        Arc::new(job)
    }

    fn reader(connected: bool, jobs: Option<&[u64]>) -> Uses {
        let row = |job: &u64| EndpointView {
            name: "http".to_owned(),
            address: "10.0.0.1".to_owned(),
            port: 80,
            replica: 0,
            job: JobId::single(*job),
            state: EndpointState::Ready,
            version: 1,
            host: "w1".to_owned(),
        };
        let set = jobs.map(|jobs| Arc::new(EndpointSet::new(9, jobs.iter().map(row))));
        Uses { connected, set }
    }

    #[test]
    fn a_drain_ends_when_every_reader_that_says_so_has_let_go() {
        let jobs = [stopping(1, 2_000), stopping(2, 2_000), stopping(3, 0)];
        let without = || reader(true, Some(&[2]));
        let table: [(&str, Vec<Uses>, u64, &[u64]); 8] = [
            ("nobody says what it uses", vec![], 100, &[]),
            ("one has let go of the first", vec![without()], 100, &[1]),
            (
                "both have let go",
                vec![without(), reader(true, Some(&[]))],
                100,
                &[1],
            ),
            (
                "one still uses it",
                vec![without(), reader(true, Some(&[1, 2]))],
                100,
                &[],
            ),
            (
                "one has not said anything yet",
                vec![without(), reader(true, None)],
                100,
                &[],
            ),
            (
                "one that used it is away",
                vec![without(), reader(false, Some(&[1]))],
                100,
                &[],
            ),
            (
                "nobody is connected",
                vec![reader(false, Some(&[]))],
                100,
                &[],
            ),
            ("the drain has run out", vec![without()], 2_100, &[]),
        ];
        for (what, readers, now, expected) in table {
            let facts = over(jobs.iter(), &readers, ClusterTime(now));
            let found: Vec<u64> = facts
                .iter()
                .map(|fact| match fact {
                    JobFact::Drained { job, run: 1 } => job.number,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(found, expected, "{what}");
        }
        let mut told = (*jobs[0]).clone();
        let fact = JobFact::Drained {
            job: told.id,
            run: 1,
        };
        told.apply(&fact, ClusterTime(101), 3);
        let again = over([Arc::new(told)].iter(), &[without()], ClusterTime(102));
        assert_eq!(again, [], "it is said once");
    }
}
