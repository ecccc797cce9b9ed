//! The wire format: fields of messages, and the table that names them.

use serde::de::Error as _;
use serde_json::Error;

/// A type of messages.
#[derive(Debug)]
pub struct Message {
    /// Name, for example `core.Pod`.
    pub name: &'static str,
    /// The fields that are read; all others are skipped.
    pub fields: &'static [Field],
    /// The part of such a message that belongs to the essence of an object.
    pub(super) share: Share,
}

/// Part of a message that belongs to the [essence](crate::wire) of an object: a message that is part of the essence must
/// be read again when it changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    /// All bytes. Whatever changes in such a message is usually read, or changes rarely.
    All,
    /// The fields that are read, except for the one with this number.
    ReadExcept(u64),
    /// The fields that are read.
    Read,
    /// The fields that are read, if the first field has one of these values.
    ReadIf(&'static [&'static str]),
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// Number on the wire.
    pub number: u64,
    /// Name in JSON; empty for [`Shape::Inline`].
    pub name: &'static str,
    /// Number of times that the field may occur.
    pub shape: Shape,
    /// Type of the field, or of its entries.
    pub of: Kind,
}

/// Number of times that a field may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Once.
    One,
    /// Any number of times, in a row.
    List,
    /// Any number of times, in a row, each time with a key.
    Map,
    /// Once, with a message whose fields belong to the enclosing message in JSON.
    Inline,
}

/// Type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// An integer.
    Number,
    /// A boolean.
    Bool,
    /// A `resource.Quantity`.
    Quantity,
    /// A `meta.Time`, shown as nanoseconds since 1970.
    Time,
    /// A `meta.Time`, shown as text as in JSON.
    TimeAsText,
    /// A `runtime.RawExtension`, which contains JSON.
    Json,
    /// Any other message.
    Message(&'static Message),
}

impl Message {
    pub(super) const fn new(name: &'static str, fields: &'static [Field]) -> Self {
        Self { name, fields, share: Share::All }
    }

    /// Sets the share of the message in the essence.
    pub(super) const fn with(self, share: Share) -> Self {
        Self { share, ..self }
    }

    pub(super) fn field(&self, number: u64) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }
}

pub(super) const fn one(number: u64, name: &'static str, of: Kind) -> Field {
    Field { number, name, shape: Shape::One, of }
}

pub(super) const fn list(number: u64, name: &'static str, of: Kind) -> Field {
    Field { number, name, shape: Shape::List, of }
}

pub(super) const fn map(number: u64, name: &'static str, of: Kind) -> Field {
    Field { number, name, shape: Shape::Map, of }
}

pub(super) const fn inline(number: u64, name: &'static str, of: Kind) -> Field {
    Field { number, name, shape: Shape::Inline, of }
}

/// A value on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Raw<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(wrong("a field has the wrong wire type")),
        }
    }

    pub(super) fn number(self) -> Result<i64, Error> {
        match self {
            Self::Number(number) => Ok(number.cast_signed()),
            Self::Bytes(_) => Err(wrong("a field has the wrong wire type")),
        }
    }
}

/// Takes the next field from a message: its number and value. Returns `None` at the end.
#[inline]
pub(super) fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<(u64, Raw<'a>)>, Error> {
    // Most fields have a small number, and a short text or message or a small integer.
    if let [tag @ ..0x80, short @ ..0x80, left @ ..] = *rest {
        let number = u64::from(tag >> 3);
        match tag & 7 {
            0 => {
                *rest = left;
                return Ok(Some((number, Raw::Number((*short).into()))));
            }
            2 if let Some((value, left)) = left.split_at_checked(usize::from(*short)) => {
                *rest = left;
                return Ok(Some((number, Raw::Bytes(value))));
            }
            _ => {}
        }
    }
    any_next(rest)
}

fn any_next<'a>(rest: &mut &'a [u8]) -> Result<Option<(u64, Raw<'a>)>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let tag = varint(rest)?;
    let raw = match tag & 7 {
        0 => Raw::Number(varint(rest)?),
        1 => Raw::Number(fixed(take(rest, 8)?)),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| wrong("a length is too large"))?;
            Raw::Bytes(take(rest, length)?)
        }
        5 => Raw::Number(fixed(take(rest, 4)?)),
        other => return Err(wrong(&format!("wire type {other} is not used by Kubernetes"))),
    };
    Ok(Some((tag >> 3, raw)))
}

/// Returns the last value of a field, which is the one that counts.
pub(super) fn find(mut message: &[u8], number: u64) -> Result<Option<Raw<'_>>, Error> {
    let mut found = None;
    while let Some((at, raw)) = next(&mut message)? {
        if at == number {
            found = Some(raw);
        }
    }
    Ok(found)
}

#[inline]
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let Some((taken, left)) = rest.split_at_checked(length) else { return Err(too_short()) };
    *rest = left;
    Ok(taken)
}

#[cold]
fn too_short() -> Error {
    wrong("the message ends too early")
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[inline]
fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    // Most tags and lengths are one byte long.
    match **rest {
        [byte @ ..0x80, ref left @ ..] => {
            *rest = left;
            Ok(u64::from(byte))
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(wrong("a number is too long"))
}

pub(super) fn wrong(what: &str) -> Error {
    Error::custom(what)
}
