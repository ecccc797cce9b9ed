//! YAML and JSON as a tree whose nodes know their line and column, and back.
//!
//! The only module that touches the YAML library. Kubernetes reads YAML 1.1 (`yes` is a boolean, `0644` is octal,
//! `<<` merges), and so does this module.

use std::fmt::{self, Write as _};

use rustc_hash::FxHashMap;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::Value;
use serde_saphyr::{
    Options, Spanned,
    options::{AliasLimits, DuplicateKeyPolicy},
};

/// A configuration file has no use for more than a few aliases; a small number stops alias bombs at once.
const MAX_EVENTS_FROM_ALIASES: usize = 10_000;

/// Where something stands in a file; both count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl From<serde_saphyr::Location> for Position {
    fn from(at: serde_saphyr::Location) -> Self {
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: narrow(at.line()), column: narrow(at.column()) }
    }
}

/// One value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) content: Content,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    String(String),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key and its value. Keys may repeat: finding that out is the reader's business.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) value: Node,
}

/// Why a text is no YAML.
#[derive(Clone, Debug)]
pub(crate) struct YamlError {
    pub(crate) at: Option<Position>,
    pub(crate) message: String,
}

/// Reads the first document of a text; an empty text is a null.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    let documents: Vec<Node> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| YamlError {
            at: e.location().map(Position::from).filter(|at| at.line > 0),
            message: without_position(&e.without_snippet().to_string()),
        })?;
    Ok(documents
        .into_iter()
        .next()
        .unwrap_or(Node { at: Position { line: 1, column: 1 }, content: Content::Null }))
}

/// The library ends its messages with the place; the place is told apart here.
fn without_position(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let end = first.find(" at line ").or_else(|| first.find(" at byte ")).unwrap_or(first.len());
    first[..end].to_owned()
}

fn options() -> Options {
    let mut limits = AliasLimits::default();
    limits.max_total_replayed_events = MAX_EVENTS_FROM_ALIASES;
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        alias_limits: limits,
        with_snippet: false,
    }
}

/// Writes a value as YAML with sorted keys, as Kubernetes does.
pub(crate) fn write(value: &Value) -> Result<String, YamlError> {
    serde_saphyr::to_string(&Sorted(value)).map_err(|e| YamlError { at: None, message: e.to_string() })
}

struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => {
                let mut seq = to.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| seq.serialize_element(&Sorted(item)))?;
                seq.end()
            }
            Value::Object(fields) => {
                let mut sorted: Vec<_> = fields.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                let mut map = to.serialize_map(Some(sorted.len()))?;
                sorted.into_iter().try_for_each(|(key, value)| map.serialize_entry(key, &Sorted(value)))?;
                map.end()
            }
            scalar => scalar.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(from)?;
        Ok(Self { at: spanned.referenced.into(), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Content, E> {
        Ok(Content::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Content::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            entries.push(Entry { at: key.referenced.into(), key: key.value, value: map.next_value()? });
        }
        Ok(Content::Mapping(entries))
    }
}

impl Node {
    /// The entries of a mapping; none for anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a sequence; none for anything else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.content {
            Content::Sequence(items) => items,
            _ => &[],
        }
    }

    /// The entry with that key; the last one if it repeats, as readers of JSON take it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rev().find(|e| e.key == key)
    }

    /// The value with that key, unless null.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value).filter(|v| v.content != Content::Null)
    }

    /// The text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::String(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, in JSON's words.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.content {
            Content::Null => "null",
            Content::Bool(_) => "bool",
            Content::Int(_) | Content::Float(_) => "number",
            Content::String(_) => "string",
            Content::Sequence(_) => "array",
            Content::Mapping(_) => "object",
        }
    }
}

/// Where each field of a document stands, by path (`profiles[0].plugins`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Positions(FxHashMap<String, Position>);

impl Positions {
    pub(crate) fn of(root: &Node) -> Self {
        let mut positions = Self::default();
        positions.add(&mut String::new(), root);
        positions
    }

    fn add(&mut self, path: &mut String, node: &Node) {
        let length = path.len();
        for (i, item) in node.items().iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(path, "[{i}]");
            self.0.insert(path.clone(), item.at);
            self.add(path, item);
            path.truncate(length);
        }
        for entry in node.entries() {
            if length > 0 {
                path.push('.');
            }
            path.push_str(&entry.key);
            self.0.insert(path.clone(), entry.at);
            self.add(path, &entry.value);
            path.truncate(length);
        }
    }

    /// Whether that field is written down.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Where that field stands, or the closest one around it that is written down.
    pub(crate) fn nearest(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            if let Some(at) = self.0.get(path) {
                return Some(*at);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scalar(text: &str) -> Content {
        parse(&format!("key: {text}\n")).unwrap().get("key").map_or(Content::Null, |n| n.content.clone())
    }

    #[test]
    fn scalars_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("yes", Content::Bool(true)),
            ("on", Content::Bool(true)),
            ("n", Content::Bool(false)),
            ("\"yes\"", Content::String("yes".into())),
            ("0644", Content::Int(420)),
            ("12", Content::Int(12)),
            ("-3", Content::Int(-3)),
            ("18446744073709551615", Content::Int(u64::MAX.into())),
            ("1.5", Content::Float(1.5)),
            ("~", Content::Null),
            ("", Content::Null),
            ("10s", Content::String("10s".into())),
        ] {
            assert_eq!(scalar(text), expected, "{text}");
        }
    }

    #[test]
    fn every_field_knows_its_line_and_column() {
        let text = "a: 1\nb:\n  - c: 2\n    d: {e: 3}\n";
        let positions = Positions::of(&parse(text).unwrap());
        for (path, line, column) in [
            ("a", 1, 1),
            ("b", 2, 1),
            ("b[0]", 3, 5),
            ("b[0].d", 4, 5),
            ("b[0].d.e", 4, 9),
            ("b[0].d.absent.deeper", 4, 5),
        ] {
            assert_eq!(positions.nearest(path), Some(Position { line, column }), "{path}");
        }
        assert_eq!(positions.nearest("absent"), None);
    }

    #[test]
    fn merges_aliases_and_repeated_keys_are_kept_apart() {
        let node = parse("base: &b {x: 1}\nuse: {<<: *b, y: 2}\nagain: *b\nagain: 3\n").unwrap();
        let keys: Vec<_> = node.get("use").unwrap().entries().iter().map(|e| e.key.as_str()).collect();
        assert_eq!(keys.len(), 2);
        assert!(keys.contains(&"x") && keys.contains(&"y"));
        assert_eq!(node.entries().iter().filter(|e| e.key == "again").count(), 2);
        assert_eq!(node.get("again").unwrap().content, Content::Int(3));
    }

    #[test]
    fn json_is_read_too_even_with_tabs() {
        let node = parse("{\n\t\"a\": [true, null],\n\t\"b\": \"\\u00e9\\/\"\n}").unwrap();
        assert_eq!(node.get("a").unwrap().items().len(), 2);
        assert_eq!(node.get("b").unwrap().text(), Some("é/"));
        assert_eq!(Positions::of(&node).nearest("b"), Some(Position { line: 3, column: 2 }));
    }

    #[test]
    fn the_first_document_counts_and_nothing_is_null() {
        assert_eq!(parse("---\na: 1\n---\na: 2\n").unwrap().get("a").unwrap().content, Content::Int(1));
        assert_eq!(parse("").unwrap().content, Content::Null);
        assert_eq!(parse("# only words\n").unwrap().content, Content::Null);
    }

    #[test]
    fn broken_text_is_refused_with_its_line() {
        let error = parse("a: 1\nb: [1,\nc: }\n").unwrap_err();
        assert!(error.at.is_some_and(|at| at.line >= 2), "{error:?}");
        assert!(!error.message.contains("line"), "{}", error.message);
    }

    #[test]
    fn an_alias_bomb_is_stopped() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for i in 1..9 {
            let previous = format!("*a{},", i - 1).repeat(9);
            text.push_str(&format!("a{i}: &a{i} [{previous}]\n"));
        }
        assert!(parse(&text).is_err());
    }

    #[test]
    fn what_is_written_is_sorted_and_reads_back() {
        let text =
            write(&json!({"b": "yes", "a": [{"name": "x", "weight": 0}], "c": {}, "d": "10s"})).unwrap();
        assert!(text.find("a:") < text.find("b:"), "{text}");
        let node = parse(&text).unwrap();
        assert_eq!(node.get("b").unwrap().text(), Some("yes"));
        assert_eq!(node.get("a").unwrap().items()[0].get("weight").unwrap().content, Content::Int(0));
        assert_eq!(node.get("c").unwrap().content, Content::Mapping(Vec::new()));
    }
}
