//! TOML to a tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::Fault;
use crate::tree::{Entry, Node, Value, Whole, sort_entries};

/// Reads a text.
///
/// # Errors
/// Every fault of the syntax.
pub(super) fn tree(text: &str) -> Result<Node, Vec<Fault>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let list = errors.iter().map(|error| {
            let position = error.span().map_or(0, |span| span.start);
            Fault::at(
                text,
                position,
                format!("not valid TOML: {}", error.message()),
            )
        });
        return Err(list.collect());
    }
    Ok(Node {
        value: table(root.get_ref()),
        position: 0,
    })
}

fn table(table: &DeTable<'_>) -> Value {
    let mut entries = table
        .iter()
        .map(|(name, value)| Entry {
            name: name.get_ref().to_string(),
            name_position: name.span().start,
            node: node(value),
        })
        .collect();
    // The parser has refused names that come again.
    sort_entries(&mut entries);
    Value::Table(entries)
}

/// The depth is bounded by the parser, which refuses what nests deeper than 80.
fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let position = value.span().start;
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Integer(Whole {
            digits: number.as_str().to_owned(),
            value: i128::from_str_radix(number.as_str(), number.radix()).ok(),
            decimal: number.radix() == 10,
        }),
        DeValue::Float(number) => Value::Float(number.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Time,
        DeValue::Array(values) => Value::List(values.iter().map(node).collect()),
        DeValue::Table(inner) => table(inner),
    };
    Node { value, position }
}
