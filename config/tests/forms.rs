//! Forms of settings files: old ones are read for ever, upgraded, and read anew by who runs.

use xce_model::{Bytes, Millis};

use crate::changes::{reload, to_file};
use crate::forms::{Upgrade, upgrade, version_of};
use crate::option::{CONFIG_VERSION, Settings};
use crate::{ClientConfig, ControllerConfig, Home, Sources, WorkerConfig, load_text};

fn home() -> Home {
    Home::new("/home/ada/.xce")
}

fn read<S: Settings>(text: &str) -> Result<S, String> {
    load_text(&home(), &Sources::default(), "daemon.toml", text)
        .map_err(|faults| faults.to_string())
}

const OLD: &str = "\
# Controllers of the site.
config_version = 1
cluster = \"site\"
# Beats are slow here.
beat = \"5s\" # as the network
host_grace = \"1m\"

keep_ended = \"2h\"
mass_loss = 30

[log]
level = \"warn\"
";

#[test]
fn a_file_of_version_1_is_read_by_its_names() {
    let config: ControllerConfig = read(OLD).unwrap();
    assert_eq!(config.config_version, CONFIG_VERSION);
    assert_eq!(
        (config.hosts.beat, config.hosts.grace),
        (Millis(5000), Millis(60_000))
    );
    assert_eq!(
        (config.hosts.mass_loss, config.keep_ended),
        (30, Millis(7_200_000))
    );
    // One that says no version may use the names of all.
    let mixed: ControllerConfig = read("beat = \"5s\"\n[hosts]\ngrace = \"1m\"\n").unwrap();
    assert_eq!(
        (mixed.hosts.beat, mixed.hosts.grace),
        (Millis(5000), Millis(60_000))
    );
    let twice = read::<ControllerConfig>("beat = \"5s\"\n[hosts]\nbeat = \"4s\"\n").unwrap_err();
    assert!(
        twice.contains("line 1") && twice.contains("given twice"),
        "{twice}"
    );
    let newer = read::<ControllerConfig>("config_version = 2\nhost_grace = \"1m\"\n").unwrap_err();
    assert!(newer.contains("line 2"), "{newer}");
    assert!(
        newer.contains("`host_grace` is `hosts.grace` since version 2"),
        "{newer}"
    );
    let unknown = read::<ControllerConfig>("config_version = 1\nbeet = \"1m\"\n").unwrap_err();
    assert!(unknown.contains("did you mean `beat`?"), "{unknown}");
}

fn upgraded<S: Settings + PartialEq>(text: &str) -> (u32, String, usize) {
    match upgrade::<S>(&home(), "daemon.toml", text).unwrap() {
        Upgrade::Text {
            from,
            text,
            renamed,
        } => (from, text, renamed.len()),
        Upgrade::Newest => panic!("{text} is of an old version"),
    }
}

#[test]
fn an_upgrade_renames_in_the_text_and_keeps_comments_and_meaning() {
    let (from, text, renamed) = upgraded::<ControllerConfig>(OLD);
    assert_eq!((from, renamed), (1, 3));
    let expected = "\
# Controllers of the site.
config_version = 2
cluster = \"site\"

keep_ended = \"2h\"

[log]
level = \"warn\"

[hosts]
# Beats are slow here.
beat = \"5s\" # as the network
grace = \"1m\"
mass_loss = 30
";
    assert_eq!(text, expected);
    assert_eq!(read::<ControllerConfig>(&text), read(OLD));
    assert_eq!(version_of(&text), Some(CONFIG_VERSION));
    let again = upgrade::<ControllerConfig>(&home(), "daemon.toml", &text);
    assert_eq!(again, Ok(Upgrade::Newest));
}

#[test]
fn upgrades_of_files_written_in_other_ways_keep_their_meaning() {
    for text in [
        "",
        "beat = \"5s\"",
        "config_version = 1\nbeat = '5s'\n[hosts] # more\n",
        "host_grace = \"1m\"\nhosts = { beat = \"3s\" }\n",
        "hosts.beat = \"3s\"\nkill_budget = \"2s\"\n[log]\nlevel = \"info\"\n",
        "\"beat\" = \"5s\"\r\naway_max = \"1h\"\r\n",
    ] {
        let before =
            read::<ControllerConfig>(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        match upgrade::<ControllerConfig>(&home(), "daemon.toml", text) {
            Ok(Upgrade::Text { text: new, .. }) => {
                assert_eq!(
                    read::<ControllerConfig>(&new),
                    Ok(before),
                    "{text}\n->\n{new}"
                );
                assert_eq!(version_of(&new), Some(CONFIG_VERSION), "{new}");
            }
            // What cannot be rewritten is left as it is, and says so.
            Err(faults) => assert!(!faults.to_string().is_empty()),
            Ok(Upgrade::Newest) => panic!("{text}"),
        }
    }
    let (_, text, _) = upgraded::<WorkerConfig>("name = \"w9\"\n");
    assert_eq!(text, "config_version = 2\nname = \"w9\"\n");
    let (_, text, _) =
        upgraded::<ClientConfig>("config_version = 1\ncontrollers = [\"127.0.0.1:9\"]\n");
    assert!(text.starts_with("config_version = 2\n"), "{text}");
}

#[test]
fn a_file_with_faults_is_not_upgraded_and_names_them_all() {
    let text = "beat = 7\nhost_grace = \"soon\"\nclutser = \"x\"\nkeep_ended = \"1s\"\n";
    let faults = upgrade::<ControllerConfig>(&home(), "c.toml", text)
        .unwrap_err()
        .to_string();
    for wanted in [
        "c.toml: line 1, column 8: `beat`: ",
        "c.toml: line 2, column 14: `host_grace`: ",
        "c.toml: line 3, column 1: unknown field `clutser`; did you mean `cluster`?",
        "c.toml: line 4, column 14: `keep_ended` is 1s; allowed: 1m to ",
    ] {
        assert!(faults.contains(wanted), "wanted {wanted}\ngot {faults}");
    }
}

#[test]
fn a_reload_applies_what_may_change_and_names_what_waits() {
    let running: ControllerConfig = read("").unwrap();
    let read: ControllerConfig = read(
        "keep_ended = \"2h\"\nlisten = \"127.0.0.1:9999\"\n[hosts]\naway_max = \"20m\"\nbeat = \"1s\"\n",
    )
    .unwrap();
    let done = reload(&running, &read);
    let seen: Vec<(&str, &str, bool)> = done
        .changes
        .iter()
        .map(|change| (change.key, change.to.as_str(), change.live))
        .collect();
    assert_eq!(
        seen,
        [
            ("listen", "127.0.0.1:9999", false),
            ("keep_ended", "2h", true),
            ("hosts.beat", "1s", false),
            ("hosts.away_max", "20m", true),
        ]
    );
    assert_eq!(done.running.keep_ended, Millis(7_200_000));
    assert_eq!(done.running.hosts.away_max, Millis(1_200_000));
    assert_eq!(done.running.hosts.beat, running.hosts.beat);
    assert_eq!(done.running.listen, running.listen);
    // The same once more: only what waits differs still.
    let again = reload(&done.running, &read);
    assert!(again.changes.iter().all(|change| !change.live), "{again:?}");
    assert!(reload(&running, &running).changes.is_empty());
}

#[test]
fn what_is_kept_of_running_settings_means_just_them() {
    let mut controller = ControllerConfig::defaults(&home());
    controller.hosts.grace = Millis(77_000);
    controller.snapshot.every_bytes = Bytes(3 << 20);
    assert_eq!(read(&to_file(&controller, "Kept.")), Ok(controller));
    let mut worker = WorkerConfig::defaults(&home());
    worker
        .labels
        .insert("zone".to_owned(), "a \"b\"".to_owned());
    worker.memory = Some(Bytes(1 << 30));
    assert_eq!(read(&to_file(&worker, "Kept.\nOn two lines.")), Ok(worker));
    assert_eq!(
        read(&to_file(&ClientConfig::defaults(&home()), "")),
        Ok(ClientConfig::defaults(&home()))
    );
}
