//! Names of files and folders.

use super::Finding;
use super::sources::Sources;

/// Names that say nothing of what is provided.
const VAGUE: [&str; 12] = [
    "base",
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "shared",
    "stuff",
    "util",
    "utilities",
    "utils",
];

/// Files, folders and crates with a name that says nothing.
pub fn vague(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &sources.files {
        let parts = file
            .path
            .split('/')
            .map(|part| part.split('.').next().unwrap_or(part));
        let words = parts.flat_map(|part| part.split(['_', '-']));
        for word in words.filter(|word| VAGUE.contains(word)) {
            findings.push(Finding::new(
                "vague-name",
                &file.path,
                0,
                format!("`{word}` says nothing"),
            ));
        }
    }
    findings
}
