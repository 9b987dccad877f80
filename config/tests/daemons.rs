//! Settings of the daemons: sources, faults, and the reference.

use std::collections::BTreeSet;
use std::path::Path;

use xce_model::{MilliCpu, Millis};

use crate::option::Settings;
use crate::{ClientConfig, ControllerConfig, Home, SchedulerConfig, Sources, WorkerConfig, load};

fn home() -> Home {
    Home::new("/home/ada/.xce")
}

/// Loads from a text, variables and flags.
fn loaded<S: Settings>(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<S, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daemon.toml");
    std::fs::write(&file, text).unwrap();
    let owned = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let sources = Sources {
        file: Some(file),
        environment: owned(environment),
        flags: owned(flags),
    };
    load(&home(), &sources).map_err(|faults| faults.to_string())
}

#[test]
fn nothing_given_means_the_defaults() {
    assert_eq!(
        loaded("", &[], &[]),
        Ok(ControllerConfig::defaults(&home()))
    );
    assert_eq!(loaded("", &[], &[]), Ok(WorkerConfig::defaults(&home())));
    assert_eq!(loaded("", &[], &[]), Ok(ClientConfig::defaults(&home())));
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_the_defaults() {
    let file = "cluster = \"file\"\n[hosts]\nbeat = \"3s\"\ngrace = \"30s\"\n";
    let environment = [
        ("XCE_CONTROLLER_HOSTS__BEAT", "4s"),
        // The name that it had in version 1.
        ("XCE_CONTROLLER_HOST_GRACE", "40s"),
        ("XCE_CONTROLLER_CHAOS__ENABLED", "true"),
        ("XCE_WORKER_NAME", "not for a controller"),
        ("XCE_JOB", "7"),
    ];
    let config: ControllerConfig = loaded(
        file,
        &environment,
        &[("host_grace", "50s"), ("listen", "0.0.0.0:1")],
    )
    .unwrap();
    let defaults = ControllerConfig::defaults(&home());
    let wanted = ControllerConfig {
        cluster: "file".to_owned(),
        hosts: crate::controller::HostsConfig {
            beat: Millis(4000),
            grace: Millis(50_000),
            ..defaults.hosts
        },
        chaos: crate::controller::ChaosConfig { enabled: true },
        listen: "0.0.0.0:1".parse().unwrap(),
        ..ControllerConfig::defaults(&home())
    };
    assert_eq!(config, wanted);
}

#[test]
fn texts_of_the_environment_become_what_the_option_holds() {
    let environment = [
        ("XCE_WORKER_CPUS", "1.5"),
        ("XCE_WORKER_MEMORY", "1GiB"),
        ("XCE_WORKER_NAME", "123"),
        ("XCE_WORKER_CONTROLLERS", "127.0.0.1:1, [::1]:2"),
        ("XCE_WORKER_PORTS__FIRST", "21000"),
    ];
    let config: WorkerConfig = loaded("[labels]\nzone = \"a\"\n", &environment, &[]).unwrap();
    assert_eq!(config.cpus, Some(MilliCpu(1500)));
    assert_eq!(config.memory.map(|memory| memory.0), Some(1 << 30));
    assert_eq!(config.name, "123");
    assert_eq!(config.controllers, ["127.0.0.1:1", "[::1]:2"]);
    assert_eq!((config.ports.first, config.ports.last), (21_000, 29_999));
    assert_eq!(config.labels["zone"], "a");
}

#[test]
fn unknown_options_of_all_sources_are_reported_together() {
    let text = loaded::<ControllerConfig>(
        "hostgrace = \"1s\"\n[snapshot]\nevery = 1\n",
        &[("XCE_CONTROLLER_BEET", "1s")],
        &[("cluster_name", "x")],
    )
    .unwrap_err();
    for wanted in [
        "daemon.toml: line 1, column 1: unknown field `hostgrace`; did you mean `host_grace`? (allowed: ",
        "line 3, column 1: unknown field `every` in `snapshot` (allowed: every_entries, every_bytes)",
        "environment: `XCE_CONTROLLER_BEET` names no option",
        "flags: `cluster_name` names no option",
    ] {
        assert!(text.contains(wanted), "wanted {wanted}\ngot {text}");
    }
}

#[test]
fn a_wrong_value_is_named_with_its_place_and_what_is_wanted() {
    let text =
        loaded::<ControllerConfig>("cluster = \"x\"\n[hosts]\nbeat = 2\n", &[], &[]).unwrap_err();
    for wanted in [
        "daemon.toml: line 3, column 8: `hosts.beat`: ",
        "duration with its unit, 100ms to 1m",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    let text = loaded::<ControllerConfig>("[chaos]\nenabled = \"yes\"\n", &[], &[]).unwrap_err();
    assert!(
        text.contains("line 2, column 11: `chaos.enabled`: "),
        "{text}"
    );
    let environment = [("XCE_CONTROLLER_LISTEN", "nowhere")];
    let text = loaded::<ControllerConfig>("", &environment, &[]).unwrap_err();
    assert!(text.contains("environment: `listen`: "), "{text}");
    let text = loaded::<ControllerConfig>("beat = \n", &[], &[]).unwrap_err();
    assert!(
        text.contains("line 1, column ") && text.contains("not valid TOML"),
        "{text}"
    );
}

#[test]
fn all_values_out_of_range_are_reported_together() {
    let file = "config_version = 9\ncluster = \"X\"\nkeep_ended = \"1s\"\n\
                [snapshot]\nevery_entries = 1\nevery_bytes = \"1KiB\"\n[log]\nlevel = \"loud=x=y\"\n\
                [hosts]\nbeat = \"10s\"\n";
    let text = loaded::<ControllerConfig>(file, &[], &[]).unwrap_err();
    for wanted in [
        "line 1, column 18: `config_version` is 9; this program reads versions 1 to 2",
        "cluster `X` is not a name",
        "`hosts.grace` is 20s; allowed: 40s to 1day",
        "line 3, column 14: `keep_ended` is 1s; allowed: 1m to ",
        "line 5, column 17: `snapshot.every_entries` is 1; allowed: 100 to 100000000",
        "`keep_ended` is 1s; allowed: 1m to ",
        "`snapshot.every_entries` is 1; allowed: 100 to 100000000",
        "`snapshot.every_bytes` is 1KiB; allowed: 1MiB to 1TiB",
        "`log.level`: ",
    ] {
        assert!(text.contains(wanted), "wanted {wanted}\ngot {text}");
    }
    let file = "name = \"\"\ncontrollers = [\"here\"]\nmemory = \"1MiB\"\n\
                [ports]\nfirst = 9\nlast = 8\n[labels]\nX = \"\\n\"\n";
    let text = loaded::<WorkerConfig>(file, &[], &[]).unwrap_err();
    for wanted in [
        "`name`: host `` is not a name",
        "`here` is not an `address:port`",
        "`memory` is 1MiB; allowed: 16MiB to 1024TiB",
        "`ports` are 9 to 8",
        "label `X` is not a name",
        "no control characters",
    ] {
        assert!(text.contains(wanted), "wanted {wanted}\ngot {text}");
    }
    let text = loaded::<ClientConfig>("controllers = []\ncluster = \"x\"\n", &[], &[]).unwrap_err();
    assert!(
        text.contains("has 0 addresses") && text.contains("`cluster`: `x` is not"),
        "{text}"
    );
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let sources = Sources {
        file: Some("/nonexistent/x.toml".into()),
        ..Sources::default()
    };
    let text = load::<ClientConfig>(&home(), &sources)
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("/nonexistent/x.toml: cannot be read: "),
        "{text}"
    );
}

#[test]
fn the_file_that_a_client_gets_means_the_same_settings() {
    let config = ClientConfig {
        controllers: vec!["127.0.0.1:9".to_owned(), "[::1]:9".to_owned()],
        cluster: Some("00112233445566778899aabbccddeeff".to_owned()),
        identity_dir: "/with \"quotes\"/client".into(),
        ..ClientConfig::defaults(&home())
    };
    assert_eq!(loaded(&config.to_file(), &[], &[]), Ok(config.clone()));
    assert_eq!(config.addresses().len(), 2);
}

/// Dotted names of all values of a JSON object.
fn keys(value: &serde_json::Value, prefix: &str, all: &mut BTreeSet<String>) {
    let fields = value.as_object().filter(|fields| !fields.is_empty());
    let Some(fields) = fields else {
        all.insert(prefix.to_owned());
        return;
    };
    for (name, inner) in fields {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        keys(inner, &path, all);
    }
}

/// Every option is described, the reference file is as generated, and it means the defaults.
fn check_reference<S: Settings + PartialEq + std::fmt::Debug>() {
    let mut fields = BTreeSet::new();
    keys(
        &serde_json::to_value(S::defaults(&home())).unwrap(),
        "",
        &mut fields,
    );
    let described: BTreeSet<String> = S::OPTIONS
        .iter()
        .map(|option| option.key.to_owned())
        .collect();
    assert_eq!(described, fields);
    let text = crate::reference::reference::<S>();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("reference/{}.toml", S::ROLE));
    if std::env::var_os("XCE_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept,
        text,
        "run this test with XCE_WRITE_REFERENCE=1 to write {}",
        path.display()
    );
    assert_eq!(loaded::<S>(&text, &[], &[]), Ok(S::defaults(&home())));
}

#[test]
fn the_references_are_as_generated_and_mean_the_defaults() {
    check_reference::<ControllerConfig>();
    check_reference::<WorkerConfig>();
    check_reference::<ClientConfig>();
    check_reference::<SchedulerConfig>();
}

#[test]
fn the_home_is_what_is_given_or_named_or_lies_in_the_home_directory() {
    let variable = |name: &str| match name {
        "XCE_HOME" => Some("/named".to_owned()),
        "HOME" => Some("/home/ada".to_owned()),
        _ => None,
    };
    let empty = |name: &str| match name {
        "XCE_HOME" => Some(String::new()),
        other => variable(other),
    };
    assert_eq!(
        Home::find(Some(Path::new("/given")), variable),
        Some(Home::new("/given"))
    );
    assert_eq!(Home::find(None, variable), Some(Home::new("/named")));
    assert_eq!(Home::find(None, empty), Some(Home::new("/home/ada/.xce")));
    assert_eq!(Home::find(None, |_| None), None);
    assert_eq!(
        Home::new("/x").client_file(),
        Path::new("/x/client/client.toml")
    );
}
