//! From the text of a file to Kubernetes objects that remember where they stand.

use std::sync::Arc;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, json};
use serde_saphyr::{
    Budget, Options, Spanned,
    options::{AliasLimits, DuplicateKeyPolicy},
};

/// Manifests have no use for more than a few aliases; a small number stops alias bombs at once.
const MAX_EVENTS_FROM_ALIASES: usize = 100_000;

/// Where an object stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; empty for objects that come from memory.
    pub file: Arc<str>,
    /// Which document of the file, counted from 1.
    pub document: usize,
    /// Where in the document, for members of a list: `items[3]`. Empty for the document itself.
    pub path: String,
    /// The line on which the document begins, counted from 1.
    pub line: u64,
}

/// An object as it is written, in few bytes: dumps of clusters have many.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    json: Box<str>,
    pub(crate) place: Place,
    /// Fields that are given twice.
    pub(crate) twice: Vec<String>,
}

impl Written {
    pub(crate) fn value(&self) -> Value {
        // What was encoded here can be decoded.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// Why a text is neither YAML nor JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) document: usize,
    pub(crate) line: Option<u64>,
    pub(crate) message: String,
}

/// Reads all documents of a text; members of lists become objects of their own.
pub(crate) fn read(file: &Arc<str>, text: &str) -> Result<Vec<Written>, Unreadable> {
    let documents: Vec<Spanned<Document>> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| unreadable(text, &e))?;
    let beginnings = beginnings(text);
    let mut objects = Vec::with_capacity(documents.len());
    for document in documents {
        let line = document.referenced.line().max(1);
        let document_number = document_at(&beginnings, line);
        let place = |path: String| Place { file: file.clone(), document: document_number, path, line };
        let Document { own, members } = document.value;
        if let Some(Encoded { json, twice }) = own {
            objects.push(Written { json, place: place(String::new()), twice });
        }
        let members = members.into_iter();
        objects.extend(members.map(|(path, Encoded { json, twice })| Written {
            json,
            place: place(path),
            twice,
        }));
    }
    Ok(objects)
}

/// The lines of all fields of a text.
pub(crate) struct Lines(Vec<Located>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(serde_saphyr::from_multiple_with_options(text, options()).unwrap_or_default())
    }

    /// The line of a field (`spec.containers[0].image`) of an object, or of the closest one around it.
    pub(crate) fn line(&self, place: &Place, field: &str) -> Option<u64> {
        let document = self.0.iter().find(|d| d.line == place.line)?;
        let path = if place.path.is_empty() { field.to_owned() } else { format!("{}.{field}", place.path) };
        Some(document.nearest(&path))
    }
}

fn options() -> Options {
    // The files are the user's own and a dump of a large cluster has millions of values.
    let mut budget = Budget::default();
    budget.max_events = usize::MAX;
    budget.max_nodes = usize::MAX;
    budget.max_documents = usize::MAX;
    budget.max_total_scalar_bytes = usize::MAX;
    let mut limits = AliasLimits::default();
    limits.max_total_replayed_events = MAX_EVENTS_FROM_ALIASES;
    serde_saphyr::options! {
        budget: Some(budget),
        legacy_octal_numbers: true,
        // They are found here, all of them.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        alias_limits: limits,
        with_snippet: false,
    }
}

fn unreadable(text: &str, error: &serde_saphyr::Error) -> Unreadable {
    let line = error.location().map(|at| at.line()).filter(|line| *line > 0);
    let message = error.without_snippet().to_string();
    let message = message.lines().next().unwrap_or_default();
    // The library ends its messages with the place, which is told apart here.
    let end = message.find(" at line ").or_else(|| message.find(" at byte ")).unwrap_or(message.len());
    let message = message[..end].trim_end_matches(':').to_owned();
    Unreadable { document: line.map_or(1, |line| document_at(&beginnings(text), line)), line, message }
}

/// The lines on which the documents of a text begin; what holds only comments is none.
fn beginnings(text: &str) -> Vec<u64> {
    let mut lines = Vec::new();
    let mut fresh = true;
    for (line, text) in (1..).zip(text.lines()) {
        let content = match text.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t']) => {
                fresh = true;
                rest
            }
            _ => text,
        };
        if fresh && !content.trim().is_empty() && !content.trim_start().starts_with(['#', '%']) {
            lines.push(line);
            fresh = false;
        }
    }
    lines
}

/// Which document a line belongs to, counted from 1.
fn document_at(beginnings: &[u64], line: u64) -> usize {
    beginnings.partition_point(|begin| *begin <= line).max(1)
}

/// A tree of which only the places are kept.
struct Located {
    line: u64,
    inside: Vec<(String, Located)>,
}

impl Located {
    fn nearest(&self, path: &str) -> u64 {
        let path = path.trim_start_matches('.');
        let end = match path.strip_prefix('[') {
            Some(rest) => rest.find(']').map_or(path.len(), |end| end + 2),
            None => path.find(['.', '[']).unwrap_or(path.len()),
        };
        let (key, rest) = path.split_at(end.min(path.len()));
        // Of a key that is given twice the last counts. A key may itself hold dots (labels, resource names): then the
        // longest one that fits counts.
        let bare = key.strip_prefix('[').and_then(|key| key.strip_suffix(']')).unwrap_or(key);
        let is_meant = |(k, _): &&(String, Located)| !key.is_empty() && (k == key || k == bare);
        let plain = self.inside.iter().rfind(is_meant).map(|(_, v)| (v, rest));
        let dotted = || {
            let fits = |k: &&(String, Located)| !k.0.is_empty() && path.starts_with(k.0.as_str());
            let (key, value) = self.inside.iter().filter(fits).max_by_key(|(k, _)| k.len())?;
            Some((value, &path[key.len()..]))
        };
        plain.or_else(dotted).map_or(self.line, |(value, rest)| value.nearest(rest))
    }
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Inside>::deserialize(from)?;
        Ok(Self { line: spanned.referenced.line(), inside: spanned.value.0 })
    }
}

struct Inside(Vec<(String, Located)>);

impl<'de> Deserialize<'de> for Inside {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(InsideVisitor)
    }
}

struct InsideVisitor;

macro_rules! nothing_inside {
    ($($visit:ident: $of:ty),*) => {
        $(fn $visit<E>(self, _: $of) -> Result<Inside, E> { Ok(Inside(Vec::new())) })*
    };
}

impl<'de> Visitor<'de> for InsideVisitor {
    type Value = Inside;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    nothing_inside!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Inside, E> {
        Ok(Inside(Vec::new()))
    }

    fn visit_none<E>(self) -> Result<Inside, E> {
        Ok(Inside(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Inside, A::Error> {
        let mut inside = Vec::new();
        while let Some(item) = seq.next_element()? {
            inside.push((format!("[{}]", inside.len()), item));
        }
        Ok(Inside(inside))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inside, A::Error> {
        let mut inside = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value: Located = map.next_value()?;
            // The line of the key is where a reader looks.
            inside.push((key.value, Located { line: key.referenced.line(), ..value }));
        }
        Ok(Inside(inside))
    }
}

/// A document: an object of its own, or the members of lists in it with their places.
#[derive(Default)]
struct Document {
    own: Option<Encoded>,
    members: Vec<(String, Encoded)>,
}

struct Encoded {
    json: Box<str>,
    twice: Vec<String>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DocumentVisitor)
    }
}

/// Encodes each member of a list as soon as it is read.
struct DocumentVisitor;

impl DocumentVisitor {
    fn whole(value: Value, twice: Vec<String>) -> Document {
        Document { own: Some(encoded(&value, twice)), members: Vec::new() }
    }
}

fn encoded(value: &Value, twice: Vec<String>) -> Encoded {
    Encoded { json: value.to_string().into(), twice }
}

macro_rules! scalar_document {
    ($($visit:ident: $of:ty),*) => {
        $(fn $visit<E>(self, value: $of) -> Result<Document, E> { Ok(Self::whole(json!(value), Vec::new())) })*
    };
}

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    scalar_document!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Document, E> {
        Ok(Self::whole(Value::Null, Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Document, A::Error> {
        let mut twice = Vec::new();
        let value = ValueSeed { path: "", twice: &mut twice }.visit_seq(seq)?;
        Ok(Self::whole(value, twice))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let (mut fields, mut twice, mut members) = (Map::new(), Vec::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" && is_list(&fields) {
                members = Some(map.next_value::<Items>()?.0);
                continue;
            }
            let value = map.next_value_seed(ValueSeed { path: &key, twice: &mut twice })?;
            if fields.insert(key.clone(), value).is_some() {
                twice.push(key);
            }
        }
        let Some(members) = members else { return Ok(Self::whole(Value::Object(fields), twice)) };
        Ok(Document { own: None, members: members_of(&fields, members) })
    }
}

/// Whether an object of which these fields are known may turn out to be a list. kubectl writes the members of a list
/// before its kind.
fn is_list(fields: &Map<String, Value>) -> bool {
    fields.get("kind").is_none_or(|kind| kind.as_str().is_some_and(|kind| kind.ends_with("List")))
}

/// The members of a list, with the kind that those of typed lists do not repeat.
fn members_of(list: &Map<String, Value>, items: Vec<Document>) -> Vec<(String, Encoded)> {
    let kind = list.get("kind").and_then(Value::as_str).unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or_default();
    let named = |encoded: Encoded| match serde_json::from_str(&encoded.json) {
        Ok(Value::Object(mut fields)) if !kind.is_empty() && !fields.contains_key("kind") => {
            fields.insert("kind".into(), kind.into());
            if let Some(version) = list.get("apiVersion") {
                fields.entry("apiVersion").or_insert_with(|| version.clone());
            }
            self::encoded(&Value::Object(fields), encoded.twice)
        }
        _ => encoded,
    };
    let mut members = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let own = item.own.map(|encoded| (format!("items[{i}]"), named(encoded)));
        let nested = item.members.into_iter().map(|(path, encoded)| (format!("items[{i}].{path}"), encoded));
        members.extend(own.into_iter().chain(nested));
    }
    members
}

/// The members of a list; an empty list has none, and anything else is none.
struct Items(Vec<Document>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::<Vec<Document>>::deserialize(from).map(|items| Self(items.unwrap_or_default()))
    }
}

/// Reads a value, and writes down the paths of keys that are given twice.
struct ValueSeed<'a> {
    path: &'a str,
    twice: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

macro_rules! scalar_value {
    ($($visit:ident: $of:ty),*) => {
        $(fn $visit<E>(self, value: $of) -> Result<Value, E> { Ok(json!(value)) })*
    };
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    scalar_value!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str, visit_string: String);

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, items.len());
            let Some(item) = seq.next_element_seed(ValueSeed { path: &path, twice: self.twice })? else {
                return Ok(Value::Array(items));
            };
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = format!("{}.{key}", self.path);
            let value = map.next_value_seed(ValueSeed { path: &path, twice: self.twice })?;
            if fields.insert(key, value).is_some() {
                self.twice.push(path);
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# two documents\n---\nkind: Pod\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata:\n    name: b\n    labels:\n      example.com/x: y\n- kind: NodeList\n  apiVersion: v1\n  items: [{metadata: {name: n}}]\n";

    #[test]
    fn documents_and_members_of_lists_know_their_places() {
        let objects = read(&"f".into(), TEXT).unwrap();
        let places: Vec<_> = objects
            .iter()
            .map(|o| {
                let kind = o.value()["kind"].as_str().unwrap().to_owned();
                (kind, o.place.document, o.place.path.as_str(), o.place.line)
            })
            .collect();
        assert_eq!(
            places,
            [("Pod", 1, "", 3), ("Pod", 2, "items[0]", 7), ("Node", 2, "items[1].items[0]", 7)]
                .map(|(kind, document, path, line)| (kind.to_owned(), document, path, line))
        );
    }

    #[test]
    fn a_field_or_the_closest_one_around_it_has_a_line() {
        let place = read(&"f".into(), TEXT).unwrap()[1].place.clone();
        for (field, line) in [
            ("metadata.name", 12),
            ("metadata.labels.example.com/x", 14),
            ("spec.containers[0].image", 10),
            ("", 10),
        ] {
            assert_eq!(Lines::of(TEXT).line(&place, field), Some(line), "{field}");
        }
    }

    #[test]
    fn json_is_read_too_and_octal_numbers_are_kubernetes_own() {
        let objects = read(&"f".into(), r#"{"kind": "Pod", "spec": {"x": [1, null, "yes", 0644]}}"#).unwrap();
        assert_eq!(objects[0].value()["spec"]["x"], serde_json::json!([1, null, "yes", 420]));
    }

    #[test]
    fn what_cannot_be_read_names_document_and_line() {
        let error = read(&"f".into(), "a: 1\n---\nb: [1\nc: 2\n").unwrap_err();
        assert_eq!((error.document, error.line.is_some()), (2, true), "{error:?}");
        assert!(read(&"f".into(), "# nothing\n---\n").unwrap().is_empty());
    }

    #[test]
    fn keys_that_are_given_twice_are_all_told_and_the_last_counts() {
        let text =
            "kind: A\na: 1\na: 2\nb:\n- c: 1\n  c: 2\n  d: 1\n---\nitems:\n- {x: {y: 1, y: 2}}\nkind: List\n";
        let objects = read(&"f".into(), text).unwrap();
        assert_eq!(objects[0].twice, ["a", "b[0].c"]);
        assert_eq!(objects[0].value(), serde_json::json!({"kind": "A", "a": 2, "b": [{"c": 2, "d": 1}]}));
        assert_eq!((&objects[1].twice[0], objects[1].place.path.as_str()), (&"x.y".to_owned(), "items[0]"));
        let lines = Lines::of(text);
        assert_eq!(lines.line(&objects[0].place, "b[0].c"), Some(6));
    }
}
