//! The first decision that came out otherwise, in words.

use std::fmt;

use xce_deciding::Decided;
use xce_ledger::{Group, RULES_VERSION};
use xce_model::Lsn;
use xce_wal::Position;

/// A decision that comes out otherwise than it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Position of the group.
    pub lsn: Lsn,
    /// Its place in the entry.
    pub sub: u32,
    /// Its cause, such as `scale`.
    pub cause: String,
    /// Position of the view that it was decided from.
    pub decided: Lsn,
    /// The event, as JSON.
    pub event: String,
    /// Version of the rules that decided then.
    pub rules: u16,
    /// Version of the rules here.
    pub rules_here: u16,
    /// The first part that differs, such as `fact 2 of 5`.
    pub part: String,
    /// What was recorded there; absent where nothing was.
    pub recorded: Option<String>,
    /// What is decided there now; absent where nothing is.
    pub now: Option<String>,
}

impl Difference {
    pub(crate) fn new(at: Position, group: &Group) -> Self {
        Self {
            lsn: at.lsn,
            sub: at.sub,
            cause: group.cause.clone(),
            decided: group.decided,
            event: group.event.as_ref().map(json).unwrap_or_default(),
            rules: group.rules,
            rules_here: RULES_VERSION,
            part: String::new(),
            recorded: None,
            now: None,
        }
    }

    /// The same, where nothing is decided any more.
    pub(crate) fn nothing(mut self, group: &Group, why: String) -> Self {
        self.part = "the whole decision".to_owned();
        self.recorded = Some(json(&group.facts));
        self.now = Some(why);
        self
    }

    /// What differs, if anything does.
    pub(crate) fn between(at: Position, group: &Group, now: &Decided) -> Option<Self> {
        let conditions = part("condition", &group.preconditions, &now.conditions);
        let (part, recorded, now) =
            conditions.or_else(|| part("fact", &group.facts, &now.facts))?;
        Some(Self {
            part,
            recorded,
            now,
            ..Self::new(at, group)
        })
    }
}

/// Which part, what was recorded there, and what is decided there now.
type Part = (String, Option<String>, Option<String>);

fn part<T: PartialEq + serde::Serialize>(what: &str, recorded: &[T], now: &[T]) -> Option<Part> {
    let of = recorded.len().max(now.len());
    let place = (0..of).find(|place| recorded.get(*place) != now.get(*place))?;
    Some((
        format!("{what} {} of {of}", place + 1),
        recorded.get(place).map(json),
        now.get(place).map(json),
    ))
}

fn json<T: serde::Serialize>(value: T) -> String {
    serde_json::to_string(&value).unwrap_or_else(|error| format!("({error})"))
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = "nothing";
        writeln!(out, "lsn {} group {}: {}", self.lsn, self.sub, self.cause)?;
        writeln!(out, "  event     {}", self.event)?;
        writeln!(out, "  decided   from lsn {}", self.decided)?;
        if self.rules != self.rules_here {
            writeln!(
                out,
                "  rules     version {} then, version {} here",
                self.rules, self.rules_here
            )?;
        }
        writeln!(out, "  differs   {}", self.part)?;
        let recorded = self.recorded.as_deref().unwrap_or(none);
        writeln!(out, "  recorded  {recorded}")?;
        write!(out, "  now       {}", self.now.as_deref().unwrap_or(none))
    }
}
