//! The device that a selector examines.

use harbormaster_api::Quantity;

use crate::{errors::EvalError, semver::Semver, value::Section};

/// A device. Names without a domain belong to the domain of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Device<'a> {
    /// Name of the driver.
    pub driver: &'a str,
    /// Attributes by qualified name: `id` or `domain/id`.
    pub attributes: &'a [(&'a str, Attribute<'a>)],
    /// Capacities by qualified name.
    pub capacity: &'a [(&'a str, Quantity)],
    /// True if several claims can share the device.
    pub allow_multiple_allocations: bool,
}

/// Value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attribute<'a> {
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A string.
    String(&'a str),
    /// A semantic version.
    Version(&'a str),
    /// A list of truth values.
    Bools(&'a [bool]),
    /// A list of numbers.
    Ints(&'a [i64]),
    /// A list of strings.
    Strings(&'a [&'a str]),
    /// A list of semantic versions.
    Versions(&'a [&'a str]),
    /// A value of an unknown kind.
    Unsupported,
}

impl<'a> Device<'a> {
    /// Checks that every attribute has a value that expressions can read, even if the expression does not read it.
    pub(crate) fn check(&self, list_attributes: bool) -> Result<(), EvalError> {
        for (name, attribute) in self.attributes {
            let fail = |why: &str| Err(EvalError::new(format!("attribute {name}: {why}")));
            let versions: &[&str] = match attribute {
                Attribute::Bool(_) | Attribute::Int(_) | Attribute::String(_) => &[],
                Attribute::Version(version) => &[*version],
                Attribute::Bools(_) | Attribute::Ints(_) | Attribute::Strings(_) if list_attributes => &[],
                Attribute::Versions(versions) if list_attributes => versions,
                _ => return fail("unsupported attribute value"),
            };
            for version in versions {
                if let Err(why) = Semver::parse(version) {
                    return fail(&format!("parse semantic version: {why}"));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn attribute(&self, domain: &str, id: &str) -> Option<&Attribute<'a>> {
        let found = self.attributes.iter().find(|(name, _)| self.split(name) == (domain, id));
        found.map(|(_, attribute)| attribute)
    }

    /// Returns a capacity in units of 10⁻⁹.
    pub(crate) fn capacity(&self, domain: &str, id: &str) -> Option<i128> {
        let found = self.capacity.iter().find(|(name, _)| self.split(name) == (domain, id));
        found.map(|(_, capacity)| capacity.nanos())
    }

    pub(crate) fn domains(&self, section: Section) -> impl Iterator<Item = &'a str> + '_ {
        self.names(section).map(|name| self.split(name).0)
    }

    pub(crate) fn ids<'b>(&'b self, section: Section, domain: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        let names = self.names(section).map(|name| self.split(name));
        names.filter(move |(of, _)| *of == domain).map(|(_, id)| id)
    }

    fn names(&self, section: Section) -> impl Iterator<Item = &'a str> + '_ {
        let attributes = self.attributes.iter().map(|(name, _)| *name);
        let capacities = self.capacity.iter().map(|(name, _)| *name);
        let (attributes, capacities) = match section {
            Section::Attributes => (Some(attributes), None),
            Section::Capacity => (None, Some(capacities)),
        };
        attributes.into_iter().flatten().chain(capacities.into_iter().flatten())
    }

    /// Splits a qualified name into domain and ID.
    fn split(&self, name: &'a str) -> (&'a str, &'a str) {
        name.split_once('/').unwrap_or((self.driver, name))
    }
}
