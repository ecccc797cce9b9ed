//! Parts of the API that random clusters vary.

use serde_json::Value;

use super::{Profile, Random, World};
use super::{
    affinity, devices, features, gates, images, labels, lifecycle, namespaces, owners, pod_affinity, ports,
    resize, resources, selectors, spread, storage, taints,
};

/// A part of the API that clusters vary. Every method changes an object that other flavours may change too; the default
/// methods change nothing.
pub trait Flavour: Sync {
    /// Short name.
    fn name(&self) -> &'static str;

    /// Percentage of clusters with this flavour. Clusters that are mainly about devices or about relations between pods
    /// use other percentages.
    fn share(&self) -> usize {
        60
    }

    /// Returns true if kube-apiserver accepts objects with this flavour on creation.
    fn admitted(&self) -> bool {
        true
    }

    /// Returns true if the flavour varies relations between pods. In some clusters, almost all constraints are such
    /// relations.
    fn relates_pods(&self) -> bool {
        false
    }

    /// Returns true if the flavour varies devices. Some clusters vary little else, so that other plugins reject few
    /// nodes.
    fn is_about_devices(&self) -> bool {
        false
    }

    /// Generates objects that are neither nodes nor pods.
    fn objects(&self, _random: &mut Random, _world: &World) -> Vec<Value> {
        Vec::new()
    }

    /// Varies a node.
    fn node(&self, _random: &mut Random, _world: &World, _node: &mut Value) {}

    /// Varies a pod, bound or pending.
    fn pod(&self, _random: &mut Random, _world: &World, _pod: &mut Value) {}

    /// Varies a bound pod.
    fn bound(&self, _random: &mut Random, _world: &World, _pod: &mut Value) {}

    /// Varies a pending pod.
    fn pending(&self, _random: &mut Random, _world: &World, _pod: &mut Value) {}

    /// Varies a profile of the scheduler configuration.
    fn profile(&self, _random: &mut Random, _world: &World, _profile: &mut Profile) {}
}

/// All flavours. To cover a new plugin, add a line here.
#[must_use]
pub(super) fn all() -> &'static [&'static dyn Flavour] {
    &[
        &resources::Requests,
        &resources::PodLevel,
        &resources::ExtendedResources,
        &resources::ScoringStrategies,
        &resize::Resize,
        &labels::Topology,
        &labels::Cordon,
        &affinity::NodeSelector,
        &affinity::NodeAffinity,
        &affinity::AddedAffinity,
        &taints::Taints,
        &ports::Ports,
        &gates::Gates,
        &gates::Priorities,
        &images::Images,
        &features::Features,
        &lifecycle::Lifecycle,
        // Flavours that set properties of pods come before flavours that select pods by those properties.
        &selectors::PodLabels,
        &namespaces::Namespaces,
        &owners::Owners,
        &spread::Spread,
        &spread::SpreadDefaults,
        &pod_affinity::PodAffinity,
        &storage::Storage,
        &devices::Devices,
    ]
}
