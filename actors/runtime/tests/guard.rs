//! What must stay true of the build, because this crate relies on it.

use std::path::PathBuf;
use std::process::Command;

fn workspace() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Other features of ractor are not wanted: `cluster` and `async-trait` cost every message,
/// `message_span_propogation` overflows the stack of an actor that sends to itself.
#[test]
fn ractor_is_built_with_its_tokio_runtime_only() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--workspace",
            "-e",
            "features",
            "-i",
            "ractor",
        ])
        .current_dir(workspace())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fault = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{fault}");
    let mut features: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("ractor feature \"")?.1.split('"').next())
        .collect();
    features.sort_unstable();
    features.dedup();
    assert_eq!(features, ["tokio_runtime"], "{text}");
}

/// A panic must end one actor, never the process.
#[test]
fn every_profile_unwinds() {
    let text = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let profiles = |line: &&str| line.starts_with("[profile.") && !line.contains(".package.");
    let sections: Vec<&str> = text.lines().filter(profiles).collect();
    assert!(sections.contains(&"[profile.release]") && sections.contains(&"[profile.dev]"));
    for section in sections {
        let (_before, rest) = text.split_once(section).unwrap();
        let body = rest.split("\n[").next().unwrap();
        assert!(
            body.lines().any(|line| line == "panic = \"unwind\""),
            "{section}"
        );
    }
}
