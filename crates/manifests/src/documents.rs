//! From the text of a file to objects with their locations.

use std::{borrow::Cow, sync::Arc};

use harbormaster_yaml::{
    Content, Entry, Error, Key, Node, Reader, Shape,
    quick::{self, Outline, Pieces},
};
use serde_json::Value;

use crate::json;

/// Location of an object in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// File as named by the user; empty for objects that were not read from a file.
    pub file: Arc<str>,
    /// Number of the document in the file, counted from 1.
    pub document: usize,
    /// Path within the document for members of a list: `items[3]`. Empty for the document itself.
    pub path: String,
    /// Line on which the document begins, counted from 1.
    pub line: u64,
}

/// An object as written. It is stored as JSON text to save memory, because dumps of clusters contain many objects.
#[derive(Clone, Debug)]
pub(crate) struct DocumentObject {
    json: Box<str>,
    pub(crate) location: Location,
    /// Paths of duplicate keys.
    pub(crate) repeated: Vec<String>,
}

impl DocumentObject {
    pub(crate) fn value(&self) -> Value {
        // This module encoded the JSON, so decoding cannot fail.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// The reason why a text is neither valid YAML nor valid JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) document: usize,
    pub(crate) line: Option<u64>,
    pub(crate) message: String,
}

/// A part of a text that can be read on its own: a document, or a member of a list.
pub(crate) struct Unit<'t> {
    document: usize,
    line: u64,
    piece: Piece<'t>,
    /// The list that has the member, and the member's index.
    list: Option<(Arc<ListHead>, usize)>,
}

#[derive(Clone, Copy)]
enum Piece<'t> {
    Json(&'t str),
    Yaml(&'t str),
    /// An element of a list, with its dash.
    YamlElement(&'t str),
}

struct ListHead {
    kind: String,
    version: Option<Value>,
}

/// Cuts a text into units, without checking them. Returns `None` if [`read_yaml`] must read the text.
pub(crate) fn units(text: &str) -> Option<Vec<Unit<'_>>> {
    let start = text.len() - text.trim_ascii_start().len();
    let mut units = Vec::new();
    if text[start..].starts_with('{')
        && let Some(list) = json::list(text)
    {
        let line = text[..start].matches('\n').count() as u64 + 1;
        match list {
            None => units.push(Unit { document: 1, line, piece: Piece::Json(text), list: None }),
            Some(json::List { kind, version, items }) => {
                let head = Arc::new(ListHead { kind, version });
                add_members(&mut units, (1, line), head, items.into_iter().map(Piece::Json));
            }
        }
        return Some(units);
    }
    for Outline { line, number: document, content } in quick::outline(text)? {
        match content {
            Pieces::Whole(text) => {
                let is_json = text.trim_ascii_start().starts_with('{');
                let piece = if is_json { Piece::Json(text) } else { Piece::Yaml(text) };
                units.push(Unit { document, line, piece, list: None });
            }
            Pieces::Items { fields, items } => {
                let field = |name: &str| fields.iter().find(|(key, _)| *key == name);
                let value = |name: &str| serde_json::from_str::<Value>(&field(name)?.1).ok();
                let kind =
                    value("kind").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
                let head = Arc::new(ListHead { kind, version: value("apiVersion") });
                let pieces = items.into_iter().map(Piece::YamlElement);
                add_members(&mut units, (document, line), head, pieces);
            }
        }
    }
    Some(units)
}

fn add_members<'t>(
    units: &mut Vec<Unit<'t>>,
    (document, line): (usize, u64),
    head: Arc<ListHead>,
    pieces: impl Iterator<Item = Piece<'t>>,
) {
    let member = |(i, piece)| Unit { document, line, piece, list: Some((head.clone(), i)) };
    units.extend(pieces.enumerate().map(member));
}

impl<'t> Unit<'t> {
    /// Returns the unit as JSON, which may be invalid. Returns `None` if the YAML reader must read the unit.
    pub(crate) fn json(&self) -> Option<Cow<'t, str>> {
        match self.piece {
            Piece::Json(text) => Some(text.into()),
            Piece::Yaml(text) => quick::to_json(text).map(Cow::from),
            Piece::YamlElement(text) => quick::element_to_json(text).map(Cow::from),
        }
    }

    /// Returns the location of an object of the unit. `path` leads from the unit to the object.
    pub(crate) fn location(&self, file: &Arc<str>, path: &str) -> Location {
        let path = match &self.list {
            None => path.to_owned(),
            Some((_, i)) if path.is_empty() => format!("items[{i}]"),
            Some((_, i)) => format!("items[{i}].{path}"),
        };
        Location { file: file.clone(), document: self.document, path, line: self.line }
    }

    /// Returns the objects of the unit, of which [`Self::json`] is the JSON. Returns `None` if [`read_yaml`] must read
    /// the whole text.
    pub(crate) fn objects(&self, file: &Arc<str>, json: Option<&str>) -> Option<Vec<DocumentObject>> {
        let document = match json {
            Some(json) => json::member(json)?,
            None => self.read_yaml().ok()??,
        };
        let document = match &self.list {
            None if document.is_empty() => return Some(Vec::new()),
            None => document,
            Some((head, _)) => document.named(&head.kind, head.version.as_ref()),
        };
        let object = document.object.map(|object| (String::new(), object));
        let objects = object.into_iter().chain(document.members).map(|(path, Encoded { json, repeated })| {
            DocumentObject { json, location: self.location(file, &path), repeated }
        });
        Some(objects.collect())
    }

    /// Reads the unit as a text of its own. Returns `None` if it is not one document.
    fn read_yaml(&self) -> Result<Option<Document>, Error> {
        let text = match self.piece {
            Piece::Json(text) | Piece::Yaml(text) => Cow::from(text),
            // Without the dash, the element is a document.
            Piece::YamlElement(text) => text.replacen('-', " ", 1).into(),
        };
        let mut reader = Reader::new(&text);
        if !reader.next_document()? {
            return Ok(None);
        }
        // The reader may find that the document begins elsewhere, for example behind an anchor.
        let line = usize::try_from(reader.position()?.line).ok();
        let begins =
            text.lines().position(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        if line != begins.map(|line| line + 1) {
            return Ok(None);
        }
        let document = document(&mut reader)?;
        Ok((!reader.next_document()?).then_some(document))
    }
}

/// Reads all documents of a text. Members of lists become separate objects.
pub(crate) fn read_yaml(file: &Arc<str>, text: &str) -> Result<Vec<DocumentObject>, SyntaxError> {
    let beginnings = beginnings(text);
    let mut reader = Reader::new(text);
    let mut objects = Vec::new();
    read_all(&mut reader, &mut |line, document| {
        objects.extend(document.located(file, document_at(&beginnings, line), line));
    })
    .map_err(|error| syntax_error(&beginnings, error))?;
    Ok(objects)
}

/// Reads a text as [`Manifests`](crate::Manifests) does: unit by unit if possible.
#[cfg(test)]
pub(crate) fn read(file: &Arc<str>, text: &str) -> Result<Vec<DocumentObject>, SyntaxError> {
    let objects = |unit: &Unit<'_>| unit.objects(file, unit.json().as_deref());
    let by_unit = units(text).and_then(|units| units.iter().map(objects).collect::<Option<Vec<_>>>());
    by_unit.map_or_else(|| read_yaml(file, text), |objects| Ok(objects.into_iter().flatten().collect()))
}

/// Calls `each` with every nonempty document and its line.
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

fn syntax_error(beginnings: &[u64], error: Error) -> SyntaxError {
    let line = error.at.map(|at| u64::from(at.line));
    let document = line.map_or(1, |line| document_at(beginnings, line));
    SyntaxError { document, line, message: error.message }
}

/// Documents of a text as trees, for looking up lines.
pub(crate) struct DocumentTrees(Vec<Node>);

/// Line and text of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldText<'a> {
    /// Line of the field, or of the closest field around it.
    pub(crate) line: u64,
    /// Text of a number or boolean; empty for everything else.
    pub(crate) written: &'a str,
}

impl DocumentTrees {
    pub(crate) fn read(text: &str) -> Self {
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

    /// Finds a field (`spec.containers[0].image`) of an object, or the closest field around it.
    pub(crate) fn find(&self, location: &Location, field: &str) -> Option<FieldText<'_>> {
        let line = |node: &Node| u64::from(node.at.line.max(1));
        let document = self.0.iter().find(|document| line(document) == location.line)?;
        let path = match location.path.as_str() {
            "" => field.to_owned(),
            path => format!("{path}.{field}"),
        };
        Some(match document.field(&path) {
            None => FieldText { line: document.at.line.into(), written: "" },
            Some(field) => {
                let written = if field.is_exact { &*field.value.written } else { "" };
                FieldText { line: field.at.line.into(), written }
            }
        })
    }
}

/// Returns the lines on which the documents of a text begin. Comments alone do not form a document.
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

/// Returns the number of the document that a line belongs to, counted from 1.
fn document_at(beginnings: &[u64], line: u64) -> usize {
    beginnings.partition_point(|begin| *begin <= line).max(1)
}

/// One object, or the members of a list with their paths.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) object: Option<Encoded>,
    pub(crate) members: Vec<(String, Encoded)>,
}

/// An object as JSON, and the paths of its repeated keys.
pub(crate) struct Encoded {
    pub(crate) json: Box<str>,
    pub(crate) repeated: Vec<String>,
}

impl Encoded {
    fn of(node: Node) -> Self {
        let repeated = node.repeated_keys().into_iter().map(|(path, _)| path).collect();
        Self { json: node.into_json().to_string().into(), repeated }
    }
}

impl Document {
    fn is_empty(&self) -> bool {
        self.object.as_ref().is_some_and(|object| &*object.json == "null")
    }

    fn of(node: Node) -> Self {
        match node.content {
            Content::Mapping(entries) => {
                let mut fields = Fields::default();
                entries.into_iter().for_each(|entry| fields.add(entry));
                fields.finish()
            }
            _ => Self { object: Some(Encoded::of(node)), members: Vec::new() },
        }
    }

    /// Returns a list of the given kind and version.
    pub(crate) fn list(kind: &str, version: Option<&Value>, items: Vec<Self>) -> Self {
        let mut members = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            let item = item.named(kind, version);
            let object = item.object.map(|object| (format!("items[{i}]"), object));
            let nested =
                item.members.into_iter().map(|(path, object)| (format!("items[{i}].{path}"), object));
            members.extend(object.into_iter().chain(nested));
        }
        Self { object: None, members }
    }

    /// Returns the member of a list. A member without a `kind`, as in typed lists, gets the `kind` and `apiVersion` that
    /// the list implies.
    fn named(self, list_kind: &str, version: Option<&Value>) -> Self {
        let kind = list_kind.strip_suffix("List").unwrap_or_default();
        let Some(Encoded { json, .. }) = self.object.as_ref().filter(|_| !kind.is_empty()) else {
            return self;
        };
        match serde_json::from_str(json) {
            Ok(Value::Object(mut fields)) if !fields.contains_key("kind") => {
                fields.insert("kind".into(), kind.into());
                if let Some(version) = version {
                    fields.entry("apiVersion").or_insert_with(|| version.clone());
                }
                let object = self.object.map(|Encoded { repeated, .. }| Encoded {
                    json: Value::Object(fields).to_string().into(),
                    repeated,
                });
                Self { object, ..self }
            }
            _ => self,
        }
    }

    /// Returns the objects with their locations.
    fn located(
        self,
        file: &Arc<str>,
        document: usize,
        line: u64,
    ) -> impl Iterator<Item = DocumentObject> + use<'_> {
        let object = self.object.map(|object| (String::new(), object));
        object.into_iter().chain(self.members).map(move |(path, Encoded { json, repeated })| {
            let location = Location { file: file.clone(), document, path, line };
            DocumentObject { json, location, repeated }
        })
    }
}

/// Returns true if an object with this kind, which may not be known yet, may be a list.
pub(crate) fn is_list(kind: Option<Value>) -> bool {
    kind.is_none_or(|kind| kind.as_str().is_some_and(|kind| kind.ends_with("List")))
}

/// Reads a document, or a member of a list. Encodes members of lists as soon as they are read.
fn document(reader: &mut Reader<'_>) -> Result<Document, Error> {
    if reader.shape()? != Shape::Mapping {
        return reader.value().map(Document::of);
    }
    reader.enter_mapping()?;
    let mut fields = Fields::default();
    while let Some(Key { text: key, at, is_merged }) = reader.next_key()? {
        if fields.has_members_in(&key) && reader.shape()? == Shape::Sequence {
            reader.enter_sequence()?;
            let mut members = Vec::new();
            while reader.has_item()? {
                members.push(document(reader)?);
            }
            fields.members = Some(members);
            continue;
        }
        let value = reader.value()?;
        fields.add(Entry { key, at, value, is_merged });
    }
    Ok(fields.finish())
}

/// Fields of an object that may turn out to be a list.
#[derive(Default)]
struct Fields {
    entries: Vec<Entry>,
    members: Option<Vec<Document>>,
}

impl Fields {
    /// Returns true if the value of a key may be the members of a list. The list's kind may not be known yet, because
    /// kubectl writes `items` before `kind`.
    fn has_members_in(&self, key: &str) -> bool {
        let kind = || self.entries.iter().rev().find(|entry| entry.key == "kind");
        key == "items"
            && kind().is_none_or(|kind| kind.value.text().is_some_and(|kind| kind.ends_with("List")))
    }

    fn add(&mut self, entry: Entry) {
        let is_members = self.has_members_in(&entry.key);
        match entry.value.content {
            Content::Sequence(items) if is_members => {
                self.members = Some(items.into_iter().map(Document::of).collect());
            }
            Content::Null if is_members => self.members = Some(Vec::new()),
            _ => self.entries.push(entry),
        }
    }

    fn finish(self) -> Document {
        let fields = Node { content: Content::Mapping(self.entries), ..Node::default() };
        match self.members {
            None => Document { object: Some(Encoded::of(fields)), members: Vec::new() },
            Some(members) => {
                let kind = fields.get("kind").and_then(Node::text).unwrap_or_default();
                let version = fields.entry("apiVersion").map(|version| version.value.clone().into_json());
                Document::list(kind, version.as_ref(), members)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# two documents\n---\nkind: Pod\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata:\n    name: b\n    labels:\n      example.com/x: y\n- kind: NodeList\n  apiVersion: v1\n  items: [{metadata: {name: n}}]\n";

    #[test]
    fn documents_and_members_of_lists_have_locations() {
        let objects = read(&"f".into(), TEXT).unwrap();
        let locations: Vec<_> = objects
            .iter()
            .map(|o| {
                let kind = o.value()["kind"].as_str().unwrap().to_owned();
                (kind, o.location.document, o.location.path.as_str(), o.location.line)
            })
            .collect();
        assert_eq!(
            locations,
            [("Pod", 1, "", 3), ("Pod", 2, "items[0]", 7), ("Node", 2, "items[1].items[0]", 7)]
                .map(|(kind, document, path, line)| (kind.to_owned(), document, path, line))
        );
    }

    #[test]
    fn a_field_or_the_closest_field_around_it_has_a_line() {
        let location = read(&"f".into(), TEXT).unwrap()[1].location.clone();
        for (field, line) in [
            ("metadata.name", 12),
            ("metadata.labels.example.com/x", 14),
            ("spec.containers[0].image", 10),
            ("", 10),
        ] {
            let found = DocumentTrees::read(TEXT).find(&location, field).map(|found| found.line);
            assert_eq!(found, Some(line), "{field}");
        }
    }

    #[test]
    fn json_is_read_and_octal_numbers_are_read_as_in_kubernetes() {
        let objects = read(&"f".into(), r#"{"kind": "Pod", "spec": {"x": [1, null, "yes", 0644]}}"#).unwrap();
        assert_eq!(objects[0].value()["spec"]["x"], serde_json::json!([1, null, "yes", 420]));
    }

    #[test]
    fn labels_that_look_like_huge_numbers_are_strings() {
        let text =
            "kind: Pod\nmetadata:\n  labels:\n    hash: 1234e567\n    other: 9574e20712\n    real: 1.5\n";
        let objects = read(&"f".into(), text).unwrap();
        let labels = serde_json::json!({"hash": "1234e567", "other": "9574e20712", "real": 1.5});
        assert_eq!(objects[0].value()["metadata"]["labels"], labels);
    }

    #[test]
    fn unreadable_text_is_reported_with_document_and_line() {
        let error = read(&"f".into(), "a: 1\n---\nb: [1\nc: 2\n").unwrap_err();
        assert_eq!((error.document, error.line.is_some()), (2, true), "{error:?}");
        assert!(read(&"f".into(), "# nothing\n---\n").unwrap().is_empty());
    }

    #[test]
    fn all_duplicate_keys_are_reported_and_the_last_value_is_used() {
        let text =
            "kind: A\na: 1\na: 2\nb:\n- c: 1\n  c: 2\n  d: 1\n---\nitems:\n- {x: {w: 1, w: 2}}\nkind: List\n";
        let objects = read(&"f".into(), text).unwrap();
        assert_eq!(objects[0].repeated, ["a", "b[0].c"]);
        assert_eq!(objects[0].value(), serde_json::json!({"kind": "A", "a": 2, "b": [{"c": 2, "d": 1}]}));
        assert_eq!(
            (&objects[1].repeated[0], objects[1].location.path.as_str()),
            (&"x.w".to_owned(), "items[0]")
        );
        let trees = DocumentTrees::read(text);
        assert_eq!(trees.find(&objects[0].location, "b[0].c"), Some(FieldText { line: 6, written: "2" }));
    }
}
