//! Conversions between types.

use std::rc::Rc;

use crate::{
    number, time,
    time::Timestamp,
    value::{Text, Value},
};

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";

/// Converts a number by cutting off its fraction; `None` if it does not fit.
pub(crate) fn double_to_int(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (value > -LIMIT && value < LIMIT).then_some(value as i64)
}

/// Like [`double_to_int`], but for unsigned numbers.
pub(crate) fn double_to_uint(value: f64) -> Option<u64> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    (0.0..LIMIT).contains(&value).then_some(value as u64)
}

impl<'a> Value<'a> {
    fn not_converted(&self, to: &str) -> Value<'a> {
        let from = match self {
            Value::List(_) => "list(dyn)",
            Value::Map(_) => "map(dyn, dyn)",
            other => other.type_name(),
        };
        Self::error(format!("type conversion error from '{from}' to '{to}'"))
    }

    pub(crate) fn to_bool(&self) -> Value<'a> {
        match self {
            Self::Bool(_) => self.clone(),
            Self::String(text) => match text.as_str() {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Self::Bool(true),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Self::Bool(false),
                _ => self.not_converted("bool"),
            },
            _ => self.not_converted("bool"),
        }
    }

    pub(crate) fn to_int(&self) -> Value<'a> {
        match self {
            Self::Int(_) => self.clone(),
            Self::Uint(value) => i64::try_from(*value).map_or(Self::fail(INT_OVERFLOW), Self::Int),
            Self::Double(value) => double_to_int(*value).map_or(Self::fail(INT_OVERFLOW), Self::Int),
            Self::Duration(nanos) => Self::Int(*nanos),
            Self::Timestamp(time) => Self::Int(time.unix()),
            Self::String(text) => text.as_str().parse().map_or_else(|_| self.not_converted("int"), Self::Int),
            _ => self.not_converted("int"),
        }
    }

    pub(crate) fn to_uint(&self) -> Value<'a> {
        match self {
            Self::Uint(_) => self.clone(),
            Self::Int(value) => u64::try_from(*value).map_or(Self::fail(UINT_OVERFLOW), Self::Uint),
            Self::Double(value) => double_to_uint(*value).map_or(Self::fail(UINT_OVERFLOW), Self::Uint),
            Self::String(text) => {
                let digits = text.as_str();
                let parsed = digits.parse().ok().filter(|_| !digits.starts_with('+'));
                parsed.map_or_else(|| self.not_converted("uint"), Self::Uint)
            }
            _ => self.not_converted("uint"),
        }
    }

    pub(crate) fn to_double(&self) -> Value<'a> {
        match self {
            Self::Double(_) => self.clone(),
            Self::Int(value) => Self::Double(*value as f64),
            Self::Uint(value) => Self::Double(*value as f64),
            Self::String(text) => {
                let parsed = number::parse_double(text.as_str());
                parsed.map_or_else(|| self.not_converted("double"), Self::Double)
            }
            _ => self.not_converted("double"),
        }
    }

    pub(crate) fn to_bytes(&self) -> Value<'a> {
        match self {
            Self::Bytes(_) => self.clone(),
            Self::String(text) => Self::Bytes(text.as_str().as_bytes().into()),
            _ => self.not_converted("bytes"),
        }
    }

    pub(crate) fn to_text(&self) -> Value<'a> {
        Self::string(match self {
            Self::String(_) => return self.clone(),
            Self::Type(name) => return Self::String(name.clone()),
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => number::print_general(*value),
            Self::Duration(nanos) => time::print_duration(*nanos),
            Self::Timestamp(time) => time.print(),
            Self::Ip(ip) => crate::cidr::print_ip(*ip),
            Self::Cidr(cidr) => cidr.to_string(),
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => return Self::fail("invalid UTF-8 in bytes, cannot convert to string"),
            },
            _ => return self.not_converted("string"),
        })
    }

    pub(crate) fn to_duration(&self) -> Value<'a> {
        match self {
            Self::Duration(_) => self.clone(),
            Self::String(text) => {
                let parsed = time::parse_duration(text.as_str());
                parsed.map_or_else(|| self.not_converted("google.protobuf.Duration"), Self::Duration)
            }
            _ => self.not_converted("google.protobuf.Duration"),
        }
    }

    pub(crate) fn to_timestamp(&self) -> Value<'a> {
        let parsed = match self {
            Self::Timestamp(_) => return self.clone(),
            Self::Int(seconds) => Some(Timestamp::of_unix(*seconds)),
            Self::String(text) => Timestamp::parse(text.as_str()),
            _ => None,
        };
        match parsed {
            Some(time) => time.map_or_else(Self::fail, Self::Timestamp),
            None => self.not_converted("google.protobuf.Timestamp"),
        }
    }

    pub(crate) fn to_type(&self) -> Value<'a> {
        match self {
            Self::Error(_) => self.clone(),
            _ => Self::Type(Text::Borrowed(self.type_name())),
        }
    }
}

/// Copies the text into a string value.
impl From<&str> for Value<'static> {
    fn from(text: &str) -> Self {
        Self::String(Text::Shared(Rc::from(text)))
    }
}
