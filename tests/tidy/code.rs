//! What code may name, and where.

use super::Finding;
use super::sources::{Source, Sources};

/// Crates of pure entities. Source: decision 0001.
pub const ENTITIES: [&str; 6] = [
    "actors/model",
    "actors/host",
    "actors/replica",
    "actors/service",
    "actors/ledger",
    "actors/placement",
];

/// Names of libraries that stand in one crate each.
pub const ALONE: [(&str, &str); 4] = [
    ("quinn", "actors/link"),
    ("rustls", "actors/link"),
    ("figment", "config"),
    ("openraft", "actors/wal"),
];

/// The file with all unsafe code.
const UNSAFE: &str = "actors/replica/shim/child.rs";

/// The file that may pause in tests.
const PAUSES: &str = "tests/harness/patience.rs";

/// Words that rules, facts and states may not contain, and why.
const IMPURE: [(&str, &str); 8] = [
    (".await", "a rule never waits"),
    ("async fn", "a rule never waits"),
    ("Instant::now", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("tokio", "a rule knows no runtime"),
    ("HashMap", "its order is random"),
    ("HashSet", "its order is random"),
    ("fastrand", "randomness is an argument"),
];

fn find(
    rule: &'static str,
    files: impl Iterator<Item = impl std::ops::Deref<Target = Source>>,
    words: &[(&str, &str)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.code() {
            for (word, why) in words.iter().filter(|(word, _)| line.contains(word)) {
                findings.push(Finding::new(
                    rule,
                    &file.path,
                    number,
                    format!("`{word}`: {why}"),
                ));
            }
        }
    }
    findings
}

/// Rules, facts and states that name a clock, a runtime or a map of random order.
pub fn pure(sources: &Sources) -> Vec<Finding> {
    let is_pure = |file: &&Source| {
        ENTITIES.contains(&file.home()) && !file.is_test() && !file.path.ends_with("build.rs")
    };
    find("pure", sources.rust().filter(is_pure), &IMPURE)
}

/// Libraries that are named outside their crate.
pub fn libraries(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (library, home) in ALONE {
        let path = format!("{library}::");
        let others = sources
            .rust()
            .filter(|file| file.home() != home && file.home() != "tests");
        let words = [(path.as_str(), "stands in one crate only")];
        findings.extend(find("library", others, &words));
    }
    findings
}

/// Unsafe code elsewhere than in its one file.
pub fn unsafe_code(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources
        .rust()
        .filter(|file| file.path != UNSAFE && !file.path.starts_with("tests/tidy/"))
    {
        for (number, line) in file.all_code() {
            let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            if words
                .into_iter()
                .any(|word| matches!(word, "unsafe" | "unsafe_code"))
            {
                findings.push(Finding::new("unsafe", &file.path, number, line.trim()));
            }
        }
    }
    findings
}

/// Ignored tests and unfinished code.
pub fn unfinished(sources: &Sources) -> Vec<Finding> {
    let marks = [
        "#[ignore",
        "todo!(",
        "unimplemented!(",
        "dbg!(",
        "FIXME",
        "XXX",
        "TODO",
        "HACK",
    ];
    let mut findings = Vec::new();
    for file in sources
        .rust()
        .filter(|file| !file.path.starts_with("tests/tidy/"))
    {
        for (line, number) in file.text.lines().zip(1..) {
            for mark in marks.iter().filter(|mark| line.contains(**mark)) {
                findings.push(Finding::new(
                    "unfinished",
                    &file.path,
                    number,
                    format!("`{mark}`"),
                ));
            }
        }
    }
    findings
}

/// Tests that sleep instead of waiting for something.
pub fn sleeping(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_concerned = |file: &&Source| {
        file.path != PAUSES
            && !file.path.starts_with("tests/tidy/")
            && !file.path.starts_with("tests/chaos/")
            && !file.path.starts_with("tests/bench/")
    };
    for file in sources.rust().filter(is_concerned) {
        let inline = file.code().count();
        let skip = if file.is_test() { 0 } else { inline };
        for (number, line) in file.all_code().skip(skip) {
            let calls = ["thread::sleep(", "time::sleep(", " sleep(", "(sleep("];
            if calls.iter().any(|call| line.contains(call)) && !line.contains("fn ") {
                findings.push(Finding::new("sleep", &file.path, number, line.trim()));
            }
        }
    }
    findings
}

/// Receipts of durability that are made by others than the WAL.
pub fn receipts(sources: &Sources) -> Vec<Finding> {
    let others = sources
        .rust()
        .filter(|file| file.home() != "actors/wal" && !file.path.starts_with("tests/tidy/"));
    let words = [("DurableReceipt for", "only the WAL knows what is durable")];
    find("receipt", others, &words)
}
