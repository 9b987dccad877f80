//! JSON to a tree: the syntax is checked by `serde_json`, then walked once more for the places.

use crate::fault::Fault;
use crate::tree::{Entry, Node, Value, Whole};

use super::{DEPTH_MAX, Format, table};

/// Reads a text.
///
/// # Errors
/// The first fault of the syntax, or all names that come again.
pub(super) fn tree(text: &str) -> Result<Node, Vec<Fault>> {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Err(vec![syntax_fault(text, &error)]);
    }
    let mut walk = Walk {
        text,
        position: 0,
        depth: 0,
        faults: Vec::new(),
    };
    let root = walk.value();
    match (root, walk.faults.is_empty()) {
        (Some(root), true) => Ok(root),
        (Some(_) | None, _) => Err(walk.faults),
    }
}

fn syntax_fault(text: &str, error: &serde_json::Error) -> Fault {
    let whole = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let sentence = whole.strip_suffix(&place).unwrap_or(&whole);
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    // The column counts bytes up to and with the wrong one.
    let position = line_start + error.column().saturating_sub(1);
    Fault::at(text, position, format!("not valid JSON: {sentence}"))
}

/// A walk over a text that is known to be JSON.
struct Walk<'t> {
    text: &'t str,
    position: usize,
    depth: usize,
    faults: Vec<Fault>,
}

impl Walk<'_> {
    /// The value that follows; `None` when it has been noted as a fault.
    fn value(&mut self) -> Option<Node> {
        let position = self.skip_space();
        let value = match self.byte() {
            Some(b'{') => self.deeper(Self::object)?,
            Some(b'[') => self.deeper(Self::array)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b't' | b'f' | b'n') => self.word(),
            Some(_) | None => self.number()?,
        };
        Some(Node { value, position })
    }

    fn deeper(&mut self, inner: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        if self.depth >= DEPTH_MAX {
            self.fault(format!("lists and tables nest deeper than {DEPTH_MAX}"));
            return None;
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Option<Value> {
        let mut entries = Vec::new();
        self.position += 1;
        while !self.ends_with(b'}') {
            let name_position = self.skip_space();
            let name = self.string()?;
            self.skip_space();
            // The colon.
            self.position += 1;
            entries.push(Entry {
                name,
                name_position,
                node: self.value()?,
            });
        }
        Some(table(entries, Format::Json, self.text, &mut self.faults))
    }

    fn array(&mut self) -> Option<Value> {
        let mut values = Vec::new();
        self.position += 1;
        while !self.ends_with(b']') {
            values.push(self.value()?);
        }
        Some(Value::List(values))
    }

    /// Passes a comma, or the end of a list or object, which it says.
    fn ends_with(&mut self, end: u8) -> bool {
        self.skip_space();
        let byte = self.byte();
        if byte == Some(b',') || byte == Some(end) {
            self.position += 1;
        }
        byte == Some(end) || byte.is_none()
    }

    fn string(&mut self) -> Option<String> {
        let start = self.position;
        let bytes = self.text.as_bytes();
        self.position += 1;
        while let Some(byte) = bytes.get(self.position) {
            self.position += 1;
            match byte {
                b'"' => break,
                b'\\' => self.position += 1,
                _ => {}
            }
        }
        match serde_json::from_str(self.text.get(start..self.position)?) {
            Ok(text) => Some(text),
            Err(error) => {
                self.position = start;
                self.fault(format!("not valid JSON: {error}"));
                None
            }
        }
    }

    fn word(&mut self) -> Value {
        let (length, value) = match self.byte() {
            Some(b't') => (4, Value::Boolean(true)),
            Some(b'f') => (5, Value::Boolean(false)),
            Some(_) | None => (4, Value::Null),
        };
        self.position += length;
        value
    }

    fn number(&mut self) -> Option<Value> {
        let start = self.position;
        while let Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') = self.byte() {
            self.position += 1;
        }
        let shown = self.text.get(start..self.position).unwrap_or_default();
        if shown.is_empty() {
            self.fault("not valid JSON: a value is wanted here".to_owned());
            return None;
        }
        Some(if shown.contains(['.', 'e', 'E']) {
            Value::Float(shown.to_owned())
        } else {
            Value::Integer(Whole::of_decimal(shown))
        })
    }

    fn skip_space(&mut self) -> usize {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.position += 1;
        }
        self.position
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn fault(&mut self, sentence: String) {
        self.faults
            .push(Fault::at(self.text, self.position, sentence));
    }
}
