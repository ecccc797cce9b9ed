//! Fast reading of JSON, the form of most dumps.
//!
//! Whatever is not plain JSON (repeated keys, fractions, merge keys, syntax errors) is left to the YAML reader, which
//! reads JSON, too: it knows the rules and the positions for messages.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::documents::{Document, Encoded, is_list};

/// Number of keys up to which a mapping is searched for repeated keys without a set.
const FEW: usize = 16;

/// A list, cut into its members, which have not been checked.
pub(crate) struct List<'t> {
    pub(crate) kind: String,
    pub(crate) version: Option<Value>,
    pub(crate) items: Vec<&'t str>,
}

/// Reads an object that may be a list. Returns `None` if the YAML reader must read it.
pub(crate) fn member(json: &str) -> Option<Document> {
    match list(json)? {
        None => Some(Document { object: Some(encoded(json)?), members: Vec::new() }),
        Some(List { kind, version, items }) => {
            let members = items.into_iter().map(member).collect::<Option<_>>()?;
            Some(Document::list(&kind, version.as_ref(), members))
        }
    }
}

/// Cuts a list into its members. Returns `Some(None)` for any other value, and `None` if the YAML reader must read it.
pub(crate) fn list(json: &str) -> Option<Option<List<'_>>> {
    if !json.trim_ascii_start().starts_with('{') {
        return Some(None);
    }
    let kind_among = |fields: &[(&str, &str)]| {
        let (_, kind) = fields.iter().find(|(key, _)| *key == "kind")?;
        serde_json::from_str::<Value>(kind).ok()
    };
    let mut scanner = Scanner::new(json);
    // The fields other than the items.
    let (mut fields, mut items) = (Vec::new(), None);
    scanner.object(&mut String::new(), &mut |scanner, key, _| {
        if key == "items" && items.is_none() && is_list(kind_among(&fields)) {
            items = Some(scanner.items()?);
        } else {
            fields.push((key, scanner.skip()?.0));
        }
        Some(())
    })?;
    if !scanner.is_at_end() {
        return None;
    }
    let Some(items) = items else { return Some(None) };
    let mut keys = HashSet::new();
    for (key, value) in &fields {
        let is_plain = serde_json::from_str::<Plain>(value).is_ok();
        if !is_plain || *key == "items" || *key == "<<" || !keys.insert(key) {
            return None;
        }
    }
    let kind = kind_among(&fields);
    let kind = kind.and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    let version = fields.iter().find(|(key, _)| *key == "apiVersion");
    let version = version.and_then(|(_, version)| serde_json::from_str(version).ok());
    Some(Some(List { kind, version, items }))
}

/// Encodes a value that is plain JSON.
fn encoded(json: &str) -> Option<Encoded> {
    serde_json::from_str::<Plain>(json).ok()?;
    Some(Encoded { json: compact(json), repeated: Vec::new() })
}

/// Finds the values in JSON without decoding them. Checks only what it needs: values that [`Self::skip`] passes may be
/// anything with balanced brackets.
pub(crate) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

/// Handles the value of a key, which the scanner must pass.
type EachField<'f, 't> = &'f mut dyn FnMut(&mut Scanner<'t>, &'t str, &mut String) -> Option<()>;

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns true if nothing but space is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Returns the next byte that is not space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Passes an object whose keys have no escapes, and calls `each` for every field. Copies everything but the values.
    pub(crate) fn object(&mut self, copy: &mut String, each: EachField<'_, 't>) -> Option<()> {
        self.expect(b'{')?;
        copy.push('{');
        let mut is_first = true;
        while self.peek()? != b'}' {
            if !is_first {
                self.expect(b',')?;
                copy.push(',');
            }
            is_first = false;
            let key = self.string()?;
            if key.bytes().any(|byte| byte == b'\\' || byte < b' ') {
                return None;
            }
            self.expect(b':')?;
            copy.extend(["\"", key, "\":"]);
            each(self, key, copy)?;
        }
        self.at += 1;
        copy.push('}');
        Some(())
    }

    /// Passes an array, and calls `each` for every element, which it must pass.
    pub(crate) fn array(&mut self, each: &mut dyn FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        let mut is_first = true;
        while self.peek()? != b']' {
            if !is_first {
                self.expect(b',')?;
            }
            is_first = false;
            each(self)?;
        }
        self.at += 1;
        Some(())
    }

    /// Passes an array or `null`. Returns the text of every element.
    fn items(&mut self) -> Option<Vec<&'t str>> {
        let mut items = Vec::new();
        if self.peek()? == b'n' {
            return (self.skip()?.0 == "null").then_some(items);
        }
        self.array(&mut |scanner| {
            items.push(scanner.skip()?.0);
            Some(())
        })?;
        Some(items)
    }

    /// Passes a string and returns what is between its quotes.
    fn string(&mut self) -> Option<&'t str> {
        self.expect(b'"')?;
        let start = self.at;
        self.at = end_of_string(self.text.as_bytes(), start)?;
        Some(&self.text[start..self.at - 1])
    }

    /// Passes a value. Returns its text, and true if there is space between its tokens.
    pub(crate) fn skip(&mut self) -> Option<(&'t str, bool)> {
        let bytes = self.text.as_bytes();
        self.peek()?;
        let start = self.at;
        let (mut depth, mut has_space) = (0, false);
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => self.at = end_of_string(bytes, self.at + 1)?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                b'}' | b']' | b',' | b' ' | b'\n' | b'\t' | b'\r' if depth == 0 => break,
                b' ' | b'\n' | b'\t' | b'\r' => {
                    has_space = true;
                    self.at += 1;
                }
                // JSON has no such byte, and marks are made of them.
                byte if *byte < b' ' => return None,
                _ => self.at += 1,
            }
            if depth == 0 && matches!(bytes[self.at - 1], b'"' | b'}' | b']') {
                break;
            }
        }
        (depth == 0 && self.at > start).then(|| (&self.text[start..self.at], has_space))
    }

    /// Passes and copies a value, without the space between its tokens. Returns the value's text.
    pub(crate) fn copy(&mut self, copy: &mut String) -> Option<&'t str> {
        let (value, has_space) = self.skip()?;
        if has_space {
            add_compact(value, copy);
        } else {
            copy.push_str(value);
        }
        Some(value)
    }

    /// Passes a string and copies the mark in its place. Returns `None` for an empty string and one with escapes. Copies
    /// a value of another type.
    pub(crate) fn take(&mut self, mark: char, copy: &mut String, value: &mut &'t str) -> Option<()> {
        if self.peek()? != b'"' {
            return self.copy(copy).map(drop);
        }
        *value = self.string()?;
        copy.push(mark);
        let is_clean = !value.is_empty() && !value.bytes().any(|byte| byte == b'\\' || byte < b' ');
        is_clean.then_some(())
    }
}

/// Returns valid JSON without the space between its tokens.
fn compact(json: &str) -> Box<str> {
    let mut short = String::with_capacity(json.len());
    add_compact(json, &mut short);
    short.into()
}

/// Adds JSON without the space between its tokens. Copies anything else with as many quotes as JSON would have.
fn add_compact(json: &str, short: &mut String) {
    let mut rest = json;
    while let Some(quote) = memchr::memchr(b'"', rest.as_bytes()) {
        let (outside, string) = rest.split_at(quote);
        short.extend(outside.split_ascii_whitespace());
        let end = end_of_string(string.as_bytes(), 1).unwrap_or(string.len());
        short.push_str(&string[..end]);
        rest = &string[end..];
    }
    short.extend(rest.split_ascii_whitespace());
}

/// Returns the position after the quote that ends a string, of which `at` is the first position after the first quote.
fn end_of_string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        // The escaped character cannot end the string.
        at += 2;
    }
}

/// A key, borrowed unless it has escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(key.into())
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
                Ok(key.to_owned().into())
            }
        }
        deserializer.deserialize_str(KeyVisitor).map(Self)
    }
}

/// Any value, if it is plain JSON.
struct Plain;

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without fractions, repeated keys and merge keys")
    }

    fn visit_unit<E: Error>(self) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Plain, A::Error> {
        while items.next_element::<Plain>()?.is_some() {}
        Ok(Plain)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Plain, A::Error> {
        let (mut few, mut many) = (Vec::new(), HashSet::new());
        while let Some(Key(key)) = map.next_key()? {
            let is_new = if few.len() < FEW {
                let is_new = !few.contains(&key);
                few.push(key);
                is_new && few[few.len() - 1] != "<<"
            } else {
                !few.contains(&key) && key != "<<" && many.insert(key)
            };
            if !is_new {
                map.next_value::<IgnoredAny>()?;
                return Err(Error::custom("a repeated key or a merge key"));
            }
            map.next_value::<Plain>()?;
        }
        Ok(Plain)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::documents;

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[a-z<\"\\\\ \\n\u{e9}\u{1F600}]{0,4}",
            Just("<<".to_owned()),
            Just("yes".to_owned())
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f32>().prop_map(|number| Value::from(f64::from(number))),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((key(), inner), 0..20)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn key() -> impl Strategy<Value = String> {
        const NAMES: [&str; 6] = ["items", "kind", "apiVersion", "metadata", "<<", "a\"b"];
        prop_oneof![prop::sample::select(&NAMES[..]).prop_map(str::to_owned), "[a-c\\\\]{0,2}"]
    }

    fn object() -> impl Strategy<Value = Value> {
        let kind =
            prop_oneof![Just(json!("List")), Just(json!("PodList")), Just(json!("Pod")), Just(Value::Null)];
        (kind, prop::collection::vec(value(), 0..4), value()).prop_map(|(kind, items, other)| {
            let items = items.into_iter().map(|item| json!({"kind": kind, "items": [item], "x": 1}));
            json!({"apiVersion": "v1", "kind": kind, "items": items.collect::<Vec<_>>(), "other": other})
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_the_yaml_reader_reads_it(
            object in prop_oneof![object(), value()],
            is_pretty: bool,
            blanks in 0_usize..3,
        ) {
            let json = if is_pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = "\n".repeat(blanks) + &json.unwrap();
            if member(&text).is_some() {
                let [fast, slow] = [documents::read, documents::read_yaml].map(|read| {
                    let objects = read(&"f".into(), &text).unwrap().into_iter();
                    objects.map(|o| (o.value(), o.location, o.repeated)).collect::<Vec<_>>()
                });
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn space_between_tokens_is_dropped(value in value()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(&*compact(&pretty), value.to_string());
        }
    }

    #[test]
    fn what_is_not_plain_json_is_left_to_the_yaml_reader() {
        for text in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": {"b": [{"c": 1, "c": 2}]}}"#,
            r#"{"a": 1.5}"#,
            r#"{"a": 18446744073709551616}"#,
            r#"{"a": {"<<": {"b": 1}}}"#,
            r#"{"kind": "List", "items": [{"a": 1, "a": 2}]}"#,
            r#"{"kind": "List", "items": [], "items": []}"#,
            r#"{"kind": "List", "items": [], "metadata": {"a": 0.5}}"#,
            r#"{"a": 1} {"b": 2}"#,
            r#"{"a": 0644}"#,
            r#"{a: 1}"#,
            "{\"a\": 1}\n---\n{\"b\": 2}\n",
            "kind: Pod",
        ] {
            assert!(member(text).is_none(), "{text}");
        }
        let many: Vec<String> = (0..40).map(|i| format!("\"k{}\": {i}", i % 39)).collect();
        assert!(member(&format!("{{{}}}", many.join(","))).is_none());
        assert!(member(&format!("{{{}}}", many[..39].join(","))).is_some());
    }
}
