//! Documents: decisions, commands that they name, and what no text may name.

use super::Finding;
use super::sources::{Source, Sources};

/// Longest decision record in lines. Source: the project's style.
const DECISION_LINES_MAX: usize = 120;

/// Verbs of `cargo x`. A test of the tool's help would need it built; the list is short.
const VERBS: [&str; 9] = [
    "bench",
    "chaos",
    "conformance",
    "faults",
    "fix",
    "help",
    "sim",
    "test",
    "verify",
];

fn documents(sources: &Sources) -> impl Iterator<Item = &Source> {
    sources
        .files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
}

/// Decision records that are too long or have no status.
pub fn decisions(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in documents(sources).filter(|file| file.path.contains("decisions/")) {
        let lines = file.text.lines().count();
        if lines > DECISION_LINES_MAX {
            let text = format!("{lines} lines; at most {DECISION_LINES_MAX}");
            let finding = Finding::new("decision", &file.path, 0, text);
            findings.push(Finding {
                amount: lines,
                ..finding
            });
        }
        if !file.text.lines().any(|line| line.starts_with("Status: ")) {
            findings.push(Finding::new(
                "decision",
                &file.path,
                0,
                "no line `Status: ...`",
            ));
        }
        if !file.text.lines().any(|line| line == "## Guard") {
            findings.push(Finding::new(
                "decision",
                &file.path,
                0,
                "no part `## Guard` with its test",
            ));
        }
    }
    findings
}

/// Commands of `cargo x` that do not exist, and files of the examples that are not there.
pub fn commands(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in documents(sources) {
        for (line, number) in file.text.lines().zip(1..) {
            for rest in line.split("cargo x ").skip(1) {
                let verb: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
                if !VERBS.contains(&verb.as_str()) {
                    let text = format!("there is no `cargo x {verb}`");
                    findings.push(Finding::new("command", &file.path, number, text));
                }
            }
            for rest in line.split("examples/").skip(1) {
                let is_part = |letter: &char| {
                    letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/')
                };
                let name: String = rest.chars().take_while(is_part).collect();
                let path = format!("examples/{}", name.trim_end_matches('.'));
                if !name.is_empty() && !sources.exists(path.trim_end_matches('/')) {
                    findings.push(Finding::new(
                        "command",
                        &file.path,
                        number,
                        format!("no {path}"),
                    ));
                }
            }
        }
    }
    findings
}

/// Links to files that are not there.
pub fn links(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in documents(sources) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, number) in file.text.lines().zip(1..) {
            for rest in line.split("](").skip(1) {
                let target = rest.split([')', '#']).next().unwrap_or_default();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let path = joined(folder, target);
                if !sources.exists(&path) && !path.is_empty() {
                    findings.push(Finding::new(
                        "link",
                        &file.path,
                        number,
                        format!("no {path}"),
                    ));
                }
            }
        }
    }
    findings
}

fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Texts that name a machine's directories or a registry's host.
pub fn machines(sources: &Sources) -> Vec<Finding> {
    let everywhere = [
        concat!("/wo", "rk/"),
        concat!("/tmp/", "target"),
        concat!("/ro", "ot/"),
    ];
    let documents_only = ["/tmp/", "/home/"];
    let mut findings = Vec::new();
    for file in &sources.files {
        let is_document = file.path.ends_with(".md");
        for (line, number) in file.text.lines().zip(1..) {
            let more = documents_only.iter().filter(|_| is_document);
            for word in everywhere
                .iter()
                .chain(more)
                .filter(|word| begins(line, word))
            {
                let text = format!("names `{word}` of one machine");
                findings.push(Finding::new("machine", &file.path, number, text));
            }
        }
        let registry = match file.path.as_str() {
            "Cargo.lock" => other_registries(&file.text),
            ".cargo/config.toml" => file
                .text
                .lines()
                .any(|line| line.starts_with("[source") || line.starts_with("[registr")),
            _ => false,
        };
        if registry {
            findings.push(Finding::new(
                "registry",
                &file.path,
                0,
                "names another registry",
            ));
        }
    }
    findings
}

/// Whether a path of a line begins with a word; the same in the middle of a path means nothing.
fn begins(line: &str, word: &str) -> bool {
    let is_path =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '-' | '_' | '.');
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_path))
}

fn other_registries(lock: &str) -> bool {
    let mut sources = lock.lines().filter(|line| line.starts_with("source = "));
    sources.any(|line| line != "source = \"registry+https://github.com/rust-lang/crates.io-index\"")
}
