//! A text of any format as a tree of values, each with the byte where it begins.

/// One value and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Byte of the text where it begins.
    pub position: usize,
}

/// A value as its format sees it; nothing is converted yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(Whole),
    /// Another number, as it is written.
    Float(String),
    /// True or false.
    Boolean(bool),
    /// A date or time, which only TOML has.
    Time,
    /// Nothing, which TOML does not have.
    Null,
    /// Values in order.
    List(Vec<Node>),
    /// Values by name, sorted by name.
    Table(Vec<Entry>),
}

/// A whole number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Its digits as they are written, without a prefix of their base.
    pub digits: String,
    /// The number; absent when it is beyond any range.
    pub value: Option<i128>,
    /// Whether its base is ten, so that the digits read as the number.
    pub decimal: bool,
}

/// One value of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Byte of the text where the name begins.
    pub name_position: usize,
    /// Its value.
    pub node: Node,
}

impl Value {
    /// What a value is called in sentences.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Time => "a time",
            Self::Null => "null; leave the field out for its default",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Whole {
    /// A number of base ten.
    pub fn of_decimal(digits: &str) -> Self {
        Self {
            digits: digits.to_owned(),
            value: digits.strip_prefix('+').unwrap_or(digits).parse().ok(),
            decimal: true,
        }
    }
}

/// Sorts the entries of a table and gives back those whose name was given before.
///
/// Of equal names the first stays.
pub(crate) fn sort_entries(entries: &mut Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|left, right| {
        (left.name.as_str(), left.name_position).cmp(&(right.name.as_str(), right.name_position))
    });
    let mut again = Vec::new();
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        match kept.last() {
            Some(last) if last.name == entry.name => again.push(entry),
            Some(_) | None => kept.push(entry),
        }
    }
    *entries = kept;
    again
}
