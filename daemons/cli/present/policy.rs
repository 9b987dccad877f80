//! How profiles, projects, queues and resolved values look.

use serde_json::Value;
use xce_model::Source;
use xce_profile::Leaves;
use xce_session::policy_wire::{PolicyView, ResolvedValue};

use crate::cli::print::{Field, Look, Row, cell, pairs_text};

impl Row for PolicyView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec!["NAME", "KIND", "GENERATION", "AUTHOR", "SERVICES"];
        if wide {
            head.push("CHANGED");
        }
        head.push("DESCRIPTION");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        let document = document(self);
        let text = |name: &str| document[name].as_str().unwrap_or("-").to_owned();
        let mut cells = vec![
            cell(&self.name),
            cell(match self.kind {
                xce_profile::PolicyKind::Profile => text("kind"),
                xce_profile::PolicyKind::Project | xce_profile::PolicyKind::Queue => {
                    self.kind.word().to_owned()
                }
            }),
            cell(if self.generation == 0 {
                "built-in".to_owned()
            } else {
                self.generation.to_string()
            }),
            cell(or_dash(&self.author)),
            cell(self.services),
        ];
        if look.wide {
            cells.push(cell(or_dash(&self.time)));
        }
        cells.push(cell(text("description")));
        cells
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Row for ResolvedValue {
    fn head(_wide: bool) -> Vec<&'static str> {
        vec!["VALUE OF", "IS", "FROM"]
    }

    fn cells(&self, _look: &Look) -> Vec<Field> {
        vec![
            cell(&self.path),
            cell(plain(&self.value)),
            cell(&self.source),
        ]
    }

    fn name(&self) -> String {
        self.path.clone()
    }
}

/// A policy for people: what it is, and every value that it gives.
pub fn details(policy: &PolicyView, _look: &Look) -> String {
    let mut pairs = vec![
        (policy.kind.word().to_owned(), policy.name.clone()),
        (
            "generation".to_owned(),
            if policy.generation == 0 {
                "built-in".to_owned()
            } else {
                policy.generation.to_string()
            },
        ),
        ("author".to_owned(), or_dash(&policy.author)),
        ("services".to_owned(), policy.services.to_string()),
    ];
    let leaves = Leaves::of(&document(policy), &Source::BuiltIn);
    for (path, value, _) in leaves.iter() {
        let path = path.to_string();
        if path != "name" {
            pairs.push((path, plain(&value.to_string())));
        }
    }
    pairs_text(&pairs)
}

fn document(policy: &PolicyView) -> Value {
    serde_json::from_str(&policy.document).unwrap_or(Value::Null)
}

fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

/// A value of JSON; texts without their quotes.
fn plain(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        Ok(_) | Err(_) => json.to_owned(),
    }
}
