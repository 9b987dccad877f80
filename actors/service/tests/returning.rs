//! V13: what becomes of replicas whose host goes silent and comes back.

use xce_host::HostLife;
use xce_model::{Cause, Version};

use crate::tests::world::*;
use crate::*;

/// What happens, always to the host `h2`, which has the last two replicas (or all).
#[derive(Debug, Clone, Copy)]
enum Then {
    /// It becomes so.
    Is(HostLife),
    /// Time passes, in seconds.
    Run(u64),
    /// The replicas that were made since the beginning fail.
    NewFail,
    /// Another count is wanted.
    Scale(u32),
    /// Another version is wanted.
    Update,
}

use HostLife::{Lost, Suspect, Up};
use Then::{Is, NewFail, Run, Scale, Update};

struct Row {
    id: &'static str,
    count: u32,
    /// Whether there is another host.
    other: bool,
    then: &'static [Then],
    /// Replicas that were ever made.
    made: usize,
    /// Live replicas at the end, and available ones.
    end: (usize, u32),
    /// How many of those that were on the host are still live.
    kept: usize,
    version: Version,
}

const ROWS: [Row; 9] = [
    Row {
        id: "V13.1: not replaced, so kept",
        count: 2,
        other: false,
        then: &[Is(Suspect), Is(Lost), Run(10), Is(Up), Run(10)],
        made: 4,
        end: (2, 2),
        kept: 2,
        version: 1,
    },
    Row {
        id: "V13.3: replaced, so ended",
        count: 4,
        other: true,
        then: &[Is(Suspect), Is(Lost), Run(10), Is(Up), Run(10)],
        made: 6,
        end: (4, 4),
        kept: 0,
        version: 1,
    },
    Row {
        id: "V13.7: runs, and was to stop",
        count: 1,
        other: false,
        then: &[Is(Suspect), Scale(0), Run(10), Is(Up), Run(10)],
        made: 1,
        end: (0, 0),
        kept: 0,
        version: 1,
    },
    Row {
        id: "V13.9: replaced, and the replacements failed",
        count: 5,
        other: true,
        then: &[Is(Lost), Run(10), NewFail, Run(10), Is(Up), Run(10)],
        made: 9,
        end: (5, 5),
        kept: 0,
        version: 1,
    },
    Row {
        id: "V13.11: silent, not yet lost",
        count: 5,
        other: true,
        then: &[Is(Suspect), Run(10)],
        made: 5,
        end: (5, 3),
        kept: 2,
        version: 1,
    },
    Row {
        id: "V13.11: lost",
        count: 5,
        other: true,
        then: &[Is(Suspect), Run(10), Is(Lost), Run(10)],
        made: 7,
        end: (5, 5),
        kept: 0,
        version: 1,
    },
    Row {
        id: "V13.13: lost again while it is away",
        count: 5,
        other: true,
        then: &[Is(Lost), Run(10), Is(Lost), Run(10), Is(Up), Run(10)],
        made: 7,
        end: (5, 5),
        kept: 0,
        version: 1,
    },
    Row {
        id: "a newer version wins, also over one that was not lost",
        count: 4,
        other: true,
        then: &[Is(Suspect), Update, Run(100), Is(Up), Run(100)],
        made: 8,
        end: (4, 4),
        kept: 0,
        version: 2,
    },
    Row {
        id: "a newer version wins over one that was lost",
        count: 4,
        other: true,
        then: &[Is(Lost), Update, Run(100), Is(Up), Run(100)],
        made: 10,
        end: (4, 4),
        kept: 0,
        version: 2,
    },
];

fn begin(row: &Row) -> World {
    let mut world = World::new(&spec(row.count, 1, 1));
    world.ends_lost = false;
    world.hosts = [("h2".to_owned(), Up)].into();
    if row.other {
        world.hosts.insert("h1".to_owned(), Up);
    }
    world.run_for(10_000);
    assert_eq!(world.condition(), Condition::Steady, "{}", row.id);
    world
}

fn happen(world: &mut World, count: u32, then: Then) {
    match then {
        Is(life) => {
            world.host("h2", life);
            world.settle();
        }
        Run(seconds) => world.run_for(seconds * 1_000),
        NewFail => {
            let first = u64::from(count) + 1;
            let last = world.jobs.len() as u64;
            (first..=last).for_each(|number| world.end(number, Cause::Exited));
        }
        Scale(desired) => world.scale(desired),
        Update => world.update("v2"),
    }
}

#[test]
fn v13_a_host_that_comes_back() {
    for row in &ROWS {
        let mut world = begin(row);
        let on_host = |world: &World| -> Vec<u64> {
            let live = world.live().into_iter();
            live.filter(|(job, _)| job.host.as_deref() == Some("h2"))
                .map(|(job, _)| job.id.number)
                .collect()
        };
        let before = on_host(&world);
        for then in row.then {
            happen(&mut world, row.count, *then);
        }
        let live = world.live();
        let told = format!("{}: {}\n{}", row.id, world.explain(), world.story());
        assert_eq!((live.len(), world.available()), row.end, "{told}");
        assert_eq!(world.jobs.len(), row.made, "{told}");
        let after = on_host(&world);
        let kept = before.iter().filter(|one| after.contains(one)).count();
        assert_eq!(kept, row.kept, "{told}");
        let versions = live.iter().map(|(job, _)| job.service.expect("a replica"));
        assert!(
            versions.into_iter().all(|of| of.version == row.version),
            "{told}"
        );
    }
}
