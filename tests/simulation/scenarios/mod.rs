//! Scenarios: one test a row of the cases, named after its id, with the row's numbers.
//!
//! Where the rules of this system are stricter than a row, they win; the test says so.

mod failures;
mod hosts;
mod placing;
mod probes;
mod rollouts;
mod stuck;

use xce_ledger::Fact;
use xce_model::{ServiceId, Version};
use xce_service::rules::Counts;
use xce_service::state::Outcome;
use xce_service::{Condition, ServiceFact};

use crate::world::World;

/// Runs for a while, and gives the least of a count at any event.
fn least(world: &mut World, id: ServiceId, millis: u64, count: impl Fn(&Counts) -> u32) -> u32 {
    let mut least = u32::MAX;
    world.run_while(millis, |world| {
        least = least.min(count(&world.counts(id)));
        true
    });
    least
}

fn stuck_at(world: &World) -> Vec<u64> {
    world.when_committed(|fact| matches!(fact, Fact::Service(ServiceFact::RolloutStuck { .. })))
}

fn versions(world: &World) -> usize {
    world.facts(|fact| matches!(fact, Fact::Service(ServiceFact::Versioned { .. })))
}

#[track_caller]
fn steady(world: &mut World, id: ServiceId, millis: u64, version: Version, count: usize) {
    world.until(millis, "it is complete", |world| {
        world.condition(id) == Some(Condition::Steady)
            && world.record(id).current().number == version
    });
    let mix = world.mix(id);
    let all: usize = mix.values().sum();
    assert_eq!(all, count, "{mix:?}\n{}", world.describe());
    assert_eq!(world.record(id).current().outcome, Outcome::Completed);
}
