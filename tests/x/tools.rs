//! Programs that the tests run as services; installed where that is possible.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use xce_tests::harness::programs;

/// A program, and the Debian package that has it.
const NEEDED: [(&str, &str); 4] = [
    ("nginx", "nginx-light"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("python3", "python3"),
];

/// As [`NEEDED`], by scenarios that are passed over without.
const WANTED: [(&str, &str); 2] = [("ip", "iproute2"), ("nsenter", "util-linux")];

/// Asked by Debian's packages before they start a service. Source: invoke-rc.d(8).
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Makes sure that all programs are there.
///
/// # Errors
/// Says what has to be installed, where that cannot be done here.
pub fn provide() -> Result<(), String> {
    let can_install =
        nix::unistd::Uid::effective().is_root() && programs::find("apt-get").is_some();
    let mut missing = missing(&NEEDED);
    if can_install {
        missing.extend(self::missing(&WANTED));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let advice = format!("the tests need more programs: apt-get install {names}");
    if !can_install {
        return Err(advice);
    }
    eprintln!("installing for the tests: {names}");
    let _quiet = NoServices::new()?;
    apt(&["update"]).map_err(|error| format!("{error}; {advice}"))?;
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&missing);
    apt(&words).map_err(|error| format!("{error}; {advice}"))?;
    match self::missing(&NEEDED).as_slice() {
        [] => Ok(()),
        left => Err(format!(
            "still missing after the installation: {}",
            left.join(" ")
        )),
    }
}

/// Packages of programs that are not there.
fn missing(programs: &[(&str, &'static str)]) -> Vec<&'static str> {
    let absent = programs
        .iter()
        .filter(|(program, _)| programs::find(program).is_none());
    absent.map(|(_, package)| *package).collect()
}

fn apt(words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    let status = command
        .status()
        .map_err(|error| format!("apt-get: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("apt-get {}: {status}", words[0]))
    }
}

/// Keeps packages from starting their services while it lives.
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn new() -> Result<Self, String> {
        if Path::new(POLICY).exists() {
            return Ok(Self { is_ours: false });
        }
        let fault = |error: std::io::Error| format!("cannot write {POLICY}: {error}");
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(POLICY)
            .map_err(fault)?;
        // Source: invoke-rc.d(8), 101 forbids.
        std::io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n").map_err(fault)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))
            .map_err(fault)?;
        Ok(Self { is_ours: true })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("remove {POLICY} by hand: {error}");
        }
    }
}
