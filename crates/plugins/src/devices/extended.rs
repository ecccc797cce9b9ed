//! Extended resources that stand for device classes (KEP-5004).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use harbormaster_api::{Str, Timestamp};
use rustc_hash::FxBuildHasher;

use super::DeviceClass;

/// Prefix of the extended resource that every class has; the name of the class follows.
pub const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Device classes by the extended resources that they define.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ExtendedResources {
    /// Classes by resource, the preferred one first: the newest, and of two equally old ones the first by name.
    classes: HashMap<Str, BTreeSet<Preference>, FxBuildHasher>,
    /// Resource and age of all classes, by name.
    known: HashMap<Str, Option<(Str, Reverse<Option<Timestamp>>)>, FxBuildHasher>,
}

type Preference = (Reverse<Option<Timestamp>>, Str);

impl ExtendedResources {
    /// Adds, replaces or removes a class.
    pub(super) fn set(&mut self, name: &Str, class: Option<&DeviceClass>) {
        if let Some(Some((resource, age))) = self.known.remove(name)
            && let Some(classes) = self.classes.get_mut(&resource)
        {
            classes.remove(&(age, name.clone()));
            if classes.is_empty() {
                self.classes.remove(&resource);
            }
        }
        let Some(class) = class else { return };
        let entry = class.extended_resource_name.clone().map(|resource| (resource, Reverse(class.created)));
        if let Some((resource, age)) = &entry {
            self.classes.entry(resource.clone()).or_default().insert((*age, name.clone()));
        }
        self.known.insert(name.clone(), entry);
    }

    /// Returns the name of the class that provides an extended resource.
    pub(super) fn class(&self, resource: &str) -> Option<&Str> {
        if let Some(classes) = self.classes.get(resource) {
            return classes.first().map(|(_, name)| name);
        }
        let name = resource.strip_prefix(CLASS_PREFIX)?;
        self.known.get_key_value(name).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(resource: Option<&str>, created: i64) -> DeviceClass {
        DeviceClass {
            created: Some(Timestamp::from_secs(created)),
            extended_resource_name: resource.map(Str::from),
            ..DeviceClass::default()
        }
    }

    #[test]
    fn of_several_classes_for_one_resource_the_newest_counts_and_then_the_first_by_name() {
        let mut resources = ExtendedResources::default();
        let mut set = |name: &str, class: Option<DeviceClass>, expected: Option<&str>| {
            resources.set(&name.into(), class.as_ref());
            assert_eq!(resources.class("a.com/gpu").map(|name| &**name), expected, "{name}");
        };
        set("b", Some(class(Some("a.com/gpu"), 5)), Some("b"));
        set("c", Some(class(Some("a.com/gpu"), 5)), Some("b"));
        set("a", Some(class(Some("a.com/gpu"), 4)), Some("b"));
        set("d", Some(class(Some("a.com/gpu"), 6)), Some("d"));
        set("d", Some(class(Some("a.com/other"), 6)), Some("b"));
        set("b", None, Some("c"));
        set("c", Some(class(None, 5)), Some("a"));
        set("a", None, None);
    }

    #[test]
    fn every_class_has_a_resource_of_its_own_name() {
        let mut resources = ExtendedResources::default();
        resources.set(&"gpu".into(), Some(&class(None, 1)));
        let class = |resources: &ExtendedResources, name: &str| resources.class(name).cloned();
        assert_eq!(class(&resources, "deviceclass.resource.kubernetes.io/gpu"), Some("gpu".into()));
        assert_eq!(class(&resources, "deviceclass.resource.kubernetes.io/cpu"), None);
        resources.set(&"gpu".into(), None);
        assert_eq!(class(&resources, "deviceclass.resource.kubernetes.io/gpu"), None);
    }
}
