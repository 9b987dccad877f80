//! What is wrong with a merged document.

use xce_model::{Refusal, RefusalKind, Source};

use crate::leaves::Leaves;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Dotted name of the value; empty for the document as a whole.
    pub path: String,
    /// What is wrong and what is allowed.
    pub text: String,
}

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub Vec<Problem>);

/// Most problems that a refusal names. Source: chosen, what fits a screen.
const SHOWN_MAX: usize = 20;

impl Problems {
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push(Problem {
            path: path.into(),
            text: text.into(),
        });
    }

    pub fn check(&mut self, path: impl Into<String>, result: Result<(), String>) {
        if let Err(text) = result {
            self.add(path, text);
        }
    }

    /// What was found, each with its source where that is no request.
    pub fn attributed(self, leaves: &Leaves) -> Vec<Problem> {
        let from = |problem: Problem| match leaves.source(&problem.path) {
            Some(source @ (Source::Profile(_) | Source::Project(_))) => Problem {
                text: format!("{} (from {source})", problem.text),
                ..problem
            },
            Some(Source::BuiltIn | Source::Account | Source::Request(_)) | None => problem,
        };
        self.0.into_iter().map(from).collect()
    }
}

/// The refusal of a document with problems.
pub fn refusal(problems: &[Problem]) -> Refusal {
    let lines = problems.iter().take(SHOWN_MAX).map(|problem| {
        if problem.path.is_empty() {
            problem.text.clone()
        } else {
            format!("`{}`: {}", problem.path, problem.text)
        }
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    if problems.len() > SHOWN_MAX {
        text += &format!("\nand {} more", problems.len() - SHOWN_MAX);
    }
    Refusal::new(RefusalKind::Usage, "bad_specification", text)
}
