//! The in-tree plugins: those of kube-scheduler under their own names, and [`Unbuilt`], which guards what is missing.
//!
//! Reading order: [`node_name`] (the smallest), [`node_unschedulable`] (events and a batch), [`node_affinity`]
//! (arguments and state), [`node_resources`] (the columns). Each module says what its plugin does, when it rejects, how
//! it scores, what requeues its pods, and where it differs from kube-scheduler.
//!
//! Then [`pod_index`] (what is kept of pods), [`pod_topology_spread`] and [`inter_pod_affinity`] (which decide from it) and
//! [`default_preemption`].
//!
//! For volumes: [`storage`] (the objects), [`volume_restrictions`], [`volume_zone`] and [`node_volume_limits`].
//!
//! Invariants: filters and scores that depend on the pod's spec and the node's row only implement `Filter<Row>` and `Score<Row>` and are kept
//! until the row changes; nothing counts pods one by one while a pod waits for its decision; integers truncate and floats round as in kube-scheduler, so scores agree exactly.

pub mod default_binder;
pub mod default_preemption;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod pod_index;
pub mod pod_topology_spread;
pub mod priority_sort;
mod rows;
mod rows_by_label;
pub mod scheduling_gates;
mod shape;
mod sign;
pub mod storage;
pub mod taint_toleration;
pub mod unbuilt;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_users;
pub mod volume_zone;

use harbormaster_framework::registry::Registry;

pub use default_binder::DefaultBinder;
pub use default_preemption::DefaultPreemption;
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::InterPodAffinity;
pub use node_affinity::NodeAffinity;
pub use node_declared_features::NodeDeclaredFeatures;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_resources::{NodeResourcesBalancedAllocation, NodeResourcesFit};
pub use node_unschedulable::NodeUnschedulable;
pub use node_volume_limits::NodeVolumeLimits;
pub use pod_topology_spread::PodTopologySpread;
pub use priority_sort::PrioritySort;
pub use scheduling_gates::SchedulingGates;
pub use taint_toleration::TaintToleration;
pub use unbuilt::Unbuilt;
pub use volume_binding::VolumeBinding;
pub use volume_restrictions::VolumeRestrictions;
pub use volume_zone::VolumeZone;

/// Registers every plugin of this crate.
///
/// A registry has no order: which plugin runs when is the profile's business. The lines stand in the order of the
/// default profile, and the comments say why that order is a good one.
pub fn in_tree(registry: &mut Registry) {
    registry
        // Before the queue: gated pods never cost a cycle.
        .register::<SchedulingGates>()
        .register::<PrioritySort>()
        // First in PreFilter: what cannot be decided right must not be decided at all.
        .register::<Unbuilt>()
        // Filters by cost and by how lasting the reason is: cordons and names before taints before selectors.
        .register::<NodeUnschedulable>()
        .register::<NodeName>()
        .register::<TaintToleration>()
        .register::<NodeAffinity>()
        // Filters whose reasons go away when pods do come last, so that lasting reasons are told first.
        .register::<NodePorts>()
        .register::<NodeResourcesFit>()
        // Filters that look at volumes, which most pods have none of.
        .register::<VolumeRestrictions>()
        .register::<NodeVolumeLimits>()
        .register::<VolumeBinding>()
        .register::<VolumeZone>()
        .register::<PodTopologySpread>()
        .register::<InterPodAffinity>()
        // When no node fits.
        .register::<DefaultPreemption>()
        // Scores only; order does not matter.
        .register::<NodeResourcesBalancedAllocation>()
        .register::<ImageLocality>()
        .register::<DefaultBinder>()
        // Appended by its feature gate, hence behind the others.
        .register::<NodeDeclaredFeatures>();
}

#[cfg(test)]
mod tests;
