//! What real components need in order to handle groups of pods, which exist from Kubernetes 1.37 on.

/// Feature gate of schedulers for groups.
pub(crate) const GATE: &str = "GenericWorkload=true";

/// Feature gate of schedulers for topology constraints of groups.
pub(crate) const TOPOLOGY_GATE: &str = "TopologyAwareWorkloadScheduling=true";

/// Feature gate of schedulers for the preemption policies of groups.
pub(crate) const POLICY_GATE: &str = "PodGroupPreemptionPolicy=true";

/// Feature gate of schedulers for the resource claims of groups.
pub(crate) const CLAIMS_GATE: &str = "DRAWorkloadResourceClaims=true";

/// Flags with which an API server serves groups of pods with topology constraints, preemption policies and resource
/// claims. `PodGroupProtection` adds finalizers that a controller which does not run here would have to remove.
pub(crate) fn apiserver_flags() -> Vec<String> {
    let flags = [
        "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,PodGroupPreemptionPolicy=true,DRAWorkloadResourceClaims=true",
        "--runtime-config=scheduling.k8s.io/v1beta1=true",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodGroupProtection",
    ];
    flags.map(str::to_owned).to_vec()
}
