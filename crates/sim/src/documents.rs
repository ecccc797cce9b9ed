//! From the text of a file to Kubernetes objects that remember where they stand.

use std::sync::Arc;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
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

/// An object and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) value: Value,
    pub(crate) place: Place,
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
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|e| unreadable(text, &e))?;
    let beginnings = beginnings(text);
    let mut objects = Vec::with_capacity(documents.len());
    for document in documents {
        let line = document.referenced.line().max(1);
        let place =
            Place { file: file.clone(), document: document_at(&beginnings, line), path: String::new(), line };
        flatten(document.value, place, &mut objects);
    }
    Ok(objects)
}

/// `List`, `PodList` and the like become their members.
fn flatten(mut value: Value, place: Place, into: &mut Vec<Written>) {
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    let Some(Value::Array(items)) = value.get_mut("items").filter(|_| is_list).map(Value::take) else {
        into.push(Written { value, place });
        return;
    };
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (kind.strip_suffix("List").unwrap_or_default(), value.get("apiVersion"));
    for (i, mut item) in items.into_iter().enumerate() {
        // Members of typed lists do not repeat their kind.
        if let (Value::Object(fields), false) = (&mut item, kind.is_empty()) {
            fields.entry("kind").or_insert_with(|| kind.into());
            if let Some(version) = version {
                fields.entry("apiVersion").or_insert_with(|| version.clone());
            }
        }
        let dot = if place.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}items[{i}]", place.path);
        flatten(item, Place { path, ..place.clone() }, into);
    }
}

/// The line of a field (`spec.containers[0].image`) of an object, or of the closest one around it.
pub(crate) fn line_of(text: &str, place: &Place, field: &str) -> Option<u64> {
    let documents: Vec<Located> = serde_saphyr::from_multiple_with_options(text, options()).ok()?;
    let document = documents.iter().find(|d| d.line == place.line)?;
    let path = if place.path.is_empty() { field.to_owned() } else { format!("{}.{field}", place.path) };
    Some(document.nearest(&path))
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
        duplicate_keys: DuplicateKeyPolicy::Error,
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
        // A key may itself hold dots (labels, resource names): then the longest one that fits counts.
        let plain = self.inside.iter().find(|(k, _)| !key.is_empty() && k == key).map(|(_, v)| (v, rest));
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
                (o.value["kind"].as_str().unwrap(), o.place.document, o.place.path.as_str(), o.place.line)
            })
            .collect();
        assert_eq!(
            places,
            [("Pod", 1, "", 3), ("Pod", 2, "items[0]", 7), ("Node", 2, "items[1].items[0]", 7)]
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
            assert_eq!(line_of(TEXT, &place, field), Some(line), "{field}");
        }
    }

    #[test]
    fn json_is_read_too_and_octal_numbers_are_kubernetes_own() {
        let objects = read(&"f".into(), r#"{"kind": "Pod", "spec": {"x": [1, null, "yes", 0644]}}"#).unwrap();
        assert_eq!(objects[0].value["spec"]["x"], serde_json::json!([1, null, "yes", 420]));
    }

    #[test]
    fn what_cannot_be_read_names_document_and_line() {
        let error = read(&"f".into(), "a: 1\n---\nb: [1\nc: 2\n").unwrap_err();
        assert_eq!((error.document, error.line.is_some()), (2, true), "{error:?}");
        let error = read(&"f".into(), "a: 1\na: 2\n").unwrap_err();
        assert_eq!((error.document, error.line), (1, Some(2)), "{error:?}");
        assert!(read(&"f".into(), "# nothing\n---\n").unwrap().is_empty());
    }
}
