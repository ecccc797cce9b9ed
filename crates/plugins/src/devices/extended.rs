//! Extended resources that stand for device classes (KEP-5004).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use harbormaster_api::{Str, Timestamp, resources::is_extended};
use harbormaster_framework::resource::{Custom, Watched};
use rustc_hash::FxBuildHasher;

use super::{DeviceClass, ResourceClaim};

/// Prefix of the extended resource that every class has; the name of the class follows.
pub const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Annotation of claims that the scheduler created for the extended resources of a pod; the value is `true`.
pub const CLAIM_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

/// Returns true if a device class may provide the resource.
pub fn may_be_provided(resource: &str) -> bool {
    is_extended(resource) || resource.starts_with(CLASS_PREFIX)
}

/// Returns true if some device class provides the resource.
pub fn is_provided(classes: Watched<'_, DeviceClass>, resource: &str) -> bool {
    resource.strip_prefix(CLASS_PREFIX).is_some_and(|class| classes.get("", class).is_some())
        || classes.with_key(resource).next().is_some()
}

/// Returns the UID of the pod for whose extended resources the scheduler created the claim; `None` for other claims.
pub fn pod_of(claim: &Custom<ResourceClaim>) -> Option<&Str> {
    let mark = claim.metadata.annotations.get(CLAIM_ANNOTATION);
    mark.filter(|mark| *mark == "true")?;
    claim.metadata.controller.as_ref().map(|owner| &owner.uid)
}

/// Claims that the scheduler created for extended resources, by the UID of their pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ExtendedClaims {
    by_pod: HashMap<Str, BTreeSet<ClaimId>, FxBuildHasher>,
    pods: HashMap<ClaimId, Str, FxBuildHasher>,
}

/// Namespace and name of a claim.
type ClaimId = (Str, Str);

impl ExtendedClaims {
    /// Adds, replaces or removes a claim.
    pub(super) fn set(&mut self, id: &ClaimId, claim: Option<&Custom<ResourceClaim>>) {
        let pod = claim.and_then(pod_of);
        if self.pods.get(id) == pod {
            return;
        }
        if let Some(old) = self.pods.remove(id)
            && let Some(claims) = self.by_pod.get_mut(&old)
        {
            claims.remove(id);
            if claims.is_empty() {
                self.by_pod.remove(&old);
            }
        }
        if let Some(pod) = pod {
            self.pods.insert(id.clone(), pod.clone());
            self.by_pod.entry(pod.clone()).or_default().insert(id.clone());
        }
    }

    /// Returns the first claim of the pod with this UID.
    pub(super) fn of(&self, pod: &str) -> Option<&ClaimId> {
        self.by_pod.get(pod)?.first()
    }
}

/// Device classes by the extended resources that they define.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ExtendedResources {
    /// Classes by resource, newest first, and equally old ones by name. The first one is used.
    classes: HashMap<Str, BTreeSet<Preference>, FxBuildHasher>,
    /// All classes by name, each with its extended resource, if any, and its age.
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
    fn the_newest_class_for_a_resource_is_used_and_names_break_ties() {
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
    fn every_class_provides_the_resource_that_is_named_after_it() {
        let mut resources = ExtendedResources::default();
        resources.set(&"gpu".into(), Some(&class(None, 1)));
        let class = |resources: &ExtendedResources, name: &str| resources.class(name).cloned();
        assert_eq!(class(&resources, "deviceclass.resource.kubernetes.io/gpu"), Some("gpu".into()));
        assert_eq!(class(&resources, "deviceclass.resource.kubernetes.io/cpu"), None);
        resources.set(&"gpu".into(), None);
        assert_eq!(class(&resources, "deviceclass.resource.kubernetes.io/gpu"), None);
    }
}
