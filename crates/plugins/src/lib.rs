//! The in-tree plugins: kube-scheduler's plugins under the same names.
//!
//! Reading order: [`node_name`] (the smallest), [`node_unschedulable`] (events and batches), [`node_affinity`]
//! (arguments and state), [`node_resources`] (columns). Each plugin's module documents what the plugin does, when it
//! rejects a pod, how it scores nodes, what requeues rejected pods, and how it differs from kube-scheduler.
//!
//! Then [`pod_index`], which [`pod_topology_spread`] and [`inter_pod_affinity`] use, and [`default_preemption`].
//!
//! For volumes: [`storage`] (the objects), [`volume_restrictions`], [`volume_zone`], [`node_volume_limits`] and
//! [`volume_binding`]. For devices: [`devices`] (the objects and the allocator) and [`dynamic_resources`].
//!
//! Invariants:
//! - Filters and scores that depend only on the pod's spec and the node's row implement `Filter<Row>` and
//!   `Score<Row>`. Their answers are cached until the row changes.
//! - Counts of pods are kept in indexes that every change updates, and are not recomputed for each attempt.
//! - Integers are truncated and floats rounded as in kube-scheduler, so that scores are equal.

pub mod default_binder;
pub mod default_preemption;
pub mod devices;
pub mod dynamic_resources;
pub mod gang_scheduling;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_declared_features;
pub mod node_name;
pub mod node_ports;
pub mod node_resources;
pub mod node_unschedulable;
pub mod node_volume_limits;
mod placement;
pub mod pod_group_pods_count;
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
pub mod topology_placement_generator;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_users;
pub mod volume_zone;

use harbormaster_framework::registry::Registry;

pub use default_binder::DefaultBinder;
pub use default_preemption::DefaultPreemption;
pub use dynamic_resources::DynamicResources;
pub use gang_scheduling::GangScheduling;
pub use image_locality::ImageLocality;
pub use inter_pod_affinity::InterPodAffinity;
pub use node_affinity::NodeAffinity;
pub use node_declared_features::NodeDeclaredFeatures;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_resources::{NodeResourcesBalancedAllocation, NodeResourcesFit};
pub use node_unschedulable::NodeUnschedulable;
pub use node_volume_limits::NodeVolumeLimits;
pub use pod_group_pods_count::PodGroupPodsCount;
pub use pod_topology_spread::PodTopologySpread;
pub use priority_sort::PrioritySort;
pub use scheduling_gates::SchedulingGates;
pub use taint_toleration::TaintToleration;
pub use topology_placement_generator::TopologyPlacementGenerator;
pub use volume_binding::{Decision as VolumeDecision, VolumeBinding};
pub use volume_restrictions::VolumeRestrictions;
pub use volume_zone::VolumeZone;

/// Registers every plugin of this crate.
///
/// The order of registration has no effect; the profile decides when a plugin runs. The lines are in the order of the
/// default profile, and the comments explain that order.
pub fn in_tree(registry: &mut Registry) {
    registry
        // Before the queue, so that gated pods never cost an attempt.
        .register::<SchedulingGates>()
        .register::<PrioritySort>()
        // Filters, ordered by cost and by how permanent their reasons are: cordons and names, then taints, then
        // selectors.
        .register::<NodeUnschedulable>()
        .register::<NodeName>()
        .register::<TaintToleration>()
        .register::<NodeAffinity>()
        // Filters whose reasons may disappear when other pods leave. They run later, so that a node is reported under
        // its permanent reasons.
        .register::<NodePorts>()
        .register::<NodeResourcesFit>()
        // Volume filters, which most pods do not need.
        .register::<VolumeRestrictions>()
        .register::<NodeVolumeLimits>()
        .register::<VolumeBinding>()
        .register::<VolumeZone>()
        .register::<PodTopologySpread>()
        .register::<InterPodAffinity>()
        // PostFilter plugins, in this order so that unused devices are released before pods are evicted.
        .register::<DynamicResources>()
        .register::<DefaultPreemption>()
        // Plugins that only score or bind; their order does not matter.
        .register::<NodeResourcesBalancedAllocation>()
        .register::<ImageLocality>()
        .register::<DefaultBinder>()
        // Last, since their feature gates append them.
        .register::<NodeDeclaredFeatures>()
        .register::<GangScheduling>()
        .register::<TopologyPlacementGenerator>()
        .register::<PodGroupPodsCount>();
}

#[cfg(test)]
mod tests;
