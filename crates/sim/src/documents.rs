//! From the text of a file to Kubernetes objects that remember where they stand.

use std::sync::Arc;

use harbormaster_yaml::{Content, Entry, Error, Key, Node, Reader, Shape};
use serde_json::{Map, Value};

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
    let beginnings = beginnings(text);
    let mut reader = Reader::new(text);
    let mut objects = Vec::new();
    read_all(&mut reader, &mut |line, document| {
        let document_number = document_at(&beginnings, line);
        let place = |path: String| Place { file: file.clone(), document: document_number, path, line };
        let Document { own, members } = document;
        if let Some(Encoded { json, twice }) = own {
            objects.push(Written { json, place: place(String::new()), twice });
        }
        let members = members.into_iter();
        objects.extend(members.map(|(path, Encoded { json, twice })| Written {
            json,
            place: place(path),
            twice,
        }));
    })
    .map_err(|error| unreadable(&beginnings, error))?;
    Ok(objects)
}

/// Hands every document on that is not empty, with its line.
fn read_all(reader: &mut Reader<'_>, each: &mut dyn FnMut(u64, Document)) -> Result<(), Error> {
    while reader.next_document()? {
        let line = reader.position()?.line.max(1);
        let document = document(reader)?;
        if !document.is_empty() {
            each(line.into(), document);
        }
    }
    Ok(())
}

fn unreadable(beginnings: &[u64], error: Error) -> Unreadable {
    let line = error.at.map(|at| u64::from(at.line));
    let document = line.map_or(1, |line| document_at(beginnings, line));
    Unreadable { document, line, message: error.message }
}

/// All fields of a text with their lines and how they are written.
pub(crate) struct Fields(Vec<Node>);

/// A field of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    /// Its line, or that of the closest one around it.
    pub(crate) line: u64,
    /// The text of a number or boolean.
    pub(crate) written: &'a str,
}

impl Fields {
    pub(crate) fn of(text: &str) -> Self {
        let mut reader = Reader::new(text);
        let mut documents = Vec::new();
        while let Ok(true) = reader.next_document()
            && let Ok(document) = reader.value()
        {
            documents.push(document);
        }
        documents.retain(|document| document.content != Content::Null);
        Self(documents)
    }

    /// A field (`spec.containers[0].image`) of an object, or the closest one around it.
    pub(crate) fn find(&self, place: &Place, field: &str) -> Option<Found<'_>> {
        let document = self.0.iter().find(|document| u64::from(document.at.line.max(1)) == place.line)?;
        let path = if place.path.is_empty() { field.to_owned() } else { format!("{}.{field}", place.path) };
        Some(nearest(document, document.at.line.into(), &path))
    }
}

/// The line of a key is where a reader looks.
fn nearest<'a>(node: &'a Node, line: u64, path: &str) -> Found<'a> {
    let path = path.trim_start_matches('.');
    let end = match path.strip_prefix('[') {
        Some(rest) => rest.find(']').map_or(path.len(), |end| end + 2),
        None => path.find(['.', '[']).unwrap_or(path.len()),
    };
    let (key, rest) = path.split_at(end.min(path.len()));
    let bare = key.strip_prefix('[').and_then(|key| key.strip_suffix(']')).unwrap_or(key);
    let item = bare.parse::<usize>().ok().and_then(|index| node.items().get(index));
    if let Some(item) = item {
        return nearest(item, item.at.line.into(), rest);
    }
    // A key may itself hold dots (labels, resource names): then the longest one that fits counts.
    let plain =
        node.entry(key).or_else(|| node.entry(bare)).filter(|_| !key.is_empty()).map(|entry| (entry, rest));
    let dotted = || {
        let entries = node.entries().iter();
        let entry = entries.filter(|entry| !entry.key.is_empty() && path.starts_with(&entry.key));
        let entry = entry.max_by_key(|entry| entry.key.len())?;
        Some((entry, &path[entry.key.len()..]))
    };
    match plain.or_else(dotted) {
        Some((entry, rest)) => nearest(&entry.value, entry.at.line.into(), rest),
        None => Found { line, written: if path.is_empty() { &node.written } else { "" } },
    }
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

impl Document {
    fn whole(value: &Value, twice: Vec<String>) -> Self {
        Self { own: Some(encoded(value, twice)), members: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.own.as_ref().is_some_and(|own| &*own.json == "null")
    }

    fn of(node: Node) -> Self {
        let mut twice = Vec::new();
        let Content::Mapping(entries) = node.content else {
            return Self::whole(&node.into_json_at("", &mut twice), twice);
        };
        let mut parts = Parts::default();
        for Entry { key, value, is_merged, .. } in entries {
            parts.add(key, value, is_merged);
        }
        parts.finish()
    }
}

fn encoded(value: &Value, twice: Vec<String>) -> Encoded {
    Encoded { json: value.to_string().into(), twice }
}

/// Reads a document, or a member of a list, and encodes members of lists as soon as they are read.
fn document(reader: &mut Reader<'_>) -> Result<Document, Error> {
    if reader.shape()? != Shape::Mapping {
        return reader.value().map(Document::of);
    }
    reader.enter_mapping()?;
    let mut parts = Parts::default();
    while let Some(Key { text: key, is_merged, .. }) = reader.next_key()? {
        if parts.has_members_in(&key) && reader.shape()? == Shape::Sequence {
            reader.enter_sequence()?;
            let mut members = Vec::new();
            while reader.has_item()? {
                members.push(document(reader)?);
            }
            parts.members = Some(members);
            continue;
        }
        let value = reader.value()?;
        parts.add(key, value, is_merged);
    }
    Ok(parts.finish())
}

/// The fields of an object that may turn out to be a list.
#[derive(Default)]
struct Parts {
    fields: Map<String, Value>,
    merged: Vec<String>,
    twice: Vec<String>,
    members: Option<Vec<Document>>,
}

impl Parts {
    fn has_members_in(&self, key: &str) -> bool {
        key == "items" && is_list(&self.fields)
    }

    fn add(&mut self, key: String, value: Node, is_merged: bool) {
        if self.has_members_in(&key) {
            match value.content {
                Content::Sequence(items) => {
                    self.members = Some(items.into_iter().map(Document::of).collect());
                    return;
                }
                Content::Null => {
                    self.members = Some(Vec::new());
                    return;
                }
                _ => {}
            }
        }
        let value = value.into_json_at(&key, &mut self.twice);
        if is_merged {
            self.merged.push(key.clone());
        }
        let overrides = is_merged || self.merged.contains(&key);
        if self.fields.insert(key.clone(), value).is_some() && !overrides {
            self.twice.push(key);
        }
    }

    fn finish(self) -> Document {
        match self.members {
            None => Document::whole(&Value::Object(self.fields), self.twice),
            Some(members) => Document { own: None, members: members_of(&self.fields, members) },
        }
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
            let found = Fields::of(TEXT).find(&place, field).map(|found| found.line);
            assert_eq!(found, Some(line), "{field}");
        }
    }

    #[test]
    fn json_is_read_too_and_octal_numbers_are_kubernetes_own() {
        let objects = read(&"f".into(), r#"{"kind": "Pod", "spec": {"x": [1, null, "yes", 0644]}}"#).unwrap();
        assert_eq!(objects[0].value()["spec"]["x"], serde_json::json!([1, null, "yes", 420]));
    }

    #[test]
    fn labels_that_look_like_numbers_beyond_all_bounds_are_texts() {
        let text =
            "kind: Pod\nmetadata:\n  labels:\n    hash: 1234e567\n    other: 9574e20712\n    real: 1.5\n";
        let objects = read(&"f".into(), text).unwrap();
        let labels = serde_json::json!({"hash": "1234e567", "other": "9574e20712", "real": 1.5});
        assert_eq!(objects[0].value()["metadata"]["labels"], labels);
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
            "kind: A\na: 1\na: 2\nb:\n- c: 1\n  c: 2\n  d: 1\n---\nitems:\n- {x: {w: 1, w: 2}}\nkind: List\n";
        let objects = read(&"f".into(), text).unwrap();
        assert_eq!(objects[0].twice, ["a", "b[0].c"]);
        assert_eq!(objects[0].value(), serde_json::json!({"kind": "A", "a": 2, "b": [{"c": 2, "d": 1}]}));
        assert_eq!((&objects[1].twice[0], objects[1].place.path.as_str()), (&"x.w".to_owned(), "items[0]"));
        let fields = Fields::of(text);
        assert_eq!(fields.find(&objects[0].place, "b[0].c"), Some(Found { line: 6, written: "2" }));
    }
}
