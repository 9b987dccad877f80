//! How the tree of actors looks.

use std::collections::BTreeMap;

use xce_session::wire::ActorView;

use super::span;
use crate::cli::print::{Field, Look, Row, Tone, cell, table_text};

impl Row for ActorView {
    fn head(wide: bool) -> Vec<&'static str> {
        let mut head = vec![
            "ACTOR", "KIND", "STATE", "RESTARTS", "MAILBOX", "HANDLED", "BUSY", "AGE",
        ];
        if wide {
            head.extend(["STUCK", "PARENT"]);
        }
        head.push("LAST ERROR");
        head
    }

    fn cells(&self, look: &Look) -> Vec<Field> {
        cells_of(self, self.key.clone(), look)
    }

    fn name(&self) -> String {
        self.key.clone()
    }
}

fn cells_of(actor: &ActorView, label: String, look: &Look) -> Vec<Field> {
    let many = if actor.count > 1 {
        format!(" x{}", actor.count)
    } else {
        String::new()
    };
    let mut cells = vec![
        cell(format!("{label}{many}")),
        cell(&actor.kind),
        Field::toned(&actor.state, tone(&actor.state)),
        cell(actor.restarts),
        cell(actor.mailbox),
        cell(actor.handled),
        cell(format!(
            "{}.{}%",
            actor.busy_permille / 10,
            actor.busy_permille % 10
        )),
        cell(span(actor.age_ms)),
    ];
    if look.wide {
        let stuck = if actor.stuck_ms == 0 {
            "-".to_owned()
        } else {
            span(actor.stuck_ms)
        };
        cells.extend([cell(stuck), cell(&actor.parent)]);
    }
    cells.push(cell(&actor.last_error));
    cells
}

/// The tree as a table whose first column is indented.
///
/// An actor whose parent is not among the rows, as after filtering, stands at the root. A row is
/// printed once, so that rows which name each other as parents cannot be printed for ever.
pub fn tree(actors: &[ActorView], look: &Look) -> String {
    let mut children: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    let known: std::collections::BTreeSet<&str> =
        actors.iter().map(|actor| actor.key.as_str()).collect();
    for (index, actor) in actors.iter().enumerate() {
        if known.contains(actor.parent.as_str()) && actor.parent != actor.key {
            children.entry(&actor.parent).or_default().push(index);
        } else {
            roots.push(index);
        }
    }
    let mut order = Vec::with_capacity(actors.len());
    let mut seen = vec![false; actors.len()];
    // Rows that only reach each other have no root; the first of them serves as one.
    let starts = roots.into_iter().chain(0..actors.len());
    for start in starts {
        walk(start, actors, &children, &mut seen, &mut order);
    }
    let rows = order
        .into_iter()
        .map(|(index, indent)| {
            cells_of(
                &actors[index],
                format!("{indent}{}", actors[index].key),
                look,
            )
        })
        .collect();
    table_text(&ActorView::head(look.wide), rows, look.coloured)
}

/// Adds a row and all below it in their order; an own stack, since a tree may be deep.
fn walk(
    start: usize,
    actors: &[ActorView],
    children: &BTreeMap<&str, Vec<usize>>,
    seen: &mut [bool],
    order: &mut Vec<(usize, String)>,
) {
    let mut stack = vec![(start, String::new(), String::new())];
    while let Some((index, branch, trunk)) = stack.pop() {
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        order.push((index, branch));
        let below = children
            .get(actors[index].key.as_str())
            .map_or(&[][..], Vec::as_slice);
        for (position, child) in below.iter().enumerate().rev() {
            let last = position + 1 == below.len();
            let (mark, line) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            stack.push((*child, format!("{trunk}{mark}"), format!("{trunk}{line}")));
        }
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "running" => Tone::Good,
        "quarantined" | "failed" => Tone::Bad,
        _ => Tone::Passing,
    }
}
