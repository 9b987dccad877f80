//! Commands that the documents name exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xce_tests::harness::binaries;
use xce_tests::harness::cli;

#[test]
fn each_command_of_the_documents_exists() {
    let mut lines = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document can be read");
        lines.extend(text.lines().flat_map(commands));
    }
    lines.sort();
    lines.dedup();
    for words in lines {
        let (program, words) = words.split_first().expect("a command has a program");
        let mut command = Command::new(binaries::path(program));
        command.args(words).arg("--help");
        let answer = cli::run(command, None);
        assert_eq!(
            answer.code, 0,
            "{program} {}: {}",
            answer.words, answer.stderr
        );
    }
}

fn documents() -> Vec<PathBuf> {
    let root = xce_tests::root();
    let folders = [
        root.to_path_buf(),
        root.join("actors"),
        root.join("examples"),
    ];
    let files = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let is_document = |path: &Path| {
        path.extension()
            .is_some_and(|end| end == "md" || end == "toml" || end == "sh")
    };
    files
        .map(|entry| entry.path())
        .filter(|path| is_document(path))
        .collect()
}

/// Commands of ours in a line: the program, noun and verb.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for program in ["xcecli", "xced"] {
        for (at, _) in line.match_indices(program) {
            let before = line[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'))
            {
                continue;
            }
            let rest = &line[at + program.len()..];
            if !rest.starts_with(' ') {
                continue;
            }
            let words = rest
                .split_whitespace()
                .take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase()));
            let most = if program == "xcecli" { 2 } else { 1 };
            let words: Vec<String> = words.take(most).map(str::to_owned).collect();
            found.push([vec![program.to_owned()], words].concat());
        }
    }
    found
}
