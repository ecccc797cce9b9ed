//! Documents as trees.

use serde_json::{Map, Number, Value};

/// Position in a text. Lines and columns are counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// One value of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The node's position.
    pub at: Position,
    /// The node's value.
    pub content: Content,
    /// The text of a boolean or number as written in the document; empty for everything else.
    pub written: Box<str>,
}

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Content {
    /// No value.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer that fits into 64 bits, signed or unsigned.
    Int(i128),
    /// A finite floating-point number.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    Sequence(Vec<Node>),
    /// An object.
    Mapping(Vec<Entry>),
}

/// A key and its value. If a mapping repeats a key, the last entry is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key; numbers and booleans are converted to strings.
    pub key: String,
    /// Position of the key.
    pub at: Position,
    /// The value.
    pub value: Node,
    /// True if the entry comes from a mapping that `<<` merges.
    pub is_merged: bool,
}

impl Node {
    /// Returns the entries of a mapping; an empty slice for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a sequence; an empty slice for anything else.
    pub fn items(&self) -> &[Node] {
        match &self.content {
            Content::Sequence(items) => items,
            _ => &[],
        }
    }

    /// Returns the entry with the given key; the last such entry if the key is repeated.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rev().find(|entry| entry.key == key)
    }

    /// Returns the value of the given key, unless the value is null.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value).filter(|value| value.content != Content::Null)
    }

    /// Returns the text if the node is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the node's type in JSON.
    pub fn type_name(&self) -> &'static str {
        match self.content {
            Content::Null => "null",
            Content::Bool(_) => "bool",
            Content::Int(_) | Content::Float(_) => "number",
            Content::String(_) => "string",
            Content::Sequence(_) => "array",
            Content::Mapping(_) => "object",
        }
    }

    /// Converts the value to JSON. If a key is repeated, the last entry is used.
    pub fn into_json(self) -> Value {
        match self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(value),
            Content::Int(value) => integer(value).map_or(Value::Null, Value::Number),
            Content::Float(value) => float(value).map_or(Value::Null, Value::Number),
            Content::String(value) => Value::String(value),
            Content::Sequence(items) => Value::Array(items.into_iter().map(Self::into_json).collect()),
            Content::Mapping(entries) => {
                let fields = entries.into_iter().map(|entry| (entry.key, entry.value.into_json()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns the number of nodes in the tree and its depth.
    pub(crate) fn size(&self) -> (usize, usize) {
        let inside = self.items().iter().chain(self.entries().iter().map(|entry| &entry.value));
        let (count, depth) =
            inside.map(Self::size).fold((0, 0), |(n, deepest), (m, depth)| (n + m, deepest.max(depth)));
        (count + 1, depth + 1)
    }
}

fn integer(value: i128) -> Option<Number> {
    let signed = i64::try_from(value).map(Number::from);
    signed.or_else(|_| u64::try_from(value).map(Number::from)).ok()
}

/// Converts a number to JSON as Kubernetes does: a number without a fraction becomes an integer if it fits
/// into 64 bits.
fn float(value: f64) -> Option<Number> {
    /// The smallest positive integer that does not fit into a signed 64-bit integer.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-END..END).contains(&value) {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}
