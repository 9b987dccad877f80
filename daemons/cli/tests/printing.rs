//! What is printed of fixed objects.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use xce_host::view::HostView;
use xce_replica::view::JobView;
use xce_service::view::ServiceView;
use xce_session::wire::{Changes, ClusterView};

use super::views::{NOON_MS, actor, host, job, service};
use crate::cli::arguments::Form;
use crate::cli::present::{self, span};
use crate::cli::print::{Look, Row, list_text, pairs_text, visible};
use crate::cli::watch::rendered;

fn look(wide: bool) -> Look {
    let noon = Timestamp::from_millisecond(NOON_MS).unwrap();
    Look {
        wide,
        coloured: false,
        now: noon.to_zoned_datetime(TimeZone::UTC),
    }
}

fn listed<T: Row>(form: Form, rows: &[T]) -> String {
    list_text(form, rows, &look(form == Form::Wide)).unwrap()
}

#[test]
fn services_in_a_table() {
    let wanted = "\
NAME  CONDITION  DESIRED  LIVE  READY  AVAILABLE  STOPPING  VERSION  REASON
web   rolling    2        2     1      1          0         1        1 of 2 available
";
    assert_eq!(listed(Form::Table, &[service()]), wanted);
    let wanted = "\
NAME  CONDITION  DESIRED  LIVE  READY  AVAILABLE  STOPPING  VERSION  ID  PROJECT  OWNER  PROFILE  CREATED   REASON
web   rolling    2        2     1      1          0         1        3   default  ada    service  12:00:00  1 of 2 available
";
    assert_eq!(listed(Form::Wide, &[service()]), wanted);
    assert_eq!(listed(Form::Name, &[service()]), "web\n");
}

#[test]
fn an_empty_list_is_a_heading_or_an_empty_list() {
    let none: &[ServiceView] = &[];
    assert!(listed(Form::Table, none).starts_with("NAME  CONDITION"));
    assert_eq!(listed(Form::Table, none).lines().count(), 1);
    assert_eq!(listed(Form::Json, none), "[]\n");
    assert_eq!(listed(Form::Yaml, none), "[]\n");
    assert_eq!(listed(Form::Name, none), "");
}

#[test]
fn a_service_for_people() {
    let wanted = "\
service:   web (id 3, project default)
condition: rolling: 1 of 2 available
also:      short (1 missing)
replicas:  2 desired, 2 live, 1 ready, 1 available, 0 stopping
version:   1, rolling: 2 updated (1 available), 0 old, stuck in 9m 50s
held back: waiting for job 11
owner:     ada, profile service
created:   12:00:00

INDEX  JOB  RUN  HOST  STATE  READY  PID   RESTARTS  REASON
0      10   1    w1    RUN    yes    4000  0
1      11   1    -     PEND   no     -     0         no host has 0.1 cpus free

PORT  ENDPOINT         STATE  REPLICA
http  127.0.0.1:20000  ready  0

TIME      EVENT    TEXT
12:00:00  created  created by ada
";
    assert_eq!(present::service::details(&service(), &look(false)), wanted);
    let wide = present::service::details(&service(), &look(true));
    assert!(
        wide.contains("VERSION  WHY     OUTCOME  AUTHOR  TIME"),
        "{wide}"
    );
}

#[test]
fn jobs_in_a_table_with_control_characters_shown() {
    let wanted = "\
ID  NAME  STATE  RUN  HOST              SUBMITTED  REASON
17  sim   EXIT   2    w2 (unreachable)  11:58:00   killed by its owner
";
    assert_eq!(listed(Form::Table, &[job()]), wanted);
    let wide = listed(Form::Wide, &[job()]);
    assert!(
        wide.contains("Feb 28 11:59  -      signal 9 (TERM_OWNER)"),
        "{wide}"
    );
    assert!(
        wide.contains("sh -c 'echo \\u{1b}[31m '\\''x'\\'''"),
        "{wide}"
    );
    assert_eq!(listed(Form::Name, &[job()]), "17\n");
}

#[test]
fn a_job_for_people() {
    let wanted = "\
job:       17 sim (project default, queue default)
state:     EXIT: killed by its owner
code:      TERM_OWNER
array:     1-4 (4 elements, 2 at once): 1 pending, 1 running, 1 done, 1 exited
run:       2, 1 restarts in place
host:      w2 (unreachable)
pid:       77
ports:     http=20001
exit:      signal 9 (TERM_OWNER)
command:   sh -c 'echo \\u{1b}[31m '\\''x'\\'''
resources: 1 cpus, 256MiB
owner:     ada
submitted: 11:58:00
started:   Feb 28 11:59
stderr:
  line one
  line two\\u{7}
";
    assert_eq!(present::job::details(&job(), &look(false)), wanted);
}

#[test]
fn hosts_in_a_table() {
    let wanted = "\
NAME  STATE  TAKES JOBS  JOBS  CPUS      MEMORY             REASON
w1    up     no          2     0.5 of 2  512MiB of 23.5GiB  answers; closed by ada: broken fan
";
    assert_eq!(listed(Form::Table, &[host()]), wanted);
}

#[test]
fn actors_as_a_tree() {
    let actors = [
        actor("root", "", 1),
        actor("wal", "root", 1),
        actor("shard/1", "root", 1),
        actor("service/3", "shard/1", 1),
        actor("replica", "service/3", 12),
        actor("sessions", "root", 1),
        actor("lost/1", "elsewhere", 1),
        // Two that name each other are shown once each.
        actor("ring/a", "ring/b", 1),
        actor("ring/b", "ring/a", 1),
    ];
    let text = present::actor::tree(&actors, &look(false));
    let first: Vec<&str> = text
        .lines()
        .map(|line| line.split("  ").next().unwrap_or_default())
        .collect();
    let wanted = [
        "ACTOR",
        "root",
        "├─ wal",
        "├─ shard/1",
        "│  └─ service/3",
        "│     └─ replica x12",
        "└─ sessions",
        "lost/1",
        "ring/a",
        "└─ ring/b",
    ];
    let first: Vec<&str> = first
        .iter()
        .zip(text.lines())
        .map(|(_, line)| {
            let end = line
                .find("running")
                .or_else(|| line.find("STATE"))
                .unwrap_or(line.len());
            let label = line[..end].trim_end();
            // The kind stands in between.
            label
                .rsplit_once("  ")
                .map_or(label, |(label, _)| label.trim_end())
        })
        .collect();
    assert_eq!(first, wanted, "{text}");
    assert!(text.contains("1.5%  1h 2m"), "{text}");
}

#[test]
fn a_tree_as_deep_as_it_likes_is_printed() {
    let keys: Vec<String> = (0..600).map(|number| format!("a/{number}")).collect();
    let actors: Vec<_> = keys
        .windows(2)
        .map(|pair| actor(&pair[1], &pair[0], 1))
        .take(500)
        .collect();
    assert_eq!(
        present::actor::tree(&actors, &look(false)).lines().count(),
        501
    );
}

#[test]
fn json_has_the_documented_fields() {
    let names = |text: String| -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value[0].as_object().unwrap().keys().cloned().collect()
    };
    let service_fields = names(listed(Form::Json, &[service()]));
    for field in [
        "name",
        "id",
        "project",
        "desired",
        "live",
        "ready",
        "available",
        "stopping",
        "version",
        "condition",
        "reason",
        "replicas",
    ] {
        assert!(
            service_fields.iter().any(|name| name == field),
            "service.{field}"
        );
    }
    let job_fields = names(listed(Form::Json, &[job()]));
    for field in [
        "id",
        "name",
        "state",
        "terminal",
        "reason",
        "run",
        "host",
        "reachable",
        "exit",
        "submitted",
        "started",
        "ended",
    ] {
        assert!(job_fields.iter().any(|name| name == field), "job.{field}");
    }
    let value = serde_json::to_value(service()).unwrap();
    assert_eq!(value["condition"], json!("rolling"));
    let replica = json!({
        "index": 0, "job": "10", "version": 1, "run": 1, "host": "w1", "state": "RUN",
        "ready": true, "available": true, "reachable": true, "lost": false, "pid": 4000,
        "restarts": 0,
        "reason": ""
    });
    assert_eq!(value["replicas"][0], replica);
    let value = serde_json::to_value(job()).unwrap();
    assert_eq!(
        value["exit"],
        json!({ "code": null, "signal": 9, "cause": "TERM_OWNER" })
    );
    assert_eq!(
        (&value["state"], &value["terminal"]),
        (&json!("EXIT"), &json!(true))
    );
}

#[test]
fn machine_forms_hold_the_same_as_each_other_and_can_be_read_again() {
    let json: Vec<JobView> = serde_json::from_str(&listed(Form::Json, &[job()])).unwrap();
    assert_eq!(json, [job()]);
    let hosts: Vec<HostView> = serde_json::from_str(&listed(Form::Json, &[host()])).unwrap();
    assert_eq!(hosts, [host()]);
    let yaml = listed(Form::Yaml, &[host()]);
    assert!(
        yaml.contains("name: w1\n") && yaml.contains("takes_jobs: false\n"),
        "{yaml}"
    );
}

#[test]
fn the_cluster_for_people() {
    let cluster = ClusterView {
        cluster: "c".to_owned(),
        version: "0.1.0".to_owned(),
        role: "primary".to_owned(),
        term: 1,
        lsn: 9,
        time_ms: 61_000,
        services: 1,
        jobs: 3,
        pending: 1,
        hosts_up: 2,
        hosts: 2,
        sessions: 3,
        pid: 7,
        alarms: vec!["the disk is full".to_owned()],
        wal: vec![("syncs".to_owned(), "12".to_owned())],
        primary: "c1".to_owned(),
        primary_since: "2026-07-26T10:00:00.000Z".to_owned(),
        voters: 3,
        voters_up: 2,
        quorum: 2,
        epoch: 1,
        level: 2,
        ..ClusterView::default()
    };
    let wanted = "\
cluster:      c
controller:   primary, pid 7, version 0.1.0
position:     LSN 9, term 1
cluster time: 1m 1s
primary:      c1, since 2026-07-26T10:00:00.000Z
quorum:       2 of 3 controllers with a vote answer, 2 must agree
epoch:        1, feature level 2
hosts:        2 up of 2
services:     1
jobs:         3 not ended, 1 of them pending
sessions:     3
wal syncs:    12
alarm:        the disk is full
";
    assert_eq!(present::session::cluster(&cluster, &look(false)), wanted);
}

#[test]
fn changes_are_one_line_an_object() {
    let changes = Changes {
        lsn: 12,
        full: false,
        more: false,
        services: vec![service()],
        jobs: vec![job()],
        hosts: vec![host()],
        gone: vec!["job/3".to_owned()],
    };
    let wanted = "\
12 service/web rolling 1/2 available, 2 live, 0 stopping: 1 of 2 available
12 job/17 sim EXIT on w2: killed by its owner
12 host/w1 up: answers; closed by ada: broken fan
12 job/3 gone
";
    assert_eq!(rendered(Form::Table, &changes).unwrap(), wanted);
    let json = rendered(Form::Json, &changes).unwrap();
    assert_eq!(json.lines().count(), 1);
    assert_eq!(serde_json::from_str::<Changes>(&json).unwrap(), changes);
    assert!(
        rendered(Form::Name, &changes)
            .unwrap()
            .ends_with("host/w1\njob/3\n")
    );
}

#[test]
fn colours_only_where_they_are_wanted() {
    let coloured = Look {
        coloured: true,
        ..look(false)
    };
    assert!(
        list_text(Form::Table, &[job()], &coloured)
            .unwrap()
            .contains('\u{1b}')
    );
    assert!(!listed(Form::Table, &[job()]).contains('\u{1b}'));
    assert!(
        !list_text(Form::Json, &[host()], &coloured)
            .unwrap()
            .contains('\u{1b}')
    );
}

#[test]
fn small_parts() {
    let moments = [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (90_061_000, "1d 1h"),
        (3_600_500, "1h"),
    ];
    for (millis, text) in moments {
        assert_eq!(span(millis), text);
    }
    let now = look(false).now;
    assert_eq!(
        present::time("2025-03-01T11:58:00Z", &now),
        "2025-03-01 11:58"
    );
    assert_eq!(present::time("soon", &now), "soon");
    assert_eq!(visible("a\nb\u{1b}é"), "a\\nb\\u{1b}é");
    assert_eq!(
        pairs_text(&[("a", "x".to_owned()), ("bb", String::new())]),
        "a:  x\n"
    );
}
