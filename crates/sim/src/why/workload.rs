//! Workloads to which pods belong.

use harbormaster_api::Pod;
use harbormaster_world::workloads::TEMPLATE_HASH;

/// Returns the kind and name of the pod's workload, such as `Deployment shop/web`. A pod without a controller is a
/// workload of its own.
pub(super) fn workload_of(pod: &Pod) -> String {
    let Some(owner) = &pod.controller else { return format!("Pod {}", pod.full_name()) };
    let hash = pod.labels.get(TEMPLATE_HASH).filter(|_| owner.kind == "ReplicaSet");
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    match deployment {
        Some(name) => format!("Deployment {}/{name}", pod.namespace),
        None => format!("{} {}/{}", owner.kind, pod.namespace, owner.name),
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::pod;

    use super::*;

    #[test]
    fn the_pods_of_a_deployment_are_known_by_the_suffix_of_their_replica_set() {
        for (pod, expected) in [
            (pod("a"), "Pod default/a"),
            (pod("a").owned_by("StatefulSet", "db"), "StatefulSet default/db"),
            (pod("a").owned_by("ReplicaSet", "web-6d4f"), "ReplicaSet default/web-6d4f"),
            (
                pod("a").owned_by("ReplicaSet", "web-6d4f").label(TEMPLATE_HASH, "6d4f"),
                "Deployment default/web",
            ),
            (pod("a").owned_by("ReplicaSet", "web").label(TEMPLATE_HASH, "6d4f"), "ReplicaSet default/web"),
        ] {
            assert_eq!(workload_of(&pod.build()), expected);
        }
    }
}
