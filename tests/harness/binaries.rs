//! Where the daemons are: beside the running test, where cargo puts them.
//!
//! `cargo x test` has built them. A plain `cargo test` would run old ones or none, so then they are
//! built here, once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Set by `cargo x test`, which has built everything.
pub const BUILT: &str = "XCE_TESTS_BUILT";
/// Names a directory of daemons to test instead of those of this build.
pub const DIRECTORY: &str = "XCE_TESTS_BINARIES";

/// The path of one of our programs.
///
/// # Panics
/// When it is not there and cannot be built.
pub fn path(name: &str) -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let path = FOUND.get_or_init(directory).join(name);
    assert!(
        path.is_file(),
        "there is no {}; run `cargo x test`",
        path.display()
    );
    path
}

fn directory() -> PathBuf {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return PathBuf::from(directory);
    }
    let own = std::env::current_exe().expect("a running program has a path");
    let mut directory = own.parent().expect("a program lies in a directory");
    if directory.ends_with("deps") {
        directory = directory
            .parent()
            .expect("deps lies in the directory of its profile");
    }
    let is_of_cargo = directory.ends_with("debug") || directory.ends_with("release");
    if std::env::var_os(BUILT).is_none() && is_of_cargo {
        build(directory);
    }
    directory.to_path_buf()
}

/// Builds into the same target directory and profile as this test.
fn build(directory: &Path) {
    let target = directory
        .parent()
        .expect("a profile lies in a target directory");
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .args(["build", "--quiet", "--workspace", "--bins", "--target-dir"])
        .arg(target);
    if directory.ends_with("release") {
        command.arg("--release");
    }
    let status = command
        .current_dir(crate::root())
        .status()
        .expect("cargo starts");
    assert!(status.success(), "the daemons do not build: {status}");
}
