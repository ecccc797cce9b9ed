//! Objects in protobuf, which is several times as compact as JSON and cheaper to read.
//!
//! A table names the fields that are read. With its help, a serde deserializer shows a message as the JSON object that it
//! stands for, so the types that are decoded from JSON are decoded from protobuf by the same code. Fields that the table
//! does not have are skipped.

mod fields;
pub mod messages;
mod metadata;
mod writer;

#[cfg(test)]
mod tests;

use std::hash::Hasher;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
};
use serde_json::Error;

use crate::Timestamp;

pub use fields::{Field, Kind, Message, Shape};
use fields::{Raw, Share, find, next, wrong};
pub(crate) use metadata::Identity;
pub use metadata::{ObjectMeta, Owner};
pub use writer::{Writer, object};

/// Content type of objects in protobuf.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// Prefix of an object that is not part of another one.
const MAGIC: &[u8] = b"k8s\0";

/// Returns true if the bytes are an object in protobuf.
pub fn is_meant(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Returns the message in an object's envelope (`runtime.Unknown`).
///
/// # Errors
/// If there is no valid envelope.
pub fn open(bytes: &[u8]) -> Result<&[u8], Error> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("the prefix of protobuf is missing"))?;
    find(envelope, 2)?.map_or(Ok(&[]), Raw::bytes)
}

/// Reads a message of the given type.
///
/// # Errors
/// If the bytes are not such a message, or a field is invalid.
pub fn decode<'a, T: Deserialize<'a>>(message: &'static Message, bytes: &'a [u8]) -> Result<T, Error> {
    T::deserialize(deserializer(message, bytes))
}

/// Returns a deserializer of a message of the given type.
pub fn deserializer<'a>(
    message: &'static Message,
    bytes: &'a [u8],
) -> impl Deserializer<'a, Error = Error> + use<'a> {
    Value { of: Kind::Message(message), raw: Raw::Bytes(bytes) }
}

/// Feeds the essence of a message to a hasher: two messages with equal essences are decoded to the same value, except for
/// the resource version.
pub(crate) fn hash_essence(message: &'static Message, bytes: &[u8], hasher: &mut impl Hasher) {
    // Whatever cannot be read is part of the essence.
    if essence(message, bytes, hasher).is_err() {
        hasher.write(bytes);
    }
}

fn essence(message: &'static Message, mut bytes: &[u8], hasher: &mut impl Hasher) -> Result<(), Error> {
    let except = match message.share {
        Share::All => {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
            return Ok(());
        }
        Share::ReadExcept(number) => Some(number),
        Share::Read => None,
        Share::ReadIf(names) => {
            let name = find(bytes, 1)?.map_or(Ok(""), text)?;
            if !names.contains(&name) {
                return Ok(());
            }
            None
        }
    };
    while let Some((number, raw)) = next(&mut bytes)? {
        let Some(field) = message.field(number).filter(|_| Some(number) != except) else { continue };
        hasher.write_u64(number);
        match (field.of, raw) {
            (_, Raw::Number(value)) => hasher.write_u64(value),
            (Kind::Message(inner), Raw::Bytes(bytes)) if field.shape != Shape::Map => {
                essence(inner, bytes, hasher)?;
            }
            (_, Raw::Bytes(bytes)) => {
                hasher.write_usize(bytes.len());
                hasher.write(bytes);
            }
        }
    }
    // The end of the message.
    hasher.write_u64(0);
    Ok(())
}

/// Occurrences of a field in a message.
pub(crate) enum Occurrence<'a> {
    Never,
    /// The value, which consists of bytes, and what comes before and after the field.
    Once {
        before: &'a [u8],
        value: &'a [u8],
        after: &'a [u8],
    },
    Several,
}

impl<'a> Occurrence<'a> {
    /// Finds the occurrences of a field.
    ///
    /// # Errors
    /// If the bytes are not a message, or the field does not consist of bytes.
    pub(crate) fn find(message: &'a [u8], number: u64) -> Result<Self, Error> {
        let mut found = Self::Never;
        let mut rest = message;
        loop {
            let before = &message[..message.len() - rest.len()];
            let Some((at, raw)) = next(&mut rest)? else { return Ok(found) };
            if at == number {
                found = match found {
                    Self::Never => Self::Once { before, value: raw.bytes()?, after: rest },
                    _ => Self::Several,
                };
            }
        }
    }
}

/// Returns the string at a path of field numbers; empty if there is none.
pub(crate) fn text_at<'a>(mut bytes: &'a [u8], path: &[u64]) -> &'a str {
    for number in path {
        let Ok(Some(Raw::Bytes(inner))) = find(bytes, *number) else { return "" };
        bytes = inner;
    }
    str::from_utf8(bytes).unwrap_or_default()
}

/// Splits a `meta.WatchEvent` into its type and its object, which has an envelope.
///
/// # Errors
/// If the bytes are not such a message.
pub fn watch_event(mut event: &[u8]) -> Result<(&str, &[u8]), Error> {
    let (mut type_, mut object): (&str, &[u8]) = ("", &[]);
    while let Some((number, raw)) = next(&mut event)? {
        match number {
            1 => type_ = text(raw)?,
            2 => object = find(raw.bytes()?, 1)?.map_or(Ok(&[][..]), Raw::bytes)?,
            _ => {}
        }
    }
    Ok((type_, object))
}

/// A list of objects.
#[derive(Debug, Default)]
pub struct ObjectList<'a> {
    /// Resource version.
    pub version: &'a str,
    /// Token for the next page; empty if there is none.
    pub continue_: &'a str,
    /// The objects, without envelopes.
    pub items: Vec<&'a [u8]>,
}

impl<'a> ObjectList<'a> {
    /// Splits a list, which is the content of an envelope.
    ///
    /// # Errors
    /// If the bytes are not a list.
    pub fn read(mut list: &'a [u8]) -> Result<Self, Error> {
        let mut all = Self::default();
        while let Some((number, raw)) = next(&mut list)? {
            match number {
                1 => {
                    let metadata = raw.bytes()?;
                    let part = |number| find(metadata, number)?.map_or(Ok(""), text);
                    (all.version, all.continue_) = (part(2)?, part(3)?);
                }
                2 => all.items.push(raw.bytes()?),
                _ => {}
            }
        }
        Ok(all)
    }
}

fn text(raw: Raw<'_>) -> Result<&str, Error> {
    str::from_utf8(raw.bytes()?).map_err(|_| wrong("a string is not UTF-8"))
}

/// A value and its type.
#[derive(Clone, Copy)]
struct Value<'de> {
    of: Kind,
    raw: Raw<'de>,
}

impl Value<'_> {
    /// Returns true for the form of a time or of JSON that is shown as `null`.
    fn is_null(&self) -> bool {
        matches!((self.of, self.raw), (Kind::Time | Kind::TimeAsText | Kind::Json, Raw::Bytes([])))
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.of {
            Kind::Text => visitor.visit_borrowed_str(text(self.raw)?),
            Kind::Number => visitor.visit_i64(self.raw.number()?),
            Kind::Bool => visitor.visit_bool(self.raw.number()? != 0),
            Kind::Quantity => visitor.visit_borrowed_str(find(self.raw.bytes()?, 1)?.map_or(Ok(""), text)?),
            Kind::Time | Kind::TimeAsText | Kind::Json if self.is_null() => visitor.visit_unit(),
            Kind::Time => visitor.visit_i64(nanoseconds(self.raw.bytes()?)?),
            Kind::TimeAsText => visitor.visit_string(Timestamp(nanoseconds(self.raw.bytes()?)?).to_rfc3339()),
            Kind::Json => {
                let json = find(self.raw.bytes()?, 1)?.map_or(Ok(&b"null"[..]), Raw::bytes)?;
                serde_json::Deserializer::from_slice(json).deserialize_any(visitor)
            }
            Kind::Message(message) => {
                let rest = self.raw.bytes()?;
                visitor.visit_map(Fields { message, rest, inlined: None, at: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    /// Shows text as an enum without data.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(text(self.raw)?.into_deserializer())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

/// Returns the time of a `meta.Time` in nanoseconds since 1970.
fn nanoseconds(mut time: &[u8]) -> Result<i64, Error> {
    let (mut seconds, mut nanos) = (0_i64, 0);
    while let Some((number, raw)) = next(&mut time)? {
        match number {
            1 => seconds = raw.number()?,
            2 => nanos = raw.number()?,
            _ => {}
        }
    }
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// The fields of a message, as a JSON object.
struct Fields<'de> {
    message: &'static Message,
    rest: &'de [u8],
    /// The rest of a message whose fields belong to this one.
    inlined: Option<(&'static Message, &'de [u8])>,
    /// The field whose value comes next, and the first occurrence of the field.
    at: Option<(&'static Field, Raw<'de>)>,
}

impl<'de> Fields<'de> {
    fn next(&mut self) -> Result<Option<(&'static Field, Raw<'de>)>, Error> {
        loop {
            if let Some((message, rest)) = &mut self.inlined {
                match next(rest)? {
                    Some((number, raw)) => match message.field(number) {
                        Some(field) if field.shape != Shape::Inline => return Ok(Some((field, raw))),
                        _ => continue,
                    },
                    None => self.inlined = None,
                }
            }
            let Some((number, raw)) = next(&mut self.rest)? else { return Ok(None) };
            match self.message.field(number) {
                Some(Field { shape: Shape::Inline, of: Kind::Message(message), .. }) => {
                    self.inlined = Some((message, raw.bytes()?));
                }
                Some(field) => return Ok(Some((field, raw))),
                None => {}
            }
        }
    }

    /// Returns the next occurrence of the field with this number if nothing comes before it.
    fn next_of(&mut self, number: u64) -> Result<Option<Raw<'de>>, Error> {
        let rest = self.inlined.as_mut().map_or(&mut self.rest, |(_, rest)| rest);
        let mut ahead = *rest;
        match next(&mut ahead)? {
            Some((found, raw)) if found == number => {
                *rest = ahead;
                Ok(Some(raw))
            }
            _ => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.at = self.next()?;
        let Some((field, _)) = self.at else { return Ok(None) };
        let name: StrDeserializer<'_, Error> = field.name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (field, raw) = self.at.take().ok_or_else(|| wrong("a value without a field"))?;
        match field.shape {
            Shape::One | Shape::Inline => seed.deserialize(Value { of: field.of, raw }),
            Shape::List | Shape::Map => seed.deserialize(Row { fields: self, field, ahead: Some(raw) }),
        }
    }
}

/// The occurrences of a field in a row, as a JSON list or object.
struct Row<'a, 'de> {
    fields: &'a mut Fields<'de>,
    field: &'static Field,
    /// The next occurrence, if it has been read.
    ahead: Option<Raw<'de>>,
}

impl<'de> Row<'_, 'de> {
    fn next(&mut self) -> Result<Option<Raw<'de>>, Error> {
        match self.ahead.take() {
            Some(raw) => Ok(Some(raw)),
            None => self.fields.next_of(self.field.number),
        }
    }
}

impl<'de> Deserializer<'de> for Row<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.field.shape {
            Shape::Map => visitor.visit_map(Entries { row: self, value: Raw::Bytes(&[]) }),
            _ => visitor.visit_seq(self),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Row<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(raw) = self.next()? else { return Ok(None) };
        seed.deserialize(Value { of: self.field.of, raw }).map(Some)
    }
}

/// The entries of a map.
struct Entries<'a, 'de> {
    row: Row<'a, 'de>,
    value: Raw<'de>,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.row.next()? else { return Ok(None) };
        let mut rest = entry.bytes()?;
        let mut key = Raw::Bytes(&[]);
        // All maps that are read have values that are bytes on the wire.
        self.value = Raw::Bytes(&[]);
        while let Some((number, raw)) = next(&mut rest)? {
            match number {
                1 => key = raw,
                2 => self.value = raw,
                _ => {}
            }
        }
        seed.deserialize(Value { of: Kind::Text, raw: key }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Value { of: self.row.field.of, raw: self.value })
    }
}
