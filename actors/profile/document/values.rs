//! Values of a document that are written in more than one way.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use xce_model::JobId;
use xce_model::limits::{ARRAY_ELEMENTS_MAX, REPLICAS_MAX};
use xce_model::spec::{Amount, ArraySpec};

/// A number of replicas, or a share of the wanted number such as `25%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "NumberOrText", try_from = "NumberOrText")]
pub struct ReplicaAmount(pub Amount);

/// A signal by name such as `TERM`, or by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "NumberOrText", try_from = "NumberOrText")]
pub struct SignalName(
    /// Number from 1 to 64.
    pub i32,
);

/// A port of a probe: a name that the template declares, or a number as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "NumberOrText", try_from = "NumberOrText")]
pub struct PortReference(pub String);

/// Elements of an array with an optional limit, written `1-100%10` or `1-5,9`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Elements(pub ArraySpec);

/// What may be a number or a text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u32),
    Text(String),
}

fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

impl FromStr for ReplicaAmount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{}` is neither a number of replicas nor a share from \"0%\" to \"100%\"",
                shown(text)
            )
        };
        let (digits, percent) = match text.trim().strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let number: u32 = digits.trim().parse().map_err(|_| wrong())?;
        match percent {
            true if number <= 100 => Ok(Self(Amount::Percent(number))),
            false if number <= REPLICAS_MAX => Ok(Self(Amount::Count(number))),
            true | false => Err(wrong()),
        }
    }
}

impl TryFrom<NumberOrText> for ReplicaAmount {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        match value {
            NumberOrText::Number(number) => number.to_string().parse(),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl From<ReplicaAmount> for NumberOrText {
    fn from(value: ReplicaAmount) -> Self {
        match value.0 {
            Amount::Count(count) => Self::Number(count),
            Amount::Percent(percent) => Self::Text(format!("{percent}%")),
        }
    }
}

impl FromStr for SignalName {
    type Err = String;

    /// Reads `TERM`, `SIGTERM` or `15`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{}` is not a signal, such as TERM, INT, QUIT, USR1 or 15",
                shown(text)
            )
        };
        if let Ok(number) = text.parse::<i32>() {
            // Source: signal(7), 64 is SIGRTMAX of Linux.
            return (1..=64)
                .contains(&number)
                .then_some(Self(number))
                .ok_or_else(wrong);
        }
        let upper = text.to_ascii_uppercase();
        let name = if upper.starts_with("SIG") {
            upper
        } else {
            format!("SIG{upper}")
        };
        name.parse::<nix::sys::signal::Signal>()
            .map(|signal| Self(signal as i32))
            .map_err(|_| wrong())
    }
}

impl TryFrom<NumberOrText> for SignalName {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        match value {
            NumberOrText::Number(number) => number.to_string().parse(),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl From<SignalName> for NumberOrText {
    fn from(value: SignalName) -> Self {
        match nix::sys::signal::Signal::try_from(value.0) {
            Ok(signal) => Self::Text(signal.as_str().trim_start_matches("SIG").to_owned()),
            Err(_) => Self::Number(value.0.unsigned_abs()),
        }
    }
}

impl TryFrom<NumberOrText> for PortReference {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        match value {
            NumberOrText::Number(number) if (1..=65_535).contains(&number) => {
                Ok(Self(number.to_string()))
            }
            NumberOrText::Number(number) => {
                Err(format!("{number} is not a whole number from 1 to 65535"))
            }
            NumberOrText::Text(text) => Ok(Self(text)),
        }
    }
}

impl From<PortReference> for NumberOrText {
    fn from(value: PortReference) -> Self {
        // A port's name is never a bare number that has leading zeros or a sign.
        match value.0.parse::<u16>() {
            Ok(number) if number.to_string() == value.0 => Self::Number(u32::from(number)),
            Ok(_) | Err(_) => Self::Text(value.0),
        }
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.ranges.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            if first == last {
                write!(out, "{comma}{first}")?;
            } else {
                write!(out, "{comma}{first}-{last}")?;
            }
        }
        match self.0.slot_limit {
            Some(limit) => write!(out, "%{limit}"),
            None => Ok(()),
        }
    }
}

impl From<Elements> for String {
    fn from(value: Elements) -> Self {
        value.to_string()
    }
}

impl TryFrom<String> for Elements {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Elements {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = shown(text);
        let (elements, limit) = match text.split_once('%') {
            None => (text, None),
            Some((elements, limit)) => (elements, Some(limit)),
        };
        let slot_limit = limit
            .map(|limit| {
                limit
                    .parse::<u32>()
                    .ok()
                    .filter(|limit| *limit > 0)
                    .ok_or_else(|| format!("`{shown}`: after `%` comes a number from 1"))
            })
            .transpose()?;
        let wrong = || {
            format!("`{shown}`: elements are given as 1-100 or 1-5,9, each from 0 to 4294967294")
        };
        let mut ranges = elements
            .split(',')
            .map(|part| range(part.trim()).ok_or_else(wrong))
            .collect::<Result<Vec<_>, _>>()?;
        ranges.sort_unstable();
        let spec = ArraySpec {
            ranges: merged(ranges),
            slot_limit,
        };
        let count = spec.count();
        if count > ARRAY_ELEMENTS_MAX {
            return Err(format!(
                "`{shown}` has {count} elements, at most {ARRAY_ELEMENTS_MAX} are allowed"
            ));
        }
        Ok(Self(spec))
    }
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
    (first <= last && last != JobId::NO_ELEMENT).then_some((first, last))
}

/// Joins sorted ranges that overlap or touch.
fn merged(ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
            Some(_) | None => merged.push((first, last)),
        }
    }
    merged
}

/// Schema of a duration.
pub(crate) struct DurationSchema;
/// Schema of an amount of memory.
pub(super) struct SizeSchema;
/// Schema of an amount of processor time.
pub(super) struct CpuSchema;
/// Schema of when a run is restarted.
pub(super) struct RestartModeSchema;
/// Schema of what happens to a stuck rollout.
pub(super) struct OnStuckSchema;
/// Schema of whether two copies may run at once.
pub(super) struct SingleCopySchema;

macro_rules! schema {
    ($($name:ident, $title:literal => $schema:tt;)*) => {
        $(impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $title.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

schema! {
    DurationSchema, "Duration" => {
        "description": "A number with a unit, such as 500ms, 10s, 5m, 2h or 1d.",
        "anyOf": [
            { "type": "string", "pattern": "^\\s*[0-9]+\\s*[a-zA-Z]+(\\s*[0-9]+\\s*[a-zA-Z]+)*\\s*$|^0$" },
            { "const": 0 }
        ]
    };
    SizeSchema, "Size" => {
        "description": "A number with a unit, such as 64KiB, 512MiB, 4GiB or 500MB.",
        "type": "string",
        "pattern": "^\\s*[0-9]+(\\.[0-9]+)?\\s*[a-zA-Z]+\\s*$"
    };
    CpuSchema, "Processors" => {
        "description": "A number of processors from 0.001 to 1000000.",
        "anyOf": [
            { "type": "number", "minimum": 0.001, "maximum": 1_000_000 },
            { "type": "string", "pattern": "^[0-9]*\\.?[0-9]+$" }
        ]
    };
    ReplicaAmount, "ReplicaAmount" => {
        "description": "A number of replicas, or a share such as 25%.",
        "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 100_000 },
            { "type": "string", "pattern": "^[0-9]+\\s*%$" }
        ]
    };
    SignalName, "Signal" => {
        "description": "A signal such as TERM, INT, QUIT or USR1, or its number.",
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": 64 },
            { "type": "string" }
        ]
    };
    PortReference, "PortReference" => {
        "description": "The name of a port of the template, or a number.",
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": 65_535 },
            { "type": "string" }
        ]
    };
    RestartModeSchema, "RestartMode" => { "enum": ["never", "on_failure", "always"] };
    OnStuckSchema, "OnStuck" => { "enum": ["stop", "rollback"] };
    SingleCopySchema, "SingleCopy" => { "enum": ["none", "strict"] };
    Elements, "Elements" => {
        "description": "Elements such as 1-100 or 1-5,9 and, after %, how many run at once.",
        "type": "string",
        "pattern": "^[0-9, -]+(%[0-9]+)?$"
    };
}
