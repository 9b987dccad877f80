//! What must come true in the end, when faults are over.

use std::collections::BTreeMap;

use xce_ledger::View;
use xce_model::{JobId, JobState, Run, ServiceId, Start};
use xce_service::Condition;
use xce_service::rules::{Command, Standing};
use xce_service::state::Phase;

use crate::world::World;

/// Longest time to converge, in milliseconds. Source: derived; delays of crash loops are over at once
/// by the resume, the slowest template takes 20 s a step.
const CONVERGE_MS: u64 = 4_000_000;

impl World {
    pub fn check_converged(&mut self) {
        let done = |world: &Self| {
            world.view().services().iter().all(|(id, record)| {
                !record.is_deleting()
                    && record.rollout.phase == Phase::Complete
                    && world.condition(*id) == Some(Condition::Steady)
            })
        };
        self.until(CONVERGE_MS, "it converges", done);
        // Ends that were told last have to be committed, and deleted services to be gone.
        self.run_for(20_000);
        self.see_all();
        let world = &*self;
        let view = world.view();
        for (id, record) in view.services() {
            let root = record.current_root();
            let replicas = world.replicas(*id);
            let mut indices: Vec<u32> = Vec::new();
            for (job, standing) in &replicas {
                let of = job.service.expect("a replica");
                indices.push(of.index);
                if *standing != Standing::Available || record.root_of(of.version) != root {
                    world.fail(&format!("job {} is {standing:?}", job.id));
                }
            }
            indices.sort_unstable();
            indices.dedup();
            let desired = record.desired as usize;
            if replicas.len() != desired || indices.len() != desired {
                world.fail(&format!("{} replicas of {desired}", replicas.len()));
            }
        }
        self.check_processes(&view);
        self.check_audit();
    }

    /// The processes that live are those that the ledger says run, and no fact waits.
    fn check_processes(&self, view: &View) {
        let wanted: BTreeMap<(JobId, Run), Start> = view
            .jobs()
            .values()
            .filter(|job| job.state.holds_host())
            .map(|job| ((job.id, job.run), job.start))
            .collect();
        let mut found: BTreeMap<(JobId, Run), Start> = BTreeMap::new();
        for machine in &self.machines {
            for (run, start, dir) in machine.alive() {
                found.insert((run.job, run.run), start);
                let job = view.job(run.job);
                let same = job.is_some_and(|job| {
                    job.host.as_deref() == Some(&machine.name)
                        && job.state == JobState::Run
                        && job.spec.template == dir.spec.template
                });
                if !same {
                    self.fail(&format!("a process of {run:?} is left"));
                }
            }
            if machine.disk.spool.iter().next().is_some() {
                self.fail("facts of a worker wait for ever");
            }
        }
        if wanted != found {
            self.fail(&format!("{wanted:?} are to run, {found:?} do"));
        }
    }

    pub fn check_deletion(&mut self) {
        let services: Vec<ServiceId> = self.view().services().keys().copied().collect();
        for id in services {
            self.must(id, Command::Delete);
        }
        self.until(60_000, "all is gone", |world| {
            world.view().services().is_empty()
                && world
                    .machines
                    .iter()
                    .all(|one| one.alive().next().is_none())
        });
        self.check_audit();
    }
}
