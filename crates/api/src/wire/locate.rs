//! The field at which decoding failed.
//!
//! [`serde_json`] reports a position in the text, which this module converts to a path. Decoding again while tracking
//! the path would give the same result, but would double the code that is compiled for every type.

use serde::Deserialize;

/// Error in decoding JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldError {
    /// Path, for example `spec.containers[0].resources.requests.cpu`; empty for the root.
    pub(super) path: String,
    /// The problem, with its position in the text.
    pub(super) problem: String,
}

/// Decodes JSON.
///
/// The path in an error is exact if [`Deserialize`] is derived or uses a visitor. If a hand-written implementation
/// returns an error after calling another implementation, the path may be that of the enclosing object.
///
/// # Errors
/// An error that names the invalid field.
pub(super) fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, FieldError> {
    serde_json::from_slice(json).map_err(|error| located(json, &error))
}

fn located(json: &[u8], error: &serde_json::Error) -> FieldError {
    let read = read_until(json, error.line(), error.column());
    // The position of a syntax error includes the unexpected byte.
    let read = read.saturating_sub(usize::from(error.is_syntax()));
    FieldError { path: path_at(&json[..read]), problem: error.to_string() }
}

/// Number of bytes up to the given line and column, which are numbered from 1.
fn read_until(json: &[u8], line: usize, column: usize) -> usize {
    let lines = json.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1));
    (lines.map(<[u8]>::len).sum::<usize>() + column).min(json.len())
}

/// An open array or object.
enum Open {
    Array { index: usize },
    Object { key: Option<String> },
}

/// Returns the path of the value that was being decoded at the end of `read`, the text decoded so far.
fn path_at(read: &[u8]) -> String {
    let (mut open, mut at) = (Vec::new(), 0);
    while let Some(byte) = read.get(at) {
        let token = at;
        at += 1;
        match byte {
            b'[' => open.push(Open::Array { index: 0 }),
            b'{' => open.push(Open::Object { key: None }),
            b']' | b'}' => drop(open.pop()),
            b',' => match open.last_mut() {
                Some(Open::Array { index }) => *index += 1,
                Some(Open::Object { key }) => *key = None,
                None => {}
            },
            b'"' => {
                at += string_length(&read[at..]);
                if let Some(Open::Object { key: key @ None }) = open.last_mut() {
                    *key = serde_json::from_slice(&read[token..at]).ok();
                }
            }
            _ => {}
        }
    }
    path(&open)
}

/// Length of a JSON string without its opening quote but with its closing quote.
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn path(open: &[Open]) -> String {
    let mut path = String::new();
    for one in open {
        match one {
            Open::Array { index } => path.push_str(&format!("[{index}]")),
            Open::Object { key: Some(key) } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Open::Object { key: None } => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Tree {
        number: Option<i32>,
        text: String,
        flag: bool,
        kind: Kind,
        texts: Vec<String>,
        pairs: BTreeMap<String, u8>,
        left: Option<Box<Tree>>,
        many: Vec<Tree>,
        named: BTreeMap<String, Tree>,
        strict: Option<Strict>,
    }

    #[derive(Debug, Default, Deserialize)]
    enum Kind {
        #[default]
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only decoded")]
    struct Strict {
        needed: u8,
        also: u8,
    }

    fn keys() -> impl Strategy<Value = &'static str> {
        let known =
            ["number", "text", "flag", "kind", "texts", "pairs", "left", "many", "named", "strict", "needed"];
        let others = ["also", "a \"b\"\\", "ä\n[{", "unknown"];
        prop::sample::select([&known[..], &others[..]].concat())
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3..300_i64).prop_map(Value::from),
            Just(json!(1.5)),
            prop::sample::select(vec!["One", "Two", "Three", "\\\"", "[{,"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((keys(), inner), 0..5).prop_map(|pairs| pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()),
            ]
        })
    }

    /// Trees that are mostly valid; their errors, if any, are usually deep inside.
    fn trees() -> impl Strategy<Value = Value> {
        let leaf = Just(json!({"number": 1, "kind": "Two", "texts": ["a", "b"], "pairs": {"x.y/z": 3}}));
        leaf.prop_recursive(4, 40, 4, |inner| {
            let field = prop_oneof![
                inner.clone().prop_map(|tree| ("left", tree)),
                prop::collection::vec(inner.clone(), 0..4).prop_map(|trees| ("many", Value::from(trees))),
                inner.prop_map(|tree| ("named", json!({"x.y/z": tree, "k\"": {}}))),
                (keys(), values()),
                Just(("strict", json!({"needed": 1, "also": 2}))),
                Just(("strict", json!({"needed": 1}))),
            ];
            prop::collection::vec(field, 0..4).prop_map(|fields| {
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()
            })
        })
    }

    fn tracked(text: &str) -> Option<String> {
        let mut json = serde_json::Deserializer::from_str(text);
        let error = serde_path_to_error::deserialize::<_, Tree>(&mut json).err()?;
        Some(error.path().iter().next().map_or_else(String::new, |_| error.path().to_string()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn the_path_from_a_position_equals_the_tracked_path(tree in trees(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&tree).unwrap() } else { tree.to_string() };
            let (located, tracked) = (decode::<Tree>(text.as_bytes()).err(), tracked(&text));
            // The path from the position may be longer: serde_json reports these errors at the name of the variant or
            // at the first superfluous entry.
            let may_be_longer = |error: &FieldError| {
                ["unknown variant", "trailing characters"].iter().any(|start| error.problem.starts_with(start))
            };
            let longer = located.as_ref().is_some_and(may_be_longer);
            match (located.map(|error| error.path), tracked) {
                (Some(located), Some(tracked)) if longer => prop_assert!(located.starts_with(&tracked), "{}", text),
                (located, tracked) => prop_assert_eq!(located, tracked, "{}", text),
            }
        }
    }

    #[test]
    fn text_after_the_object_is_an_error_at_the_root() {
        let error = decode::<Tree>(b"{\"text\": \"a\"} x").unwrap_err();
        assert_eq!(error.path, "");
        assert!(error.problem.starts_with("trailing characters at line 1"), "{}", error.problem);
    }

    #[test]
    fn truncated_text_is_an_error_in_its_last_field() {
        let error = decode::<Tree>(b"{\"many\": [{}, {\"text\": \"a").unwrap_err();
        assert_eq!(error.path, "many[1].text");
        assert!(error.problem.starts_with("EOF while parsing a string at line 1"), "{}", error.problem);
    }
}
