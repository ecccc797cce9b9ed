//! Maps.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use crate::{
    constant::ConstantMap,
    device::{Device, Section},
    fuel::Fuel,
    list::List,
    time::Timestamp,
    value::{Error, Quantity, QuantitySource, Text, Value},
};

/// A map.
#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Entries(Rc<Entries<'a>>),
    /// A constant of the expression.
    Constant(&'a ConstantMap),
    /// The accumulator of a loop, if it began as an empty map. Insertions change it in place.
    Mutable(Rc<RefCell<Entries<'a>>>),
    /// The fields of a device.
    Device(&'a Device<'a>),
    /// The attributes or capacities of a device by domain. A domain that the device does not have is an
    /// empty map.
    Domains(&'a Device<'a>, Section),
    /// Like [`Self::Domains`], but a lookup finds only the domains that the device has.
    KnownDomains(&'a Device<'a>, Section),
    /// The attributes or capacities of a domain.
    Domain(&'a Device<'a>, Section, Text<'a>),
}

/// Entries in the order of their insertion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    /// Positions of the entries by key.
    index: HashMap<Key, usize>,
}

/// Identity of a key. Unlike in comparisons, numbers of different types differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// Bits of the number.
    Double(u64),
    String(Box<str>),
    Duration(i64),
    Timestamp(Timestamp),
    Type(Box<str>),
    Ip(std::net::IpAddr),
    Cidr(std::net::IpAddr, u8),
    /// `optional.none()`.
    None,
    /// Address of a value that equals only its clones. The map holds the value, so no other value gets the address.
    Address(usize),
    /// A key that equals no other one.
    Unique,
}

impl Key {
    /// Returns the identity of a key. Fails if the value cannot be a key.
    pub(crate) fn of(key: &Value<'_>) -> Result<Self, Error> {
        let unhashable = |go_type| Err(Error::internal(&format!("hash of unhashable type {go_type}")));
        Ok(match key {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) if value.is_nan() => Self::Unique,
            Value::Double(value) => Self::Double(if *value == 0.0 { 0 } else { value.to_bits() }),
            Value::String(text) => Self::String(text.as_str().into()),
            Value::Duration(nanos) => Self::Duration(*nanos),
            Value::Timestamp(time) => Self::Timestamp(*time),
            Value::Type(name) => Self::Type(name.as_str().into()),
            Value::Ip(ip) => Self::Ip(*ip),
            Value::Cidr(cidr) => Self::Cidr(cidr.ip, cidr.bits),
            Value::Quantity(Quantity { source: QuantitySource::Device(quantity), .. }) => {
                Self::Address(std::ptr::from_ref(*quantity).addr())
            }
            Value::Optional(None) => Self::None,
            Value::Optional(Some(inner)) => Self::Address(Rc::as_ptr(inner).addr()),
            Value::List(List::Values(values)) => Self::Address(Rc::as_ptr(values).addr()),
            Value::List(List::Mutable(values)) => Self::Address(Rc::as_ptr(values).addr()),
            Value::List(List::Constant(values)) => Self::Address(std::ptr::from_ref(*values).addr()),
            Value::Map(Map::Entries(entries)) => Self::Address(Rc::as_ptr(entries).addr()),
            Value::Map(Map::Mutable(entries)) => Self::Address(Rc::as_ptr(entries).addr()),
            Value::Map(Map::Constant(entries)) => Self::Address(std::ptr::from_ref(*entries).addr()),
            Value::Bytes(_) | Value::Semver(_) | Value::Format(_) => return unhashable(key.go_type()),
            _ => Self::Unique,
        })
    }

    /// Returns the keys of equal numbers of other types, in the order in which a lookup tries them.
    pub(crate) fn alternatives(&self) -> [Option<Key>; 2] {
        match self {
            Self::Double(bits) => {
                let value = f64::from_bits(*bits);
                let int = crate::convert::double_to_int(value).filter(|int| *int as f64 == value);
                let uint = crate::convert::double_to_uint(value).filter(|uint| *uint as f64 == value);
                [int.map(Self::Int), uint.map(Self::Uint)]
            }
            Self::Int(value) => [u64::try_from(*value).ok().map(Self::Uint), None],
            Self::Uint(value) => [i64::try_from(*value).ok().map(Self::Int), None],
            _ => [None, None],
        }
    }
}

impl<'a> Entries<'a> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts an entry, or replaces the value of a key that is in the map.
    pub(crate) fn set(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), Error> {
        let identity = Key::of(&key)?;
        match self.index.get(&identity).filter(|_| identity != Key::Unique) {
            Some(at) => self.entries[*at].1 = value,
            None => {
                self.index.insert(identity, self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    /// Removes the entry of a key, if there is one.
    pub(crate) fn remove(&mut self, key: &Value<'a>) -> Result<(), Error> {
        let identity = match Key::of(key) {
            // If the map is empty, Go's message differs.
            Err(_) if self.entries.is_empty() => {
                return Err(Error::panic(&format!("hash of unhashable type: {}", key.go_type())));
            }
            identity => identity?,
        };
        if identity != Key::Unique
            && let Some(at) = self.index.remove(&identity)
        {
            self.entries.remove(at);
            self.index.values_mut().filter(|position| **position > at).for_each(|position| *position -= 1);
        }
        Ok(())
    }

    fn find(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, Error> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let identity = Key::of(key)?;
        if identity == Key::Unique {
            return Ok(None);
        }
        let mut found = self.index.get(&identity);
        for other in identity.alternatives().iter().flatten() {
            found = found.or_else(|| self.index.get(other));
        }
        Ok(found.map(|at| self.entries[*at].1.clone()))
    }
}

impl<'a> Map<'a> {
    pub(crate) fn mutable() -> Self {
        Self::Mutable(Rc::default())
    }

    /// Returns the value of a key, as selections and `[]` do.
    pub(crate) fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
        match self {
            Self::Entries(entries) => entries.find(key),
            Self::Constant(entries) => entries.find(key),
            Self::Mutable(entries) => entries.borrow().find(key),
            Self::Device(device) => Ok(key.text().and_then(|name| match name {
                "driver" => Some(Value::String(Text::Borrowed(device.driver))),
                "attributes" => Some(Value::Map(Self::Domains(device, Section::Attributes))),
                "capacity" => Some(Value::Map(Self::Domains(device, Section::Capacity))),
                "allowMultipleAllocations" => Some(Value::Bool(device.allow_multiple_allocations)),
                _ => None,
            })),
            Self::Domains(device, section) => Ok(Some(match key {
                Value::String(domain) => Value::Map(Self::Domain(device, *section, domain.clone())),
                _ => Value::Map(Self::Entries(Rc::default())),
            })),
            Self::KnownDomains(device, section) => Ok(match key {
                Value::String(domain) if device.has_domain(*section, domain.as_str()) => {
                    Some(Value::Map(Self::Domain(device, *section, domain.clone())))
                }
                _ => None,
            }),
            Self::Domain(device, section, domain) => Ok(match (key, section) {
                (Value::String(id), Section::Attributes) => {
                    device.attribute(domain.as_str(), id.as_str()).map(Value::of_attribute)
                }
                (Value::String(id), Section::Capacity) => device.capacity(domain.as_str(), id.as_str()),
                _ => None,
            }),
        }
    }

    /// Returns true if the map has the key. Unlike [`Self::find`], does not find domains that the device does not have.
    pub(crate) fn has(&self, key: &Value<'a>) -> Result<bool, Error> {
        match self {
            Self::Domains(device, section) => {
                Self::KnownDomains(device, *section).find(key).map(|found| found.is_some())
            }
            _ => self.find(key).map(|found| found.is_some()),
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Entries(entries) => entries.len(),
            Self::Constant(entries) => entries.len(),
            Self::Mutable(entries) => entries.borrow().len(),
            Self::Device(_) => 4,
            Self::Domains(device, section) | Self::KnownDomains(device, section) => {
                device.domains(*section).len()
            }
            Self::Domain(device, section, domain) => device.ids(*section, domain.as_str()).count(),
        }
    }

    /// Size for `size()` and for costs. As in cel-go, a mutable map has the size 0.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Mutable(_) => 0,
            _ => self.len(),
        }
    }

    /// Returns true if the map counts as a zero value.
    pub(crate) fn is_zero(&self) -> bool {
        !matches!(self, Self::Domains(..)) && self.size() == 0
    }

    /// Returns the keys and values.
    pub(crate) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        let text = |text: &'a str| Value::String(Text::Borrowed(text));
        let keys: Vec<Value<'a>> = match self {
            Self::Entries(entries) => return entries.entries.clone(),
            Self::Constant(entries) => return entries.entries(),
            Self::Mutable(entries) => return entries.borrow().entries.clone(),
            Self::Device(_) => {
                ["driver", "allowMultipleAllocations", "attributes", "capacity"].map(text).into()
            }
            Self::Domains(device, section) | Self::KnownDomains(device, section) => {
                device.domains(*section).into_iter().map(text).collect()
            }
            Self::Domain(device, section, domain) => {
                device.ids(*section, domain.as_str()).map(text).collect()
            }
        };
        let value = |key: &Value<'a>| self.find(key).ok().flatten().unwrap_or(Value::Null);
        keys.into_iter().map(|key| (key.clone(), value(&key))).collect()
    }

    /// Returns the first of [`Self::entries`].
    pub(crate) fn first(&self) -> Option<(Value<'a>, Value<'a>)> {
        match self {
            Self::Entries(entries) => entries.entries.first().cloned(),
            Self::Mutable(entries) => entries.borrow().entries.first().cloned(),
            other => other.entries().into_iter().next(),
        }
    }

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        self.entries().into_iter().map(|(key, _)| key).collect()
    }

    /// Returns the map with another entry, or an error if the map has the key. Changes a mutable map in place.
    pub(crate) fn insert(&self, key: &Value<'a>, value: Value<'a>) -> Value<'a> {
        match self.find(key) {
            Err(error) => return Value::Error(error),
            Ok(Some(_)) => {
                return Value::error(format!("insert failed: key {} already exists", key.go_print()));
            }
            Ok(None) => {}
        }
        let inserted = match self {
            Self::Mutable(entries) => {
                entries.borrow_mut().set(key.clone(), value).map(|()| Value::Map(self.clone()))
            }
            _ => {
                let mut copy = Entries::default();
                let mut copied = copy.set(key.clone(), value);
                for (key, value) in self.entries() {
                    copied = copied.and_then(|()| copy.set(key, value));
                }
                copied.map(|()| Value::Map(Self::Entries(Rc::new(copy))))
            }
        };
        inserted.unwrap_or_else(Value::Error)
    }

    /// Returns an immutable copy of a mutable map, and any other map as it is.
    pub(crate) fn frozen(&self) -> Map<'a> {
        match self {
            Self::Mutable(entries) => Self::Entries(Rc::new(entries.borrow().clone())),
            other => other.clone(),
        }
    }

    /// Compares entry by entry. Values that cannot be compared count as equal.
    pub(crate) fn equals(&self, other: &Map<'a>, fuel: &Fuel) -> Value<'a> {
        if self.size() != other.size() {
            return Value::Bool(false);
        }
        for (key, value) in self.entries() {
            let found = match other.find(&key) {
                Ok(Some(found)) => found,
                Ok(None) => return Value::Bool(false),
                Err(error) => return Value::Error(error),
            };
            match value.equals_or_null(&found, fuel) {
                Value::Bool(false) => return Value::Bool(false),
                Value::Error(error) if error.is_fatal => return Value::Error(error),
                _ => {}
            }
        }
        Value::Bool(true)
    }

    /// See [`Value::through_go`].
    pub(crate) fn through_go(&self) -> Map<'a> {
        match self {
            Self::Domains(device, section) => Self::KnownDomains(device, *section),
            other => other.clone(),
        }
    }

    /// Name of the map's type in Go.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Mutable(_) => "*types.mutableMap",
            Self::Domains(..) => "cel.mapper",
            _ => "*types.baseMap",
        }
    }
}
