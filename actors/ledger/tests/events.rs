//! One sample of each event that a group can be decided on, and its bytes in a group.

use std::path::Path;

use xce_host::rules::{Command as HostCommand, Patience};
use xce_model::{Cause, ClusterTime, Incarnation, JobId, Millis, ServiceId, WallTime};
use xce_replica::rules::Command as JobCommand;
use xce_service::rules::{Command as ServiceCommand, Which};

use super::golden::{from_hexadecimal, hexadecimal};
use super::samples::{inventory, remnant, service_spec};
use crate::{Group, GroupEvent, Joining};

fn service_commands() -> Vec<ServiceCommand> {
    vec![
        ServiceCommand::Scale {
            desired: 3,
            remove: vec![JobId::single(7)],
        },
        ServiceCommand::Kill {
            which: Which::Job(JobId::single(8)),
            cause: Cause::TermOwner,
        },
        ServiceCommand::Kill {
            which: Which::Index(2),
            cause: Cause::TermAdmin,
        },
        ServiceCommand::Delete,
        ServiceCommand::Update {
            spec: Box::new(service_spec()),
            take_count: true,
        },
        ServiceCommand::Pause,
        ServiceCommand::Resume,
        ServiceCommand::Rollback { to: Some(2) },
        ServiceCommand::Restart,
    ]
}

pub(super) fn samples() -> Vec<GroupEvent> {
    let host = || "h1".to_owned();
    let mut events = vec![
        GroupEvent::ServiceChanged(ServiceId(1)),
        GroupEvent::ServiceDue(ServiceId(2)),
        GroupEvent::Planned { nth: 3 },
        GroupEvent::PlannedAhead {
            nth: 4,
            host: host(),
        },
        GroupEvent::HostSilent {
            host: host(),
            silent: Millis(5),
            patience: Box::new(Patience {
                beat: Millis(6),
                grace: Millis(7),
                away_max: Millis(8),
            }),
        },
        GroupEvent::HostBeat {
            host: host(),
            disk_full: true,
        },
        GroupEvent::HostLeft { host: host() },
        GroupEvent::HostJoined(Box::new(Joining {
            inventory: inventory(),
            connected: Some(Incarnation([9; 16])),
            runs: vec![remnant()],
            spool: (3, 4),
        })),
        GroupEvent::CleanUp { keep: Millis(10) },
        GroupEvent::HostDrainDue { host: "w1".into() },
    ];
    let of_service = |command| GroupEvent::ServiceCommand {
        service: ServiceId(11),
        command: Box::new(command),
    };
    events.extend(service_commands().into_iter().map(of_service));
    let of_job = |command| GroupEvent::JobCommand {
        job: JobId::element(12, 13),
        command,
    };
    let of_jobs = [
        JobCommand::Kill(Cause::TermOwner),
        JobCommand::Hold,
        JobCommand::Release,
        JobCommand::Requeue,
        JobCommand::Suspend,
        JobCommand::Resume,
        JobCommand::ConfirmDead,
    ];
    events.extend(of_jobs.into_iter().map(of_job));
    let of_host = |command| GroupEvent::HostCommand {
        host: host(),
        command: Box::new(command),
    };
    let of_hosts = [
        HostCommand::Close("a reason".into()),
        HostCommand::Reopen,
        HostCommand::Remove,
        HostCommand::ConfirmDead,
        HostCommand::Drain(Some(Millis(7)), "a new disk".into()),
        HostCommand::Undrain,
    ];
    events.extend(of_hosts.into_iter().map(of_host));
    events
}

fn group(event: GroupEvent) -> Group {
    Group::new(ClusterTime(1), WallTime(2), "sample").decided_on(3, event)
}

/// `XCE_GOLDEN=write` writes the file when it is missing; an existing one is never replaced.
#[test]
fn events_of_every_version_stay_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/event-v1.hex");
    let written: Vec<String> = samples()
        .into_iter()
        .map(|event| hexadecimal(&group(event).encode()))
        .collect();
    let text = written.join("\n");
    if !path.exists() && std::env::var("XCE_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).expect("event-v1");
    assert_eq!(golden, text, "an event is written otherwise than before");
    for (bytes, event) in golden.split("\n\n").zip(samples()) {
        assert_eq!(Group::decode(&from_hexadecimal(bytes)), Ok(group(event)));
    }
}

#[test]
fn damage_of_an_event_is_named() {
    for event in samples() {
        let bytes = group(event.clone()).encode();
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x10;
            if let Ok(read) = Group::decode(&wrong) {
                assert_eq!(read, group(event.clone()), "{event:?} at {place}");
            }
        }
    }
}

/// What an event costs in the log, beside the group of one placement that carries it.
#[test]
fn an_event_costs_little() {
    for event in samples().into_iter().take(4) {
        let mut bare = group(event.clone());
        bare.event = None;
        let cost = group(event.clone()).encode().len() - bare.encode().len();
        assert!(cost <= 64, "{event:?} costs {cost} bytes");
    }
}
