//! Where values came from is kept with what they are values of.

use xce_model::{Millis, Origin, Source};

use crate::rules::{Base, Command};
use crate::tests::world::*;
use crate::*;

fn origin(path: &str, source: Source) -> Origin {
    Origin {
        path: path.to_owned(),
        source,
    }
}

fn source(record: &ServiceRecord, path: &str) -> String {
    let resolved = record.resolved();
    let found = resolved.origins.iter().find(|origin| origin.path == path);
    found.map_or_else(|| "built-in".to_owned(), |origin| origin.source.to_string())
}

/// A service whose command is a profile's and whose deadline is the request's.
fn world() -> World {
    let mut spec = spec(2, 1, 0);
    spec.origins = vec![
        origin("command", Source::Profile("web".to_owned())),
        origin("rollout.progress_deadline", Source::Request(0)),
    ];
    World::complete(&spec)
}

#[test]
fn origins_follow_versions_and_settings() {
    let mut world = world();
    assert_eq!(source(&world.record, "command"), "profile web");
    let deadline = "rollout.progress_deadline";
    assert_eq!(source(&world.record, deadline), "request of version 1");

    // Only the template changes: the settings keep where theirs came from.
    let mut spec = world.record.resolved();
    spec.template = template("v2");
    spec.origins = vec![
        origin("command", Source::Request(0)),
        origin(deadline, Source::Project("shop".to_owned())),
    ];
    let update = |spec: xce_model::spec::ServiceSpec| Command::Update {
        spec: Box::new(spec),
        take_count: false,
    };
    world.command(update(spec)).expect("it is good");
    assert_eq!(source(&world.record, "command"), "request of version 2");
    assert_eq!(source(&world.record, deadline), "request of version 1");
    world.run_for(60_000);

    // Only a setting changes: it is named by the version that is current, and nothing restarts.
    let mut spec = world.record.resolved();
    spec.settings.rollout.progress_deadline = Millis::seconds(99);
    spec.origins = vec![origin(deadline, Source::Request(0))];
    world.command(update(spec)).expect("it is good");
    assert_eq!(world.record.current().number, 2);
    assert_eq!(source(&world.record, "command"), "request of version 2");
    assert_eq!(source(&world.record, deadline), "request of version 2");

    // A copy of an earlier version has that one's.
    let back = Command::Rollback { to: Some(1) };
    world.command(back).expect("it is good");
    assert_eq!(world.record.current().number, 3);
    assert_eq!(source(&world.record, "command"), "profile web");
    world.run_for(60_000);
    world.command(Command::Restart).expect("it is good");
    assert_eq!(source(&world.record, "command"), "profile web");
}

#[test]
fn single_values_are_refused_on_top_of_what_is_no_longer_so() {
    let mut world = world();
    let amend = |world: &World, base: Base, text: &str| Command::Amend {
        spec: Box::new(xce_model::spec::ServiceSpec {
            replicas: None,
            template: template(text),
            ..world.record.resolved()
        }),
        base,
        take_count: false,
    };
    let base = Base::of(&world.record);
    world
        .command(amend(&world, base, "v2"))
        .expect("nothing came between");
    assert_eq!(world.record.current().number, 2);
    let refused = world.command(amend(&world, base, "v3")).unwrap_err();
    assert_eq!(refused.code, "changed");
    assert_eq!(world.record.current().number, 2);
    let base = Base::of(&world.record);
    world
        .command(amend(&world, base, "v3"))
        .expect("it is good");
    assert_eq!(world.record.current().number, 3);
}
