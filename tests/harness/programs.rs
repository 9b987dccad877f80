//! Finds programs that the tests need.

use std::path::{Path, PathBuf};

/// Where Debian keeps daemons, which is not on everybody's path.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The path of a program.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path);
    let all = listed.chain(SYSTEM.iter().map(PathBuf::from));
    all.map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// `PATH` with the directories of daemons.
pub fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let missing = SYSTEM
        .iter()
        .filter(|directory| !path.split(':').any(|part| part == **directory));
    missing.fold(path.clone(), |path, directory| {
        format!("{path}:{directory}")
    })
}

/// Stops the test with a sentence when a program is missing.
///
/// # Panics
/// When it is not there.
pub fn need(name: &str) -> PathBuf {
    let found = find(name).filter(|path| Path::new(path).exists());
    found.unwrap_or_else(|| {
        panic!("`{name}` is not installed; `cargo x test` says or does what is needed")
    })
}
