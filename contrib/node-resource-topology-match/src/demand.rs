//! The resources that pods request of NUMA nodes.

use harbormaster::{
    api::{PodSpec, QosClass, pod::Container, requests, resources},
    prelude::PodInfo,
};

use crate::{
    amount::{Amount, Requests, amounts, is_foreign},
    topology::NodeResourceTopology,
};

/// Request of a pod as a whole.
pub(crate) fn of_pod(spec: &PodSpec) -> Requests {
    amounts(&requests::spec_request_list(spec))
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().chain(&spec.containers)
}

/// Returns true if NUMA nodes do not matter for the pod: it owns no cpu or memory and requests no devices.
pub(crate) fn is_indifferent(spec: &PodSpec, qos: QosClass) -> bool {
    let requests_device = |container: &Container| container.requests.iter().any(|(name, _)| is_foreign(name));
    qos == QosClass::BestEffort && !containers(spec).any(requests_device)
}

/// Returns true if the pod owns resources of a NUMA node: whole cpus and memory of a Guaranteed pod, or devices that
/// the topology lists.
pub(crate) fn has_exclusive(pod: &PodInfo, topology: &NodeResourceTopology) -> bool {
    exclusive(pod, topology).next().is_some()
}

/// Containers of a pod that own resources of a NUMA node while the pod runs, each with these resources.
pub(crate) fn exclusive<'a>(
    pod: &'a PodInfo,
    topology: &'a NodeResourceTopology,
) -> impl Iterator<Item = (&'a Container, Requests)> {
    let qos = pod.derived.qos;
    let is_exclusive = move |name: &str, amount: i64| match name {
        resources::CPU => qos == QosClass::Guaranteed && amount > 0 && amount % 1000 == 0,
        _ if name == resources::MEMORY || resources::is_hugepages(name) => {
            qos == QosClass::Guaranteed && amount > 0
        }
        _ => is_foreign(name) && topology.numa_nodes.iter().any(|one| one.available.contains_key(name)),
    };
    let lasting = pod.spec.init_containers.iter().filter(|container| container.restart_always);
    lasting.chain(&pod.spec.containers).filter_map(move |container| {
        let requests = container.requests.iter().filter(|(name, amount)| is_exclusive(name, *amount));
        let own: Requests =
            requests.map(|(name, amount)| (name.clone(), Amount::requested(name, *amount))).collect();
        (!own.is_empty()).then_some((container, own))
    })
}
