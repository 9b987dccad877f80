//! Lengths of files and functions.

use super::Finding;
use super::sources::{Source, Sources};

/// Longest file. Source: the project's style; beyond it nobody splits any more.
const FILE_LINES_MAX: usize = 500;
/// Longest file of tests. Source: the project's style; tables are long.
const TEST_LINES_MAX: usize = 800;
/// Longest function. Source: the project's style; a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Files that are too long.
pub fn files(sources: &Sources) -> Vec<Finding> {
    let measured = sources.rust().filter_map(|file| {
        let most = if file.is_test() {
            TEST_LINES_MAX
        } else {
            FILE_LINES_MAX
        };
        let lines = file.text.lines().count();
        (lines > most).then(|| too_long("file-length", file, 0, &format!("at most {most}"), lines))
    });
    measured.collect()
}

/// Functions that are too long.
pub fn functions(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.rust() {
        for function in functions_of(&file.text) {
            if function.lines > FUNCTION_LINES_MAX {
                let what = format!("fn {}: at most {FUNCTION_LINES_MAX}", function.name);
                findings.push(too_long(
                    "function-length",
                    file,
                    function.first,
                    &what,
                    function.lines,
                ));
            }
        }
    }
    findings
}

fn too_long(rule: &'static str, file: &Source, line: usize, what: &str, lines: usize) -> Finding {
    let text = format!("{lines} lines; {what}");
    Finding {
        amount: lines,
        ..Finding::new(rule, &file.path, line, text)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    first: usize,
    lines: usize,
}

/// All functions with a body, by the indentation that the formatter gives them.
fn functions_of(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let starts = |line: &str| line.len() - line.trim_start().len() == indent;
        // The head ends in the line that opens the body, or has none.
        let head = lines[first..]
            .iter()
            .position(|line| line.ends_with([';', '{', '}']));
        let Some(head) = head.filter(|at| lines[first + at].ends_with('{')) else {
            continue;
        };
        let body = &lines[first + head + 1..];
        let end = body
            .iter()
            .position(|line| starts(line) && line.trim_start().starts_with('}'));
        if let Some(end) = end {
            functions.push(Function {
                name,
                first: first + 1,
                lines: head + end + 2,
            });
        }
    }
    functions
}

/// The name in a line that begins a function.
fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let words = [
        "pub", "const", "async", "unsafe", "extern", "\"C\"", "default",
    ];
    let is_head = before
        .split_whitespace()
        .all(|word| words.contains(&word) || word.starts_with("pub(") || word.ends_with(')'));
    let name: String = after
        .chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect();
    (is_head && !name.is_empty()).then_some(name)
}

#[test]
fn functions_are_measured() {
    let text = "\
impl Thing {
    pub(crate) async fn long(
        &self,
    ) -> u8 {
        if true {
        }
        7
    }

    fn declared();
}

fn short() {
}
";
    let found = functions_of(text);
    let expected = [("long", 2, 7), ("short", 13, 2)];
    let expected: Vec<Function> = expected
        .into_iter()
        .map(|(name, first, lines)| Function {
            name: name.to_owned(),
            first,
            lines,
        })
        .collect();
    assert_eq!(found, expected);
}
