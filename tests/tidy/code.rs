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

/// A network whose delays are what is tested.
const SWITCH: &str = "actors/wal/tests/cluster.rs";

/// The file that may pause in tests.
const PAUSES: &str = "tests/harness/patience.rs";

/// Words that rules, facts and states may not contain, and why.
const IMPURE: [(&str, &str); 6] = [
    (".await", "a rule never waits"),
    ("async fn", "a rule never waits"),
    ("Instant::now", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("tokio", "a rule knows no runtime"),
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
    let mut findings = find("pure", sources.rust().filter(is_pure), &IMPURE);
    findings.extend(sources.rust().filter(is_pure).flat_map(random_order));
    findings
}

/// Walks over maps and sets of random order; looking things up in them is fine.
fn random_order(file: &Source) -> Vec<Finding> {
    let names = random_names(file);
    let walks = [
        ".iter()",
        ".iter_mut()",
        ".keys()",
        ".values()",
        ".values_mut()",
        ".drain()",
        ".into_iter()",
        ".into_values()",
        ".into_keys()",
        ".retain(",
    ];
    let mut findings = Vec::new();
    for (number, line) in file.code() {
        let walked = |name: &&String| {
            let calls = walks
                .iter()
                .any(|walk| line.contains(&format!("{name}{walk}")));
            let loops = ["in &", "in &mut ", "in "]
                .iter()
                .any(|word| line.contains(&format!("{word}{name} {{")));
            calls || loops
        };
        for name in names.iter().filter(walked) {
            let text = format!("walks over `{name}`, whose order is random");
            findings.push(Finding::new("pure", &file.path, number, text));
        }
    }
    findings
}

/// Names of variables and fields that are maps or sets of random order.
fn random_names(file: &Source) -> Vec<String> {
    let mut names = Vec::new();
    for (_, line) in file.code() {
        let at = ["HashMap<", "HashSet<", "HashMap::", "HashSet::"]
            .iter()
            .filter_map(|word| line.find(word))
            .min();
        let Some(at) = at else { continue };
        let before = line[..at]
            .trim_end_matches(['&', ' '])
            .trim_end_matches("mut")
            .trim_end();
        let Some(before) = before.strip_suffix([':', '=']) else {
            continue;
        };
        let name = before
            .trim_end()
            .rsplit([' ', '(', ','])
            .next()
            .unwrap_or_default();
        if !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_alphanumeric() || letter == '_')
        {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn walks_over_random_order_are_found() {
    let text = "fn f(seen: &HashSet<u8>) {\n    let mut map: HashMap<u8, u8> = HashMap::new();\n    \
                map.get(&1);\n    for (key, value) in &map {\n    }\n    seen.iter().count();\n}\n";
    let file = Source {
        path: "actors/service/rules.rs".to_owned(),
        text: text.to_owned(),
    };
    let lines: Vec<usize> = random_order(&file)
        .iter()
        .map(|finding| finding.line)
        .collect();
    assert_eq!(lines, [4, 6]);
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
            && file.path != SWITCH
            && !file.path.starts_with("tests/tidy/")
            && !file.path.starts_with("tests/chaos/")
            && !file.path.starts_with("tests/bench/")
            // Their time is virtual.
            && !file.text.contains("start_paused")
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

/// The list of failpoints.
const POINTS: &str = "actors/failpoint/point.rs";

/// Failpoints that are listed and that no code passes.
pub fn failpoints(sources: &Sources) -> Vec<Finding> {
    let Some(list) = sources.files.iter().find(|file| file.path == POINTS) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (number, line) in list.code() {
        let Some((name, _)) = line.trim().split_once(" = \"") else {
            continue;
        };
        let word = format!("Point::{name})");
        let users = sources
            .files
            .iter()
            .filter(|file| file.is_rust() && !file.is_test() && file.path != POINTS);
        if users.filter(|file| file.text.contains(&word)).count() == 0 {
            findings.push(Finding::new(
                "failpoint",
                POINTS,
                number,
                format!("{name} is passed nowhere"),
            ));
        }
    }
    findings
}
