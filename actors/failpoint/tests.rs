use std::collections::HashSet;
use std::time::Duration;

use crate::arm::{ArmError, Effect, parse};
use crate::{ALL, Point};

#[test]
fn names_are_plain_and_never_twice() {
    let mut names = HashSet::new();
    for point in ALL {
        let name = point.name();
        assert!(names.insert(name), "{name}");
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
        assert!(name.split('.').all(plain), "{name}");
        assert_eq!(Point::find(name), Some(*point));
    }
}

#[test]
fn what_is_given_comes_back_in_full() {
    let table = [
        ("", vec![]),
        (" , ", vec![]),
        ("wal.append.written=kill", vec!["wal.append.written=kill@1"]),
        (
            "wal.append.written=kill@3, spool.append.before=error,shim.exit.before=delay:200@2",
            vec![
                "wal.append.written=kill@3",
                "spool.append.before=error@1",
                "shim.exit.before=delay:200@2",
            ],
        ),
    ];
    for (text, expected) in table {
        let armed = parse(text, None).unwrap();
        let told: Vec<String> = armed.iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let table = [
        ("wal.append.written", "is not of the form"),
        (
            "wal.append=kill",
            "there is no point \"wal.append\"; there are spool.append.before, ",
        ),
        (
            "wal.append.written=die",
            "\"die\" is no action; there are kill, error and delay",
        ),
        ("wal.append.written=kill@0", "\"kill@0\" is no action"),
        ("wal.append.written=kill@x", "\"kill@x\" is no action"),
        ("wal.append.written=delay", "\"delay\" is no action"),
        (
            "wal.append.written=delay:600001",
            "\"delay:600001\" is no action",
        ),
        (
            "spool.send.after=error",
            "nothing at spool.send.after can fail",
        ),
    ];
    for (text, expected) in table {
        let error = parse(text, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn it_acts_at_its_hit_and_only_then() {
    let armed = parse("spool.append.before=delay:7@2", None).unwrap();
    let passes: Vec<_> = (0..4).map(|_| armed[0].pass()).collect();
    let effect = Some(Effect::Delay(Duration::from_millis(7)));
    assert_eq!(passes, [None, effect, None, None]);
}

#[test]
fn those_who_share_a_directory_act_once() {
    let directory = tempfile::tempdir().unwrap();
    let process = || parse("spool.append.before=error", Some(directory.path())).unwrap();
    let (first, second) = (process(), process());
    assert_eq!(first[0].pass(), Some(Effect::Error));
    assert_eq!(second[0].pass(), None);
    assert!(directory.path().join("spool.append.before").exists());
}

#[test]
fn a_process_is_armed_once_and_then_acts() {
    assert!(crate::check(Point::SpoolAppendBefore).is_ok());
    crate::arm_with("", None).unwrap();
    let told = crate::arm_with("spool.append.before=error@2", None).unwrap();
    assert_eq!(told, ["spool.append.before=error@2"]);
    assert_eq!(
        crate::arm_with("spool.append.before=error", None),
        Err(ArmError::Twice)
    );
    assert!(crate::check(Point::SpoolAppendBefore).is_ok());
    let error = crate::check(Point::SpoolAppendBefore).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28));
    assert!(crate::check(Point::SpoolAppendBefore).is_ok());
    crate::hit(Point::SpoolSent);
}
