use super::*;

#[test]
fn job_ids_round_trip_and_name_what_is_wrong() {
    for text in ["1", "17", "17[3]", "18446744073709551615[0]"] {
        assert_eq!(text.parse::<JobId>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "x",
        "17[",
        "17[x]",
        "17[4294967295]",
        "-1",
        "1 2",
        "17[3]x",
    ] {
        let error = text.parse::<JobId>().unwrap_err().to_string();
        assert!(error.contains("17[3] for an element"), "{error}");
    }
}

#[test]
fn durations_and_sizes_need_units() {
    assert_eq!("10s".parse(), Ok(Millis(10_000)));
    assert_eq!("500ms".parse(), Ok(Millis(500)));
    assert_eq!("1h 30m".parse(), Ok(Millis(5_400_000)));
    assert_eq!("0".parse(), Ok(Millis(0)));
    for text in ["10", "10 parsecs", "-1s", "", "1ns", "200000y"] {
        assert!(text.parse::<Millis>().is_err(), "{text}");
    }
    assert_eq!("512MiB".parse(), Ok(Bytes(512 << 20)));
    assert_eq!("1GB".parse(), Ok(Bytes(1_000_000_000)));
    for text in ["512", "1 potato", "-1MiB", ""] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
    assert_eq!(Bytes(512 << 20).to_string(), "512MiB");
    assert_eq!(Millis(1500).to_string(), "1s 500ms");
}

#[test]
fn processors_are_bounded() {
    assert_eq!("0.5".parse(), Ok(MilliCpu(500)));
    assert_eq!("2".parse(), Ok(MilliCpu(2000)));
    for text in ["0", "-1", "nan", "inf", "1e9", "two"] {
        assert!(text.parse::<MilliCpu>().is_err(), "{text}");
    }
}

#[test]
fn names_are_checked() {
    for name in ["web", "a", "0", "a.b_c-d", &"x".repeat(128)] {
        assert_eq!(limits::check_name("service", name), Ok(()), "{name}");
    }
    for name in [
        "",
        "Web",
        "-a",
        ".a",
        "a b",
        "a\nb",
        "ä",
        &"x".repeat(129),
        &"x".repeat(10_000),
    ] {
        let refusal = limits::check_name("service", name).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Usage);
        assert!(
            refusal.text.len() < 400 && !refusal.text.contains('\n'),
            "{}",
            refusal.text
        );
    }
}
