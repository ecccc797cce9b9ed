//! The device that a selector examines.

use harbormaster_api::{Quantity as ApiQuantity, Str};

use crate::{
    attribute::Attribute,
    errors::EvalError,
    semver::Semver,
    value::{Quantity, QuantitySource, Value},
};

/// A device. Names without a domain belong to the domain of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Name of the driver.
    pub driver: &'a str,
    /// Attributes by qualified name, `id` or `domain/id`, in the order of the names.
    pub attributes: &'a [(Str, Attribute)],
    /// Capacities by qualified name.
    pub capacity: &'a [(&'a str, ApiQuantity)],
    /// True if several claims can share the device.
    pub allow_multiple_allocations: bool,
}

/// Part of a device that expressions read by domain and ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Attributes,
    Capacity,
}

/// A device without a driver name, attributes or capacities.
pub(crate) static NO_DEVICE: Device<'static> =
    Device { driver: "", attributes: &[], capacity: &[], allow_multiple_allocations: false };

impl Default for Device<'_> {
    fn default() -> Self {
        NO_DEVICE
    }
}

impl<'a> Device<'a> {
    /// Checks that expressions can read the value of every attribute, including attributes that the selector does not
    /// use.
    pub(crate) fn check(&self, list_attributes: bool) -> Result<(), EvalError> {
        for (name, attribute) in self.attributes {
            let fail = |why: &str| Err(EvalError::new(format!("attribute {name}: {why}")));
            let versions: &[Str] = match attribute {
                Attribute::Bool(_) | Attribute::Int(_) | Attribute::String(_) => &[],
                Attribute::Version(version) => std::slice::from_ref(version),
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

    pub(crate) fn attribute(&self, domain: &str, id: &str) -> Option<&'a Attribute> {
        let found = self.attributes.iter().find(|(name, _)| self.is_named(name, domain, id));
        found.map(|(_, attribute)| attribute)
    }

    pub(crate) fn capacity(&self, domain: &str, id: &str) -> Option<Value<'a>> {
        let found = self.capacity.iter().find(|(name, _)| self.is_named(name, domain, id));
        found.map(|(_, quantity)| {
            Value::Quantity(Quantity { source: QuantitySource::Device(quantity), is_computed: false })
        })
    }

    fn is_named(&self, name: &str, domain: &str, id: &str) -> bool {
        name == id && domain == self.driver && !id.contains('/')
            || name.len() == domain.len() + 1 + id.len()
                && name.starts_with(domain)
                && name.ends_with(id)
                && name.as_bytes().get(domain.len()) == Some(&b'/')
                && !domain.contains('/')
    }

    pub(crate) fn has_domain(&self, section: Section, domain: &str) -> bool {
        self.names(section).any(|name| self.split(name).0 == domain)
    }

    /// Domains of the names in a section, each once.
    pub(crate) fn domains(&self, section: Section) -> Vec<&'a str> {
        let mut domains: Vec<&str> = self.names(section).map(|name| self.split(name).0).collect();
        domains.sort_unstable();
        domains.dedup();
        domains
    }

    pub(crate) fn ids<'b>(&'b self, section: Section, domain: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        let names = self.names(section).map(|name| self.split(name));
        names.filter(move |(of, _)| *of == domain).map(|(_, id)| id)
    }

    fn names(&self, section: Section) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        match section {
            Section::Attributes => Box::new(self.attributes.iter().map(|(name, _)| &**name)),
            Section::Capacity => Box::new(self.capacity.iter().map(|(name, _)| *name)),
        }
    }

    /// Splits a qualified name into domain and ID.
    fn split(&self, name: &'a str) -> (&'a str, &'a str) {
        name.split_once('/').unwrap_or((self.driver, name))
    }
}
