//! The plugins of [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins), each a crate of its own,
//! in one program. `README.md` lists them.

use harbormaster::Registry;

/// Adds all plugins to a registry.
pub fn register(registry: &mut Registry) {
    registry
        .register::<capacity_scheduling::CapacityScheduling>()
        .register::<coscheduling::Coscheduling>()
        .register::<network_overhead::NetworkOverhead>()
        .register::<node_metadata::NodeMetadata>()
        .register::<node_resource_topology_match::NodeResourceTopologyMatch>()
        .register::<node_resources_allocatable::NodeResourcesAllocatable>()
        .register::<pod_state::PodState>()
        .register::<preemption_toleration::PreemptionToleration>()
        .register::<qos_sort::QOSSort>()
        .register::<capacity_scheduling::QuotaSort>()
        .register::<sysched::SySched>()
        .register::<network_overhead::TopologicalSort>()
        .register::<trimaran::LoadVariationRiskBalancing>()
        .register::<trimaran::LowRiskOverCommitment>()
        .register::<trimaran::Peaks>()
        .register::<trimaran::TargetLoadPacking>();
}
