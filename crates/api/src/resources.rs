//! Amounts of resources as integers.

use serde::{Deserialize, Serialize};

use crate::{Str, labels::is_qualified_name};

/// cpu, in thousandths of a core.
pub const CPU: &str = "cpu";
/// memory, in bytes.
pub const MEMORY: &str = "memory";
/// Scratch space on the node's disk, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Number of pods that a node can run.
pub const PODS: &str = "pods";

const NATIVE: &str = "kubernetes.io/";
const HUGEPAGES: &str = "hugepages-";
const ATTACHABLE_VOLUMES: &str = "attachable-volumes-";
const QUOTA_PREFIX: &str = "requests.";

/// Returns true if the scheduler counts the resource as a scalar: an extended resource, hugepages, a name in
/// Kubernetes' own domain or an attachable-volumes limit. Apart from these names and cpu, memory, ephemeral-storage and
/// pods, no resource is counted.
pub fn is_scalar(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
        || name.starts_with(ATTACHABLE_VOLUMES)
        || name.contains(NATIVE)
        || is_extended(name)
}

/// Returns true if the resource is an extended resource: its domain is not Kubernetes' own, and its name is a qualified
/// name even with the prefix that resource quotas add.
pub fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains(NATIVE)
        && !name.starts_with(QUOTA_PREFIX)
        && is_qualified_name(&format!("{QUOTA_PREFIX}{name}"))
}

/// Returns true if the resource is memory in huge pages.
pub fn is_hugepages(name: &str) -> bool {
    name.starts_with(HUGEPAGES)
}

/// Returns true if the resource can be requested for the pod as a whole (KEP-2837): cpu, memory and hugepages.
pub fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || is_hugepages(name)
}

/// Amounts of resources: cpu in millicores, memory and ephemeral storage in bytes, everything else in units.
///
/// An absent resource and an amount of zero are the same here; [`crate::pod::ResourceList`] distinguishes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// cpu, in thousandths of a core.
    pub milli_cpu: i64,
    /// memory, in bytes.
    pub memory: i64,
    /// ephemeral-storage, in bytes.
    pub ephemeral_storage: i64,
    /// `pods`: number of pods that a node can run. Zero in requests.
    pub pods: i64,
    /// Extended resources, hugepages and other names accepted by [`is_scalar`], sorted by name.
    pub scalars: Vec<(Str, i64)>,
}

impl Resources {
    /// Returns the amount of scalar `name`, zero if absent.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.binary_search_by(|(n, _)| n.as_str().cmp(name)).map_or(0, |at| self.scalars[at].1)
    }

    /// Sets the amount of scalar `name`, keeping the list sorted.
    pub fn set_scalar(&mut self, name: &Str, amount: i64) {
        match self.scalars.binary_search_by(|(n, _)| n.cmp(name)) {
            Ok(at) => self.scalars[at].1 = amount,
            Err(at) => self.scalars.insert(at, (name.clone(), amount)),
        }
    }

    /// Sets the amount of the resource `name`. Names that are neither well known nor [scalars](is_scalar) are ignored.
    pub fn set_named(&mut self, name: &Str, amount: i64) {
        match name.as_str() {
            CPU => self.milli_cpu = amount,
            MEMORY => self.memory = amount,
            EPHEMERAL_STORAGE => self.ephemeral_storage = amount,
            PODS => self.pods = amount,
            other if is_scalar(other) => self.set_scalar(name, amount),
            _ => {}
        }
    }

    /// Returns the amount of the resource `name`, zero if absent.
    pub fn named(&self, name: &str) -> i64 {
        match name {
            CPU => self.milli_cpu,
            MEMORY => self.memory,
            EPHEMERAL_STORAGE => self.ephemeral_storage,
            PODS => self.pods,
            other => self.scalar(other),
        }
    }

    /// Subtracts `other` resource by resource. Amounts may become negative; scalars of zero stay in the list.
    pub fn sub(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_sub);
    }

    /// Adds `other` resource by resource.
    pub fn add(&mut self, other: &Resources) {
        self.combine(other, i64::saturating_add);
    }

    /// Takes the maximum resource by resource.
    pub fn max_with(&mut self, other: &Resources) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Resources, op: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = op(self.milli_cpu, other.milli_cpu);
        self.memory = op(self.memory, other.memory);
        self.ephemeral_storage = op(self.ephemeral_storage, other.ephemeral_storage);
        self.pods = op(self.pods, other.pods);
        for (name, amount) in &other.scalars {
            let mine = self.scalar(name);
            self.set_scalar(name, op(mine, *amount));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_extended_resources_hugepages_and_kubernetes_own_names() {
        for name in
            ["nvidia.com/gpu", "hugepages-2Mi", "attachable-volumes-csi-x", "kubernetes.io/batch", "a/b"]
        {
            assert!(is_scalar(name), "{name}");
        }
        let long = format!("{}.com/gpu", "a".repeat(245));
        for name in
            ["gpu", "requests.nvidia.com/gpu", "a/b/c", "Upper.com/x", "/x", long.as_str(), "cpu", "pods"]
        {
            assert!(!is_scalar(name), "{name}");
        }
    }

    #[test]
    fn amounts_are_stored_in_their_fields_and_unknown_names_are_ignored() {
        let mut amounts = Resources::default();
        for (name, amount) in
            [("cpu", 1), ("memory", 2), ("ephemeral-storage", 3), ("pods", 4), ("a/b", 5), ("x", 6)]
        {
            amounts.set_named(&Str::from(name), amount);
            assert_eq!(amounts.named(name), if name == "x" { 0 } else { amount }, "{name}");
        }
        assert_eq!(amounts.scalars, [(Str::from("a/b"), 5)]);
        let mut twice = amounts.clone();
        twice.add(&amounts);
        twice.sub(&amounts);
        assert_eq!(twice, amounts);
    }
}
