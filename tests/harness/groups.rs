//! Control groups that killed workers leave behind.

use std::fs;
use std::path::{Path, PathBuf};

/// Digits of a worker's incarnation in the name of its group.
const DIGITS: usize = 8;

/// Removes the empty groups of all workers of a home; what cannot be removed stays.
pub fn remove(home: &Path) {
    let mounts = fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    let roots: Vec<PathBuf> = mounts
        .map(|entry| entry.path())
        .chain([PathBuf::from("/sys/fs/cgroup")])
        .map(|mount| mount.join("xce"))
        .filter(|root| root.is_dir())
        .collect();
    for worker in fs::read_dir(home).into_iter().flatten().flatten() {
        let Ok(incarnation) = fs::read_to_string(worker.path().join("incarnation")) else {
            continue;
        };
        let Some(digits) = incarnation.get(..DIGITS) else {
            continue;
        };
        let group = format!("{}-{digits}", worker.file_name().to_string_lossy());
        roots
            .iter()
            .for_each(|root| remove_tree(&root.join(&group)));
    }
}

/// Groups go from the leaves up, each with `rmdir`.
fn remove_tree(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    drop(fs::remove_dir(group));
}
