//! The parts that a random cluster mixes.

use serde_json::Value;

use super::{Profile, Random, World};
use super::{
    affinity, features, gates, images, labels, lifecycle, namespaces, owners, pod_affinity, ports, resize,
    resources, selectors, spread, storage, taints,
};

/// One part of the API that clusters vary in. Every method changes an object
/// that other flavours change too; a method that has nothing to say keeps its
/// default.
pub trait Flavour: Sync {
    /// A short name for people.
    fn name(&self) -> &'static str;

    /// The percentage of clusters that have this flavour.
    fn share(&self) -> usize {
        60
    }

    /// Whether kube-apiserver takes such objects through plain creation.
    fn admitted(&self) -> bool {
        true
    }

    /// Whether it is about what pods mean to each other. In some clusters little
    /// else keeps pods off nodes.
    fn relates_pods(&self) -> bool {
        false
    }

    /// Objects of the cluster that are neither nodes nor pods.
    fn objects(&self, _random: &mut Random, _world: &World) -> Vec<Value> {
        Vec::new()
    }

    /// Varies a node.
    fn node(&self, _random: &mut Random, _world: &World, _node: &mut Value) {}

    /// Varies a pod, bound or pending.
    fn pod(&self, _random: &mut Random, _world: &World, _pod: &mut Value) {}

    /// Varies a pod that has a node.
    fn bound(&self, _random: &mut Random, _world: &World, _pod: &mut Value) {}

    /// Varies a pod that waits for a node.
    fn pending(&self, _random: &mut Random, _world: &World, _pod: &mut Value) {}

    /// Varies a profile of the scheduler configuration.
    fn profile(&self, _random: &mut Random, _world: &World, _profile: &mut Profile) {}
}

/// Every flavour. A new plugin adds its line here.
#[must_use]
pub(super) fn all() -> &'static [&'static dyn Flavour] {
    &[
        &resources::Requests,
        &resources::PodLevel,
        &resources::Extended,
        &resources::Strategies,
        &resize::Resize,
        &labels::Topology,
        &labels::Cordon,
        &affinity::Selector,
        &affinity::Affinity,
        &affinity::Added,
        &taints::Taints,
        &ports::Ports,
        &gates::Gates,
        &gates::Priorities,
        &images::Images,
        &features::Features,
        &lifecycle::Lifecycle,
        // What a pod is comes before what looks for such pods.
        &selectors::PodLabels,
        &namespaces::Namespaces,
        &owners::Owners,
        &spread::Spread,
        &spread::Defaults,
        &pod_affinity::PodAffinity,
        &storage::Storage,
    ]
}
