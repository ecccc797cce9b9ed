//! Values of expressions.

use std::{cmp::Ordering, sync::Arc};

use crate::{
    device::{Attribute, Device},
    semver::Semver,
};

/// A value. Values of the device are borrowed.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Value<'a>>>),
    Map(Arc<Vec<(Value<'a>, Value<'a>)>>),
    Optional(Option<Arc<Value<'a>>>),
    /// A quantity in units of 10⁻⁹.
    Quantity(i128),
    Semver(Arc<Semver>),
    /// The name of a type.
    Type(&'static str),
    /// The variable `device`.
    Device(&'a Device<'a>),
    /// `device.attributes` or `device.capacity`.
    Domains(&'a Device<'a>, Section),
    /// The attributes or capacities of one domain.
    Domain(&'a Device<'a>, Section, Text<'a>),
}

/// A part of a device with qualified names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Attributes,
    Capacity,
}

/// A string.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub(crate) fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(Arc::new(elements))
    }

    pub(crate) fn optional(value: Option<Value<'a>>) -> Self {
        Self::Optional(value.map(Arc::new))
    }

    /// Returns the value of an attribute. Versions have been checked.
    fn of_attribute(attribute: &Attribute<'a>) -> Self {
        let version = |text: &str| Semver::parse(text).map_or(Self::Null, |it| Self::Semver(Arc::new(it)));
        match attribute {
            Attribute::Bool(value) => Self::Bool(*value),
            Attribute::Int(value) => Self::Int(*value),
            Attribute::String(value) => Self::String(Text::Borrowed(value)),
            Attribute::Version(value) => version(value),
            Attribute::Bools(values) => Self::list(values.iter().copied().map(Self::Bool).collect()),
            Attribute::Ints(values) => Self::list(values.iter().copied().map(Self::Int).collect()),
            Attribute::Strings(values) => {
                Self::list(values.iter().map(|value| Self::String(Text::Borrowed(value))).collect())
            }
            Attribute::Versions(values) => Self::list(values.iter().map(|value| version(value)).collect()),
            Attribute::Unsupported => Self::Null,
        }
    }

    /// Returns the entry of a map; `None` if there is none.
    ///
    /// `Err` means that the value is not a map.
    pub(crate) fn entry(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, NotAMap> {
        match self {
            Self::Map(entries) => {
                Ok(entries.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value.clone()))
            }
            Self::Device(device) => Ok(key.text().and_then(|name| match name {
                "driver" => Some(Self::String(Text::Borrowed(device.driver))),
                "attributes" => Some(Self::Domains(device, Section::Attributes)),
                "capacity" => Some(Self::Domains(device, Section::Capacity)),
                "allowMultipleAllocations" => Some(Self::Bool(device.allow_multiple_allocations)),
                _ => None,
            })),
            // An unknown domain is like an empty one.
            Self::Domains(device, section) => Ok(Some(match key {
                Self::String(domain) => Self::Domain(device, *section, domain.clone()),
                _ => Self::Map(Arc::default()),
            })),
            Self::Domain(device, section, domain) => Ok(key.text().and_then(|id| match section {
                Section::Attributes => device.attribute(domain.as_str(), id).map(Self::of_attribute),
                Section::Capacity => device.capacity(domain.as_str(), id).map(Self::Quantity),
            })),
            _ => Err(NotAMap),
        }
    }

    /// Returns true if the map has the key. Unlike [`Self::entry`], an unknown domain is not in the map.
    pub(crate) fn has_key(&self, key: &Value<'a>) -> Result<bool, NotAMap> {
        match (self, key) {
            (Self::Domains(device, section), Self::String(domain)) => {
                Ok(device.domains(*section).any(|known| known == domain.as_str()))
            }
            (Self::Domains(..), _) => Ok(false),
            _ => self.entry(key).map(|entry| entry.is_some()),
        }
    }

    /// Returns the keys of a map.
    pub(crate) fn keys(&self) -> Option<Vec<Value<'a>>> {
        let text = |text: &'a str| Self::String(Text::Borrowed(text));
        Some(match self {
            Self::Map(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Device(_) => {
                ["driver", "allowMultipleAllocations", "attributes", "capacity"].map(text).into()
            }
            Self::Domains(device, section) => {
                let mut domains: Vec<&str> = device.domains(*section).collect();
                domains.sort_unstable();
                domains.dedup();
                domains.into_iter().map(text).collect()
            }
            Self::Domain(device, section, domain) => {
                device.ids(*section, domain.as_str()).map(text).collect()
            }
            _ => return None,
        })
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Name of the value's type, as cel-go prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) | Self::Device(_) | Self::Domains(..) | Self::Domain(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Type(_) => "type",
        }
    }

    /// Returns true if the values are equal. Numbers are compared across types; other values of different types are
    /// not equal.
    pub(crate) fn equals(&self, other: &Value<'a>) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a.as_str() == b.as_str(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (a, b) => match (a.keys(), b.keys()) {
                (Some(keys), Some(others)) => {
                    let same = |key: &Value<'a>| match (a.entry(key), b.has_key(key), b.entry(key)) {
                        (Ok(Some(a)), Ok(true), Ok(Some(b))) => a.equals(&b),
                        _ => false,
                    };
                    keys.len() == others.len() && keys.iter().all(same)
                }
                _ => a.compare(b) == Some(Ordering::Equal),
            },
        }
    }

    /// Compares two values; `None` if they have no order.
    pub(crate) fn compare(&self, other: &Value<'a>) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.as_str().cmp(b.as_str())),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Double(b)) => compare_exactly(i128::from(*a), *b),
            (Self::Uint(a), Self::Double(b)) => compare_exactly(i128::from(*a), *b),
            (Self::Double(a), Self::Int(b)) => compare_exactly(i128::from(*b), *a).map(Ordering::reverse),
            (Self::Double(a), Self::Uint(b)) => compare_exactly(i128::from(*b), *a).map(Ordering::reverse),
            _ => None,
        }
    }
}

/// Compares an integer with a double without rounding the integer.
fn compare_exactly(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // Doubles beyond 2⁶⁴ are larger than any integer here.
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if b.abs() > LIMIT {
        return Some(if b > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = b.trunc();
    Some(a.cmp(&(whole as i128)).then_with(|| 0.0.partial_cmp(&(b - whole)).unwrap_or(Ordering::Equal)))
}

/// Error for a value that has no entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotAMap;
