//! What earlier programs wrote is read for ever: logs, snapshots, backups, messages, spools, settings.
//!
//! ```text
//!  v1/ v2/ ...   one folder for each format version, never changed once a program with it is out
//!    state/      IDENTITY, log/, snapshots/ of a controller; zeros at the end of segments are cut off
//!    backup      of the same cluster, without its secret
//!    expected.json  what is in it
//!    spool       of a worker, and its facts in spool.txt
//!    frames.txt  messages: name, bytes, and the value as text
//!    config/     settings of daemons, service files
//! ```
//! `XCE_GOLDEN=write cargo test -p xce-tests compat` writes the folder of [`VERSION`] anew from a real
//! cluster; nothing else writes here.

mod expected;
mod files;
mod frames;
mod generate;

use std::path::{Path, PathBuf};

/// The format version of this program. Raised with the first change of a persisted or sent form
/// after a release; the folders of earlier ones stay.
const VERSION: u32 = 1;

fn folder(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("compat")
        .join(format!("v{version}"))
}

/// A path as a word of a command line.
fn word(path: &Path) -> &str {
    path.to_str()
        .expect("folders of the sources have plain names")
}

fn is_writing() -> bool {
    std::env::var("XCE_GOLDEN").is_ok_and(|value| value == "write")
}

/// Every folder, with its version; all versions up to that of now are there.
fn folders() -> Vec<(u32, PathBuf)> {
    if is_writing() {
        generate::once();
    }
    let all: Vec<(u32, PathBuf)> = (1..=VERSION)
        .map(|version| (version, folder(version)))
        .collect();
    for (version, folder) in &all {
        assert!(
            folder.join("expected.json").exists(),
            "v{version} is missing"
        );
    }
    all
}
