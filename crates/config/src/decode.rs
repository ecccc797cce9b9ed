//! Strict decoding of a tree into structs. Fields that a struct does not have are recorded.
//!
//! The rules are those of Kubernetes' JSON decoder: an unknown field is an error, but decoding continues; null means
//! absent; a value of the wrong type ends decoding.

use std::{cell::RefCell, fmt};

use serde::{
    Deserialize,
    de::{
        self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

use harbormaster_api::similar::similar;

use harbormaster_yaml::{Content, Entry, Node, Position};

/// A field that the struct does not have.
#[derive(Debug)]
pub(crate) struct UnknownField {
    /// Path below the decoded node.
    pub(crate) path: String,
    pub(crate) at: Position,
    /// A field of the struct with a similar name.
    pub(crate) suggestion: Option<&'static str>,
}

/// A value of the wrong type.
#[derive(Debug)]
pub(crate) struct WrongValue {
    /// Path below the decoded node.
    pub(crate) path: String,
    pub(crate) at: Option<Position>,
    pub(crate) message: String,
}

/// Decodes a tree. Returns the unknown fields in document order.
pub(crate) fn decode<T: for<'de> Deserialize<'de>>(
    node: &Node,
) -> (Result<T, WrongValue>, Vec<UnknownField>) {
    let unknown = RefCell::new(Vec::new());
    let decoder = Decoder { node, path: String::new(), unknown: &unknown };
    let result = T::deserialize(decoder);
    (result, unknown.into_inner())
}

/// Returns the path of a field below `path`.
pub(crate) fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for WrongValue {}

impl de::Error for WrongValue {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), at: None, message: message.to_string() }
    }
}

struct Decoder<'a> {
    node: &'a Node,
    path: String,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

impl<'a> Decoder<'a> {
    fn error(&self, message: String) -> WrongValue {
        WrongValue { path: self.path.clone(), at: Some(self.node.at), message }
    }

    fn wrong_type<T>(&self, expected: &str) -> Result<T, WrongValue> {
        Err(self.error(format!("cannot unmarshal {} into type {expected}", self.node.type_name())))
    }

    /// Adds the path and position of this value to an error, unless the error already has those of a nested value.
    fn located<T>(path: String, at: Position, result: Result<T, WrongValue>) -> Result<T, WrongValue> {
        result.map_err(|e| match e.at {
            Some(_) => e,
            None => WrongValue { path, at: Some(at), ..e },
        })
    }

    fn integer(&self, expected: &str) -> Result<i128, WrongValue> {
        match &self.node.content {
            Content::Null => Ok(0),
            Content::Int(value) => Ok(*value),
            // Kubernetes' JSON decoder accepts `1e1` and `3.0` as integers.
            Content::Float(value) if value.fract() == 0.0 && value.abs() < 1e18 => Ok(*value as i128),
            Content::Float(_) => {
                let written = &self.node.written;
                Err(self.error(format!("cannot unmarshal number {written} into type {expected}")))
            }
            _ => self.wrong_type(expected),
        }
    }

    fn narrow<T: TryFrom<i128>>(&self, expected: &str) -> Result<T, WrongValue> {
        let value = self.integer(expected)?;
        T::try_from(value)
            .map_err(|_| self.error(format!("cannot unmarshal number {value} into type {expected}")))
    }

    fn fields(self, known: Option<&'static [&'static str]>) -> Result<Fields<'a>, WrongValue> {
        let entries = match &self.node.content {
            Content::Null => &[],
            Content::Mapping(entries) => entries.as_slice(),
            _ => return self.wrong_type("object"),
        };
        Ok(Fields { rest: entries.iter(), value: None, path: self.path, known, unknown: self.unknown })
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $name:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
            let value = self.narrow($name)?;
            Self::located(self.path, self.node.at, visitor.$visit(value))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Decoder<'_> {
    type Error = WrongValue;

    integers! {
        deserialize_i32 visit_i32 "int32";
        deserialize_i64 visit_i64 "int64";
        deserialize_u32 visit_u32 "uint32";
        deserialize_u64 visit_u64 "uint64";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match &self.node.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(value) => visitor.visit_bool(*value),
            Content::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_i64(value),
                (_, Ok(value)) => visitor.visit_u64(value),
                _ => visitor.visit_f64(*value as f64),
            },
            Content::Float(value) => visitor.visit_f64(*value),
            Content::String(value) => visitor.visit_str(value),
            Content::Sequence(_) => self.deserialize_seq(visitor),
            Content::Mapping(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match self.node.content {
            Content::Null => visitor.visit_bool(false),
            Content::Bool(value) => visitor.visit_bool(value),
            _ => self.wrong_type("bool"),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match self.node.content {
            Content::Null => visitor.visit_f32(0.0),
            Content::Int(value) => visitor.visit_f32(value as f32),
            Content::Float(value) => visitor.visit_f32(value as f32),
            _ => self.wrong_type("float32"),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        self.deserialize_f32(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match &self.node.content {
            Content::Null => visitor.visit_str(""),
            Content::String(value) => Self::located(self.path, self.node.at, visitor.visit_str(value)),
            _ => self.wrong_type("string"),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        // A type that is parsed from a string, such as a duration, fails after the string has been read. The decoder of
        // the struct that contains the field adds the position to the error.
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match self.node.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, WrongValue> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        match &self.node.content {
            Content::Null => visitor.visit_seq(Items::of(&self, &[])),
            Content::Sequence(items) => visitor.visit_seq(Items::of(&self, items)),
            _ => self.wrong_type("array"),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        visitor.visit_map(self.fields(None)?)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, WrongValue> {
        visitor.visit_map(self.fields(Some(fields))?)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WrongValue> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

/// Entries of a mapping. For a struct, skips nulls and all but the last occurrence of a key, and records and skips
/// unknown fields.
struct Fields<'a> {
    rest: std::slice::Iter<'a, Entry>,
    value: Option<&'a Entry>,
    path: String,
    known: Option<&'static [&'static str]>,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

impl<'a> Fields<'a> {
    fn next_known(&mut self) -> Option<&'a Entry> {
        loop {
            let entry = self.rest.next()?;
            let Some(known) = self.known else { return Some(entry) };
            // Repeated keys are reported elsewhere; the last occurrence is used.
            let repeated = self.rest.as_slice().iter().any(|e| e.key == entry.key);
            if !known.contains(&entry.key.as_str()) {
                let path = below(&self.path, &entry.key);
                let suggestion = similar(&entry.key, known.iter().copied());
                self.unknown.borrow_mut().push(UnknownField { path, at: entry.at, suggestion });
            } else if entry.value.content != Content::Null && !repeated {
                return Some(entry);
            }
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = WrongValue;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, WrongValue> {
        self.value = self.next_known();
        let Some(entry) = self.value else { return Ok(None) };
        let key: StrDeserializer<'_, WrongValue> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, WrongValue> {
        let Some(entry) = self.value.take() else {
            let empty = MapDeserializer::new(std::iter::empty::<(&str, &str)>());
            return seed.deserialize(empty);
        };
        let path = below(&self.path, &entry.key);
        let decoder = Decoder { node: &entry.value, path: path.clone(), unknown: self.unknown };
        Decoder::located(path, entry.value.at, seed.deserialize(decoder))
    }
}

struct Items<'a> {
    rest: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
    path: String,
    unknown: &'a RefCell<Vec<UnknownField>>,
}

impl<'a> Items<'a> {
    fn of(decoder: &Decoder<'a>, items: &'a [Node]) -> Self {
        Self { rest: items.iter().enumerate(), path: decoder.path.clone(), unknown: decoder.unknown }
    }
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = WrongValue;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, WrongValue> {
        let Some((i, node)) = self.rest.next() else { return Ok(None) };
        let path = format!("{}[{i}]", self.path);
        let decoder = Decoder { node, path: path.clone(), unknown: self.unknown };
        Decoder::located(path, node.at, seed.deserialize(decoder)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::args::GoDuration;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
    struct Settings {
        count: i32,
        share: f32,
        name: String,
        wait: Option<GoDuration>,
        things: Vec<Settings>,
        raw: Option<serde_json::Value>,
    }

    fn read(text: &str) -> (Result<Settings, WrongValue>, Vec<(String, u32)>) {
        let (result, unknown) = decode(&harbormaster_yaml::parse(text).unwrap());
        (result, unknown.into_iter().map(|u| (u.path, u.at.line)).collect())
    }

    #[test]
    fn all_unknown_fields_are_recorded_and_do_not_stop_decoding() {
        let (settings, unknown) =
            read("count: 1\nbogus: 2\nthings:\n- count: 3\n  Count: 4\nraw: {any: [1]}\n");
        let settings = settings.unwrap();
        assert_eq!((settings.count, settings.things[0].count), (1, 3));
        assert_eq!(settings.raw, Some(serde_json::json!({"any": [1]})));
        assert_eq!(unknown, [("bogus".to_owned(), 2), ("things[0].Count".to_owned(), 5)]);
    }

    #[test]
    fn null_is_absent_and_whole_floats_are_integers() {
        let (settings, _) = read("count: 1e1\nshare: 3\nname: null\nwait:\nthings: [null]\n");
        let expected =
            Settings { count: 10, share: 3.0, things: vec![Settings::default()], ..Settings::default() };
        assert_eq!(settings.unwrap(), expected);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_with_path_and_position() {
        for (text, message, line) in [
            ("count: x", "count: cannot unmarshal string into type int32", 1),
            ("count: 3000000000", "count: cannot unmarshal number 3000000000 into type int32", 1),
            ("count: 1.5", "count: cannot unmarshal number 1.5 into type int32", 1),
            ("name: yes", "name: cannot unmarshal bool into type string", 1),
            ("things: {}", "things: cannot unmarshal object into type array", 1),
            ("things:\n- name: a\n- 5", "things[1]: cannot unmarshal number into type object", 3),
            (
                "things:\n- wait: 3 parsecs",
                "things[0].wait: time: unknown unit \" parsecs\" in duration \"3 parsecs\"",
                2,
            ),
            ("- a", "cannot unmarshal array into type object", 1),
        ] {
            let error = read(text).0.unwrap_err();
            assert_eq!((error.to_string().as_str(), error.at.map(|at| at.line)), (message, Some(line)));
        }
    }
}
