//! Settings of daemons: read anew while they run, checked, and brought up to the newest form.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use xce_tests::harness::cli::Answer;
use xce_tests::harness::three::Three;
use xce_tests::harness::{cli, patience, processes};

use super::word;

fn xced(words: &[&str]) -> Answer {
    let mut command = std::process::Command::new(xce_tests::harness::binaries::path("xced"));
    command.args(words);
    cli::run(command, None)
}

/// Replaces a line of a file of settings, or adds it at the top.
fn set(file: &Path, key: &str, line: &str) {
    let text = fs::read_to_string(file).expect("the file is there");
    let others: Vec<&str> = text.lines().filter(|line| !line.starts_with(key)).collect();
    fs::write(file, format!("{line}\n{}\n", others.join("\n"))).expect("it can be written");
}

#[test]
fn f92_a_broken_file_changes_nothing_and_a_good_one_is_applied() {
    let cluster = Three::one_with("config-reload", &[]);
    let cli = cluster.cli();
    let file = cluster.home("c1").join("controller.toml");
    let kept = cluster.home("c1").join("controller/settings.running.toml");
    assert!(cli.good(&["config", "reload"]).contains("nothing differs"));
    set(&file, "keep_ended", "keep_ended = \"2h\"");
    set(&file, "advertise", "advertise = \"127.0.0.1:4711\"");
    let told = cli.good(&["config", "reload"]);
    assert!(told.contains("keep_ended: 1day -> 2h, holds now"), "{told}");
    assert!(
        told.contains("holds when the controller is started again"),
        "{told}"
    );
    let running = fs::read_to_string(&kept).expect("it is kept");
    assert!(running.contains("keep_ended = \"2h\""), "{running}");
    set(&file, "keep_ended", "keep_ended = \"1s\"");
    set(&file, "chaos", "chaos = { enbled = true }");
    let text = cli.run(&["config", "reload"]).refused(1);
    for part in [
        "line 1, ",
        "enbled",
        "did you mean `enabled`",
        "`keep_ended` is 1s; allowed: 1m",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        fs::read_to_string(&kept).expect("it is kept"),
        running,
        "it stays"
    );
    cli.good(&["audit"]);
    // The same on a signal: a good file is applied, and said in the log.
    set(&file, "chaos", "chaos = { enabled = true }");
    set(&file, "keep_ended", "keep_ended = \"3h\"");
    processes::signal(cluster.pid("c1").expect("it runs"), Signal::SIGHUP);
    patience::until("the signal was heard", || {
        fs::read_to_string(&kept).is_ok_and(|text| text.contains("keep_ended = \"3h\""))
    });
    assert!(fs::read_to_string(&kept).is_ok_and(|text| text.contains("enabled = true")));
}

#[test]
fn old_files_are_upgraded_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("controller.toml");
    let old = "# ours\nconfig_version = 1\nhost_grace = \"1m\"\n";
    fs::write(&file, old).expect("it can be written");
    xced(&["config", "check", word(&file)]).good();
    let told = xced(&["config", "upgrade", word(&file)]).good();
    assert!(told.contains("from version 1 to 2"), "{told}");
    assert!(told.contains("host_grace is hosts.grace now"), "{told}");
    let new = fs::read_to_string(&file).expect("it is there");
    assert!(
        new.contains("config_version = 2") && new.contains("[hosts]\ngrace = \"1m\""),
        "{new}"
    );
    let kept = folder.path().join("controller.toml.v1");
    assert_eq!(fs::read_to_string(&kept).expect("it is kept"), old);
    let told = xced(&["config", "upgrade", word(&file)]).good();
    assert!(told.contains("nothing was changed"), "{told}");
    // A broken one is left as it is, with every fault named.
    let broken = "host_grace = 7\nbeet = \"1s\"\n";
    fs::write(&file, broken).expect("it can be written");
    for verb in ["check", "upgrade"] {
        let text = xced(&["config", verb, word(&file)]).failed();
        for part in [
            "line 1, column 14: `host_grace`",
            "line 2, column 1: unknown field `beet`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there"), broken);
    let other = folder.path().join("settings.toml");
    fs::write(&other, "[log]\nlevel = \"info\"\n").expect("it can be written");
    let text = xced(&["config", "check", word(&other)]).failed();
    assert!(text.contains("--role"), "{text}");
    xced(&["config", "check", word(&other), "--role", "worker"]).good();
    xced(&["config", "check", "/nonexistent.toml"]).failed();
}
