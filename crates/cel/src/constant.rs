//! Constants of a compiled expression.

use std::sync::Arc;

use crate::{
    list::List,
    map::{Entries, Key, Map},
    time::Timestamp,
    value::{Error, Text, Value},
};

/// A constant. Unlike a [`Value`], it can be shared between threads.
#[derive(Clone, Debug)]
pub(crate) enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    Duration(i64),
    Timestamp(Timestamp),
    List(ConstantList),
    Map(ConstantMap),
    Type(Box<str>),
    Error(Arc<str>),
}

/// A constant list. Even an empty one has its own address, which identifies it as the key of a map.
#[derive(Clone, Debug)]
pub(crate) struct ConstantList(Box<[Constant]>);

/// A constant map, with its entries in the order of the expression.
#[derive(Clone, Debug)]
pub(crate) struct ConstantMap(Box<[(Constant, Constant)]>);

impl Constant {
    /// Converts a value that was computed from constants.
    pub(crate) fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) => Self::Double(*value),
            Value::String(text) => Self::String(text.as_str().into()),
            Value::Bytes(bytes) => Self::Bytes((**bytes).into()),
            Value::Duration(nanos) => Self::Duration(*nanos),
            Value::Timestamp(time) => Self::Timestamp(*time),
            Value::List(list) => {
                Self::List(ConstantList(list.iter().map(|element| Self::of(&element)).collect()))
            }
            Value::Map(map) => {
                let entries = map.entries();
                let entries = entries.iter().map(|(key, value)| (Self::of(key), Self::of(value)));
                Self::Map(ConstantMap(entries.collect()))
            }
            Value::Type(name) => Self::Type(name.as_str().into()),
            Value::Error(error) => Self::Error(error.text.as_str().into()),
            _ => Self::Null,
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::String(text) => Value::String(Text::Borrowed(text)),
            Self::Bytes(bytes) => Value::Bytes((**bytes).into()),
            Self::Duration(nanos) => Value::Duration(*nanos),
            Self::Timestamp(time) => Value::Timestamp(*time),
            Self::List(elements) => Value::List(List::Constant(elements)),
            Self::Map(map) => Value::Map(Map::Constant(map)),
            Self::Type(name) => Value::Type(Text::Borrowed(name)),
            Self::Error(text) => Value::Error(Error::new(&**text)),
        }
    }
}

impl ConstantList {
    pub(crate) fn elements(&self) -> &[Constant] {
        &self.0
    }
}

impl ConstantMap {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn entries(&self) -> Vec<(Value<'_>, Value<'_>)> {
        self.0.iter().map(|(key, value)| (key.value(), value.value())).collect()
    }

    pub(crate) fn find<'a>(&'a self, key: &Value<'_>) -> Result<Option<Value<'a>>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        if let Some(text) = key.text() {
            let found = self.0.iter().find(|(key, _)| matches!(key, Constant::String(key) if **key == *text));
            return Ok(found.map(|(_, value)| value.value()));
        }
        let wanted = Key::of(key)?;
        let entry = |wanted: &Key| {
            self.0.iter().find(|(key, _)| Key::of(&key.value()).is_ok_and(|key| key == *wanted))
        };
        if wanted == Key::Unique {
            return Ok(None);
        }
        let mut found = entry(&wanted);
        for other in wanted.alternatives().iter().flatten() {
            found = found.or_else(|| entry(other));
        }
        Ok(found.map(|(_, value)| value.value()))
    }
}

impl<'a> From<Entries<'a>> for Value<'a> {
    fn from(entries: Entries<'a>) -> Self {
        Self::Map(Map::Entries(entries.into()))
    }
}
