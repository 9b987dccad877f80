//! YAML to a tree: one document of the core schema, without tags and merge keys.
//!
//! ```text
//!   events of the parser ──► open tables and lists (a stack) ──► tree
//!                                anchors: copies, paid from one allowance of bytes
//! ```

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag, options};

use crate::document::TEXT_BYTES_MAX;
use crate::fault::Fault;
use crate::tree::{Entry, Node, Value, Whole};

use super::{DEPTH_MAX, Format, table};

/// Bytes that a text may unfold to, aliases and copies for them included.
/// Source: derived; eight times the largest text, so that only aliases of aliases reach it.
const UNFOLDED_MAX: usize = 8 * TEXT_BYTES_MAX;
/// Bytes counted for a value besides its text. Source: derived, above the size of a node.
const NODE_BYTES: usize = 16;

/// Reads a text.
///
/// # Errors
/// The first fault of the syntax, or everything in it that is YAML and not allowed here.
pub(super) fn tree(text: &str) -> Result<Node, Vec<Fault>> {
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut builder = Builder {
        text,
        open: Vec::new(),
        anchors: BTreeMap::new(),
        allowance: UNFOLDED_MAX,
        root: None,
        documents: 0,
        faults: Vec::new(),
    };
    for next in Parser::new_from_str_with_options(text, options) {
        let taken = match next {
            Ok((event, span)) => builder.take(event, &span),
            Err(error) => {
                let position = error.marker().byte_offset().unwrap_or(text.len());
                let sentence = format!("not valid YAML: {}", error.info());
                builder.faults.push(Fault::at(text, position, sentence));
                None
            }
        };
        if taken.is_none() {
            return Err(builder.faults);
        }
    }
    if !builder.faults.is_empty() {
        return Err(builder.faults);
    }
    let nothing = Node {
        value: Value::Null,
        position: 0,
    };
    let root = builder.root.unwrap_or(nothing);
    Ok(match root.value {
        // A file of comments alone is an empty table, as in TOML.
        Value::Null => Node {
            value: Value::Table(Vec::new()),
            position: 0,
        },
        Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Time
        | Value::List(_)
        | Value::Table(_) => root,
    })
}

/// A list or a table that has begun.
struct Open {
    anchor: usize,
    position: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// Entries, and the name that waits for its value.
    Table(Vec<Entry>, Option<(String, usize)>),
}

struct Builder<'t> {
    text: &'t str,
    open: Vec<Open>,
    /// Copies of what anchors name, with the depth of each.
    anchors: BTreeMap<usize, (Node, usize)>,
    allowance: usize,
    root: Option<Node>,
    documents: usize,
    faults: Vec<Fault>,
}

impl Builder<'_> {
    /// Takes an event; `None` when no more should be read.
    fn take(&mut self, event: Event<'_>, span: &Span) -> Option<()> {
        let position = span.start.byte_offset().unwrap_or(0);
        match event {
            Event::DocumentStart(..) => self.begin_document(position),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                if self.name_waits() {
                    return self.name(&text, style, position);
                }
                let value = match style {
                    ScalarStyle::Plain => plain(&text),
                    _ => Value::Text(text.into_owned()),
                };
                self.add(Node { value, position }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.begin(anchor, position, Content::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.begin(anchor, position, Content::Table(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, position),
            // What is left begins or ends the whole, or is switched off by the options.
            _ => Some(()),
        }
    }

    fn begin_document(&mut self, position: usize) -> Option<()> {
        self.documents += 1;
        if self.documents > 1 {
            self.fault(position, "a second document begins; a file has only one");
            return None;
        }
        Some(())
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: &Span) {
        if tag.is_some() {
            let place = span.tag_start.unwrap_or(span.start);
            let position = place.byte_offset().unwrap_or(0);
            self.fault(position, "tags, which begin with `!`, are not allowed");
        }
    }

    /// Whether the name of a value is to come.
    fn name_waits(&self) -> bool {
        let open = self.open.last().map(|open| &open.content);
        matches!(open, Some(Content::Table(_, None)))
    }

    fn name(&mut self, text: &str, style: ScalarStyle, position: usize) -> Option<()> {
        if text == "<<" && matches!(style, ScalarStyle::Plain) {
            self.fault(position, "merge keys (`<<`) are not allowed");
        }
        self.pay(text.len(), position)?;
        if let Some(Content::Table(_, name)) = self.open.last_mut().map(|open| &mut open.content) {
            *name = Some((text.to_owned(), position));
        }
        Some(())
    }

    fn begin(&mut self, anchor: usize, position: usize, content: Content) -> Option<()> {
        if self.name_waits() {
            self.fault(
                position,
                "the name of a field is a text, not a list or a table",
            );
            return None;
        }
        if self.open.len() >= DEPTH_MAX {
            self.too_deep(position);
            return None;
        }
        self.open.push(Open {
            anchor,
            position,
            content,
        });
        Some(())
    }

    fn end(&mut self) -> Option<()> {
        let open = self.open.pop()?;
        let value = match open.content {
            Content::List(values) => Value::List(values),
            Content::Table(entries, _) => table(entries, Format::Yaml, self.text, &mut self.faults),
        };
        let position = open.position;
        self.add(Node { value, position }, open.anchor)
    }

    fn alias(&mut self, anchor: usize, position: usize) -> Option<()> {
        if self.name_waits() {
            self.fault(position, "the name of a field is a text, not an alias");
            return None;
        }
        let Some((node, depth)) = self.anchors.get(&anchor) else {
            // Its anchor is on a list or table that has not ended.
            self.fault(position, "this alias names something that it is a part of");
            return None;
        };
        if self.open.len() + depth > DEPTH_MAX {
            self.too_deep(position);
            return None;
        }
        let bytes = weight(node);
        let node = node.clone();
        self.pay(bytes, position)?;
        self.add(node, 0)
    }

    /// Puts a value where it belongs, and keeps a copy when it has an anchor.
    fn add(&mut self, node: Node, anchor: usize) -> Option<()> {
        self.pay(own_weight(&node), node.position)?;
        if anchor != 0 {
            self.pay(weight(&node), node.position)?;
            self.anchors.insert(anchor, (node.clone(), depth(&node)));
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            Some(Content::List(values)) => values.push(node),
            Some(Content::Table(entries, name)) => {
                let (name, name_position) = name.take()?;
                entries.push(Entry {
                    name,
                    name_position,
                    node,
                });
            }
            None => self.root = Some(node),
        }
        Some(())
    }

    fn pay(&mut self, bytes: usize, position: usize) -> Option<()> {
        match self.allowance.checked_sub(bytes) {
            Some(rest) => {
                self.allowance = rest;
                Some(())
            }
            None => {
                self.fault(
                    position,
                    &format!("the file unfolds to more than {UNFOLDED_MAX} bytes here"),
                );
                None
            }
        }
    }

    fn too_deep(&mut self, position: usize) {
        self.fault(
            position,
            &format!("lists and tables nest deeper than {DEPTH_MAX}"),
        );
    }

    fn fault(&mut self, position: usize, sentence: &str) {
        self.faults.push(Fault::at(self.text, position, sentence));
    }
}

fn own_weight(node: &Node) -> usize {
    let text = match &node.value {
        Value::Text(text) | Value::Float(text) => text.len(),
        Value::Integer(number) => number.digits.len(),
        Value::Boolean(_) | Value::Time | Value::Null | Value::List(_) | Value::Table(_) => 0,
    };
    NODE_BYTES + text
}

/// Bytes of a value with all in it; its depth is bounded.
fn weight(node: &Node) -> usize {
    let inner: usize = match &node.value {
        Value::List(values) => values.iter().map(weight).sum(),
        Value::Table(entries) => entries
            .iter()
            .map(|entry| entry.name.len() + weight(&entry.node))
            .sum(),
        Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Time
        | Value::Null => 0,
    };
    own_weight(node) + inner
}

fn depth(node: &Node) -> usize {
    let inner = match &node.value {
        Value::List(values) => values.iter().map(depth).max(),
        Value::Table(entries) => entries.iter().map(|entry| depth(&entry.node)).max(),
        Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Time
        | Value::Null => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// A scalar without quotes. Source: YAML 1.2.2 section 10.3.2, the core schema; so `yes`, `no`,
/// `on` and `off` are texts.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Boolean(true),
        "false" | "False" | "FALSE" => Value::Boolean(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF"
        | ".nan" | ".NaN" | ".NAN" => Value::Float(text.to_owned()),
        _ => number(text).unwrap_or_else(|| Value::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Value> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        let Some(digits) = text.strip_prefix(prefix) else {
            continue;
        };
        let all = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        return all.then(|| {
            Value::Integer(Whole {
                digits: digits.to_owned(),
                value: i128::from_str_radix(digits, radix).ok(),
                decimal: false,
            })
        });
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !unsigned.is_empty() && digits(unsigned) {
        return Some(Value::Integer(Whole::of_decimal(text)));
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        None => (unsigned, None),
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_good = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let good = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    (good && exponent_good).then(|| Value::Float(text.to_owned()))
}
