//! The rules of layout and style, as tests. Each finding names file, line and rule; a finding that
//! has to stay is in the one list of [`exceptions`], with its reason.

mod code;
mod documents;
mod exceptions;
mod manifests;
mod names;
mod size;
mod sources;

use std::fmt;

use sources::Sources;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule, in one word.
    pub rule: &'static str,
    /// Path from the root of the sources.
    pub path: String,
    /// Line from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong.
    pub text: String,
    /// How much, where that can be said; an exception may only shrink.
    pub amount: usize,
}

impl Finding {
    /// A finding without an amount.
    pub fn new(rule: &'static str, path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            rule,
            path: path.to_owned(),
            line,
            text: text.into(),
            amount: 0,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.text
        )
    }
}

/// One rule: looks at everything.
type Rule = fn(&Sources) -> Vec<Finding>;

/// Fails with all findings of a rule that are no exception.
#[track_caller]
fn check(rule: Rule) {
    let findings = rule(&Sources::load());
    let bad: Vec<String> = findings
        .iter()
        .filter(|finding| !exceptions::allow(finding))
        .map(ToString::to_string)
        .collect();
    assert!(
        bad.is_empty(),
        "{} findings:\n{}",
        bad.len(),
        bad.join("\n")
    );
}

#[test]
fn files_are_short() {
    check(size::files);
}

#[test]
fn functions_are_short() {
    check(size::functions);
}

#[test]
fn names_say_what_is_provided() {
    check(names::vague);
}

#[test]
fn rules_know_no_clock_no_runtime_and_no_random_order() {
    check(code::pure);
}

#[test]
fn each_heavy_library_is_named_in_one_crate() {
    check(code::libraries);
    check(manifests::libraries);
}

#[test]
fn unsafe_code_stands_in_one_file() {
    check(code::unsafe_code);
}

#[test]
fn nothing_is_unfinished_or_left_out() {
    check(code::unfinished);
}

#[test]
fn tests_do_not_sleep() {
    check(code::sleeping);
}

#[test]
fn only_the_wal_makes_receipts() {
    check(code::receipts);
}

#[test]
fn every_failpoint_is_passed_somewhere() {
    check(code::failpoints);
}

#[test]
fn entities_have_no_runtime() {
    check(manifests::entities);
}

#[test]
fn members_are_listed_and_use_only_earlier_ones() {
    check(manifests::members);
    check(manifests::order);
}

#[test]
fn decisions_are_short_and_have_a_status() {
    check(documents::decisions);
}

#[test]
fn documents_name_commands_and_files_that_exist() {
    check(documents::commands);
    check(documents::links);
}

#[test]
fn nothing_names_a_machine() {
    check(documents::machines);
}

#[test]
fn every_exception_is_still_needed() {
    let sources = Sources::load();
    let rules: [Rule; 15] = [
        size::files,
        size::functions,
        names::vague,
        code::pure,
        code::libraries,
        code::unsafe_code,
        code::unfinished,
        code::sleeping,
        code::receipts,
        manifests::libraries,
        manifests::entities,
        manifests::members,
        manifests::order,
        documents::decisions,
        documents::commands,
    ];
    let findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(&sources)).collect();
    let stale = exceptions::stale(&findings);
    assert!(
        stale.is_empty(),
        "take out of tests/tidy/exceptions.rs:\n{}",
        stale.join("\n")
    );
}
