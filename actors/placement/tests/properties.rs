use proptest::prelude::*;
use xce_ledger::Outcome;
use xce_model::spec::Spread;
use xce_model::{Bytes, JobId, JobState};

use super::world::*;
use crate::{Explainer, plan};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Happens {
    Submit {
        cpus: u64,
        memory: u64,
        port: Option<u16>,
        queue: bool,
    },
    Array {
        last: u32,
        limit: Option<u32>,
    },
    Replicas {
        strict: Option<u32>,
    },
    Host {
        number: u8,
        cpus: u64,
    },
    End {
        nth: usize,
    },
    Plan {
        max: usize,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    let port = prop::option::of(8080_u16..8083);
    prop_oneof![
        4 => (1_u64..5, 1_u64..4, port, any::<bool>())
            .prop_map(|(cpus, memory, port, queue)| Happens::Submit { cpus, memory, port, queue }),
        1 => (1_u32..9, prop::option::of(1_u32..3)).prop_map(|(last, limit)| Happens::Array { last, limit }),
        1 => prop::option::of(1_u32..3).prop_map(|strict| Happens::Replicas { strict }),
        2 => (0_u8..4, 1_u64..6).prop_map(|(number, cpus)| Happens::Host { number, cpus }),
        4 => any::<usize>().prop_map(|nth| Happens::End { nth }),
        4 => (1_usize..20).prop_map(|max| Happens::Plan { max }),
    ]
}

fn happen(world: &mut World, what: Happens) {
    match what {
        Happens::Submit {
            cpus,
            memory,
            port: number,
            queue,
        } => {
            let mut spec = in_queue(if queue { "normal" } else { "other" }, cpus);
            spec.template.resources.memory = Bytes(memory << 30);
            if let Some(number) = number {
                spec.template.ports = [port(Some(number)), port(None)].concat();
            }
            world.submit(spec);
        }
        Happens::Array { last, limit } => {
            world.submit(array(last, limit));
        }
        Happens::Replicas { strict: limit } => {
            let mut spec = service(limit.map_or(Spread::default(), strict));
            spec.name = format!("web{}", world.view().services().len());
            let id = world.service(spec);
            world.prove(id);
            world.replicas(id, 3);
        }
        Happens::Host { number, cpus } => world.host(&format!("w{number}"), cpus),
        Happens::End { nth } => {
            let placed: Vec<(JobId, u32)> = world
                .view()
                .jobs()
                .values()
                .filter(|job| job.state == JobState::Start)
                .map(|job| (job.id, job.run))
                .collect();
            if !placed.is_empty() {
                let (job, run) = placed[nth % placed.len()];
                world.end(job, run);
            }
        }
        Happens::Plan { max } => carry_out(world, max),
    }
}

/// A plan fits as a whole in one group, and nothing is overcommitted by it.
fn carry_out(world: &mut World, max: usize) {
    let placements = plan(world.view(), &[], world.now, max);
    assert!(placements.len() <= max);
    let mut group = world.group();
    for placement in &placements {
        group = group.given(placement.precondition()).with(placement.fact());
    }
    let outcome = world.commit(&group);
    assert!(
        matches!(outcome, Outcome::Applied(_)),
        "{outcome:?} of {placements:?}"
    );
    assert_eq!(world.view().ignored(), 0);
    for placement in &placements {
        let host = world.view().host(&placement.host).unwrap();
        let usage = world.view().usage(&placement.host).unwrap();
        assert!(usage.cpus <= host.inventory.cpus && usage.memory <= host.inventory.memory);
    }
}

/// Plans until nothing fits. Source: derived; a history has fewer jobs than steps.
const ROUNDS_MAX: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn plans_fit_and_every_waiting_job_has_its_reason(steps in prop::collection::vec(happens(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            happen(&mut world, step);
        }
        prop_assert_eq!(xce_ledger::audit(world.view()), Vec::new());
        carry_out(&mut world, usize::MAX);
        // A plan may take the port of a job that others waited behind, which no end of a run can give
        // back: then those go, in the next plan. Each one places something, so that they end.
        for _ in 0..ROUNDS_MAX {
            if world.plan().is_empty() {
                break;
            }
            carry_out(&mut world, usize::MAX);
        }
        let left = world.plan();
        prop_assert!(left.is_empty(), "a plan leaves nothing that fits: {:?}", left);
        let mut explainer = Explainer::new(world.view(), &[], world.now);
        for (queue, waiting) in world.view().pending() {
            for id in waiting {
                let reason = explainer.why(*id).expect("a waiting job has a reason");
                prop_assert_ne!(reason.code, "next", "{} in {}: {}", id, queue, reason.text);
                prop_assert!(!reason.text.is_empty());
            }
        }
    }
}

#[test]
fn ten_thousand_waiting_jobs_fill_the_hosts_and_then_nothing() {
    let mut world = World::new();
    for host in 0..20 {
        world.host(&format!("w{host}"), 1);
    }
    for number in 0..10_000_u64 {
        let mut spec = job(1);
        spec.name = format!("job{number}");
        world.submit(spec);
    }
    assert_eq!(world.plan().len(), 20);
    carry_out(&mut world, usize::MAX);
    assert!(world.plan().is_empty());
    world.end(JobId::single(7), 1);
    assert_eq!(world.planned(), ["21@w14"]);
}
