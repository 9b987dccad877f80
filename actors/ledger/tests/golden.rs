//! Bytes that must never change their meaning: layouts and whole groups.

use std::fmt::Write as _;
use std::path::Path;

use xce_model::{ClusterTime, WallTime};

use super::{events, sample_rows, samples};
use crate::encode::{
    CLOCK_FACT, EVENT, HEAD, HOST_FACT, JOB_FACT, MEMBER_FACT, POLICY_FACT, SERVICE_FACT,
    SESSION_FACT,
};
use crate::envelope::{self, Body, Shape};
use crate::feed::{FORGET, GONE};
use crate::past::{MEMBER_FACT_V1, META_V1};
use crate::snapshot::{
    ARRAY, HOST, JOB, META, OPERATION, POLICY, SERVICE, SESSION, SPEC, TOMBSTONES,
};
use crate::{DecodeError, Fact, Group, MemberFact};

fn layout<T: Body>(value: &T) -> u32 {
    crc32c::crc32c(&envelope::archive(value))
}

#[test]
fn layouts_are_pinned() {
    let found: Vec<(Shape, u32)> = vec![
        (HEAD, layout(&samples::head())),
        (EVENT, layout(&events::samples())),
        (JOB_FACT, layout(&samples::job_facts())),
        (HOST_FACT, layout(&samples::host_facts())),
        (SERVICE_FACT, layout(&samples::service_facts())),
        (SESSION_FACT, layout(&samples::session_facts())),
        (CLOCK_FACT, layout(&samples::clock_facts())),
        (POLICY_FACT, layout(&samples::policy_facts())),
        (MEMBER_FACT, layout(&samples::member_facts())),
        (MEMBER_FACT_V1, layout(&samples::member_facts_v1())),
        (META, layout(&sample_rows::meta())),
        (META_V1, layout(&sample_rows::meta_v1())),
        (SPEC, layout(&sample_rows::spec_row())),
        (SERVICE, layout(&sample_rows::service_row())),
        (JOB, layout(&sample_rows::job_row())),
        (ARRAY, layout(&sample_rows::array_row())),
        (HOST, layout(&sample_rows::host_row())),
        (SESSION, layout(&sample_rows::session_row())),
        (POLICY, layout(&samples::policy_row())),
        (OPERATION, layout(&sample_rows::operation_row())),
        (TOMBSTONES, layout(&sample_rows::tombstones_row())),
        (GONE, layout(&sample_rows::gone_rows())),
        (FORGET, layout(&sample_rows::forget_row())),
    ];
    let mut wrong = String::new();
    for (shape, layout) in found {
        if shape.fingerprint != layout {
            let _ = writeln!(wrong, "{}: {layout:#010x}", shape.name);
        }
    }
    assert!(
        wrong.is_empty(),
        "these layouts changed: each needs a new version with a conversion from the old one, and this \
         fingerprint\n{wrong}"
    );
}

fn groups() -> Vec<(&'static str, Group)> {
    let group = |facts: Vec<Fact>| {
        let mut group = Group::new(ClusterTime(1), WallTime(2), "sample");
        group.facts = facts;
        group
    };
    let head = samples::head();
    let mut first = group(Vec::new()).on_behalf(&head.principal, head.operation);
    first.preconditions = head.preconditions;
    vec![
        ("head-v1", first),
        (
            "job-v1",
            group(samples::job_facts().into_iter().map(Fact::from).collect()),
        ),
        (
            "host-v1",
            group(samples::host_facts().into_iter().map(Fact::from).collect()),
        ),
        (
            "service-v1",
            group(
                samples::service_facts()
                    .into_iter()
                    .map(Fact::from)
                    .collect(),
            ),
        ),
        (
            "session-v1",
            group(
                samples::session_facts()
                    .into_iter()
                    .map(Fact::from)
                    .collect(),
            ),
        ),
        (
            "clock-v1",
            group(samples::clock_facts().into_iter().map(Fact::from).collect()),
        ),
        (
            "policy-v1",
            group(
                samples::policy_facts()
                    .into_iter()
                    .map(Fact::from)
                    .collect(),
            ),
        ),
        (
            "member-v2",
            group(
                samples::member_facts()
                    .into_iter()
                    .map(Fact::from)
                    .collect(),
            ),
        ),
    ]
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

pub(super) fn from_hexadecimal(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(text, 16).unwrap()
    };
    digits.chunks(2).map(byte).collect()
}

/// `XCE_GOLDEN=write` writes files that are missing; an existing one is never replaced.
#[test]
fn groups_of_every_version_stay_readable() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    for (name, group) in groups() {
        let path = directory.join(format!("{name}.hex"));
        let bytes = group.encode();
        if !path.exists() && std::env::var("XCE_GOLDEN").is_ok_and(|value| value == "write") {
            std::fs::write(&path, hexadecimal(&bytes)).unwrap();
        }
        let golden = from_hexadecimal(&std::fs::read_to_string(&path).expect(name));
        assert_eq!(Group::decode(&golden).expect(name), group, "{name}");
        assert_eq!(golden, bytes, "{name} is written otherwise than before");
    }
}

/// What an earlier program wrote is read for ever, and can still be written where it has to be read.
#[test]
fn earlier_forms_stay_readable_and_can_be_written() {
    let mut group = Group::new(ClusterTime(1), WallTime(2), "sample");
    let old = samples::member_facts_v1().into_iter();
    group.facts = old.map(|fact| Fact::from(MemberFact::from(fact))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/member-v1.hex");
    let bytes = group.encode_at(1).unwrap();
    if !path.exists() && std::env::var("XCE_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, hexadecimal(&bytes)).unwrap();
    }
    let golden = from_hexadecimal(&std::fs::read_to_string(path).unwrap());
    assert_eq!(Group::decode(&golden), Ok(group.clone()));
    assert_eq!(bytes, golden);
    assert_ne!(group.encode(), golden);
    for fact in samples::member_facts().into_iter().skip(1) {
        let mut group = Group::new(ClusterTime(1), WallTime(2), "sample");
        group.facts = vec![fact.into()];
        let error = group.encode_at(1).unwrap_err();
        assert_eq!(error.level, 1);
        assert_eq!(Group::decode(&group.encode_at(2).unwrap()), Ok(group));
    }
}

#[test]
fn damage_is_named_and_never_accepted() {
    for (name, group) in groups() {
        let bytes = group.encode();
        for length in 0..bytes.len() {
            assert!(
                Group::decode(&bytes[..length]).is_err(),
                "{name} cut at {length}"
            );
        }
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x10;
            if let Ok(read) = Group::decode(&wrong) {
                // Only padding may differ without being seen.
                assert_eq!(read, group, "{name} at {place}");
            }
        }
        let mut longer = bytes.clone();
        longer.extend_from_slice(&[0; 16]);
        assert!(Group::decode(&longer).is_err(), "{name}");
    }
    let huge = [1_u8, 0, 1, 1, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0];
    assert!(matches!(
        Group::decode(&huge),
        Err(DecodeError::Short { .. })
    ));
}

#[test]
fn newer_and_unknown_facts_stop_the_reader_by_name() {
    let mut bytes = groups().remove(5).1.encode();
    let head = Group::new(ClusterTime(1), WallTime(2), "sample");
    let place = head.encode().len();
    bytes[place + 2] = 7;
    let error = Group::decode(&bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "clock fact has version 7, this program reads up to 1: use a newer one"
    );
    bytes[place] = 99;
    let error = Group::decode(&bytes).unwrap_err().to_string();
    assert!(
        error.starts_with("record kind 99 version 7 is unknown here"),
        "{error}"
    );
}

#[test]
fn small_facts_are_small() {
    let ready = xce_replica::JobFact::Ready {
        job: xce_model::JobId::single(17),
        run: 1,
        start: 1,
    };
    let bytes = Group::new(ClusterTime(1), WallTime(2), "report")
        .with(ready)
        .encode();
    assert!(bytes.len() <= 160, "{} bytes", bytes.len());
}
