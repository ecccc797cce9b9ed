//! Amounts of resources, exact to a billionth.

use harbormaster::api::{QosClass, Quantity, Str, pod::ResourceList, resources};

/// An amount in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i128);

impl Amount {
    pub(crate) const ZERO: Self = Self(0);

    /// Returns the amount of a request.
    pub(crate) fn requested(name: &str, amount: i64) -> Self {
        let unit = if name == resources::CPU { 1_000_000 } else { 1_000_000_000 };
        Self(i128::from(amount) * unit)
    }

    /// Returns whole units, rounded up.
    pub(crate) fn units(self) -> i128 {
        self.0.div_euclid(1_000_000_000) + i128::from(self.0.rem_euclid(1_000_000_000) > 0)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns what remains without `other`, at least zero.
    pub(crate) fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }
}

impl From<&Quantity> for Amount {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.nanos())
    }
}

/// Requested amounts by name.
pub(crate) type Requests = Vec<(Str, Amount)>;

/// Returns the amounts of a list.
pub(crate) fn amounts(list: &ResourceList) -> Requests {
    list.iter().map(|(name, amount)| (name.clone(), Amount::requested(name, *amount))).collect()
}

/// Returns true for the resources that the kubelet takes from NUMA nodes: cpu, memory and huge pages.
fn is_taken_from_numa_nodes(name: &str) -> bool {
    name == resources::CPU || name == resources::MEMORY || resources::is_hugepages(name)
}

/// Returns true if pods of the class share the resource, wherever it comes from: only Guaranteed pods own cpu and
/// memory.
pub(crate) fn is_shared(qos: QosClass, name: &str) -> bool {
    qos != QosClass::Guaranteed && is_taken_from_numa_nodes(name)
}

/// Returns true if the name does not belong to Kubernetes.
pub(crate) fn is_foreign(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// Returns true if the resource may belong to the node as a whole: storage, and devices without a NUMA node.
pub(crate) fn may_be_anywhere(name: &str) -> bool {
    name == resources::EPHEMERAL_STORAGE || name == "storage" || is_foreign(name)
}
