//! Fast reading of JSON, the form of most dumps.
//!
//! Whatever is not plain JSON (repeated keys, fractions, merge keys, syntax errors) is left to the YAML reader, which
//! reads JSON, too: it knows the rules and the positions for messages.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, value::RawValue};

use crate::documents::{Document, Encoded, is_list};

/// Number of keys up to which a mapping is searched for repeated keys without a set.
const FEW: usize = 16;

/// Reads a text that consists of one JSON object. Returns `None` if the YAML reader must read it.
pub(crate) fn document(text: &str) -> Option<Document> {
    let object: &RawValue = serde_json::from_str(text).ok()?;
    member(object.get())
}

/// Reads an object that may be a list.
fn member(json: &str) -> Option<Document> {
    if !json.starts_with('{') {
        return Some(Document { object: Some(encoded(json)?), members: Vec::new() });
    }
    let Fields(fields) = serde_json::from_str(json).ok()?;
    let items = fields.iter().position(|(key, _)| key == "items");
    let Some(items) = items.filter(|items| is_list(kind_among(&fields[..*items]))) else {
        return Some(Document { object: Some(encoded(json)?), members: Vec::new() });
    };
    let members = serde_json::from_str::<Option<Vec<&RawValue>>>(fields[items].1).ok()?;
    let members = members.into_iter().flatten().map(|item| member(item.get())).collect::<Option<_>>()?;
    let others = fields.iter().enumerate().filter(|(at, _)| *at != items).map(|(_, field)| field);
    let mut keys = HashSet::new();
    for (key, value) in others {
        let is_plain = serde_json::from_str::<Plain>(value).is_ok();
        if !is_plain || key == "items" || key == "<<" || !keys.insert(key) {
            return None;
        }
    }
    let kind = kind_among(&fields);
    let kind = kind.and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    let version = fields.iter().find(|(key, _)| key == "apiVersion");
    let version = version.and_then(|(_, version)| serde_json::from_str(version).ok());
    Some(Document::list(&kind, version.as_ref(), members))
}

/// Returns the value of `kind`.
fn kind_among(fields: &[(Cow<'_, str>, &str)]) -> Option<Value> {
    let (_, kind) = fields.iter().find(|(key, _)| key == "kind")?;
    serde_json::from_str(kind).ok()
}

/// Encodes a value that is plain JSON.
fn encoded(json: &str) -> Option<Encoded> {
    serde_json::from_str::<Plain>(json).ok()?;
    Some(Encoded { json: compact(json), repeated: Vec::new() })
}

/// Returns valid JSON without the space between its tokens.
fn compact(json: &str) -> Box<str> {
    let mut short = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(quote) = memchr::memchr(b'"', rest.as_bytes()) {
        let (outside, string) = rest.split_at(quote);
        short.extend(outside.split_ascii_whitespace());
        let end = end_of_string(string.as_bytes());
        short.push_str(&string[..end]);
        rest = &string[end..];
    }
    short.extend(rest.split_ascii_whitespace());
    short.into()
}

/// Returns the length of the string, with its quotes, with which a text begins.
fn end_of_string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += next;
        if text[at] == b'"' {
            return at + 1;
        }
        // The escaped character cannot end the string.
        at += 2;
    }
    text.len()
}

/// The fields of an object, undecoded.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Vec<(Cow<'de, str>, &'de str)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'_>, &RawValue>()? {
                    fields.push((key, value.get()));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(FieldsVisitor).map(Self)
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
            if document(&text).is_some() {
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
            assert!(document(text).is_none(), "{text}");
        }
        let many: Vec<String> = (0..40).map(|i| format!("\"k{}\": {i}", i % 39)).collect();
        assert!(document(&format!("{{{}}}", many.join(","))).is_none());
        assert!(document(&format!("{{{}}}", many[..39].join(","))).is_some());
    }
}
