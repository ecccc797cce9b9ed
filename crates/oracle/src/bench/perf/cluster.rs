//! The control plane and the configuration of the scheduler for a workload.

use harbormaster_api::Release;
use harbormaster_api::features::Feature;

use super::super::configuration;
use super::super::measurement::device_claim_controllers;
use super::plan::Plan;
use crate::components::ControlPlaneOptions;
use crate::scheduler::StartOptions;

/// Version of PodGroups that the API server serves if the workload turns on their feature gate.
pub(super) const GROUPS: &str = "scheduling.k8s.io/v1beta1";

/// Version of resource claims.
pub(super) const CLAIMS: &str = "resource.k8s.io/v1";

/// Further versions of claims, slices and classes that the API server serves if the workload turns on the feature gate
/// `DynamicResourceAllocation`.
pub(super) const DEVICES: [&str; 3] =
    ["resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"];

/// Returns the options of the control plane. As in `scheduler_perf`, pods may set their priority without a
/// PriorityClass. Of the controllers that `scheduler_perf` runs, only those for claims run.
pub(super) fn control_plane_options(plan: &Plan, release: Release) -> ControlPlaneOptions {
    let gates = plan.gates.flags();
    let has_claims = plan.gates.is_on(Feature::DynamicResourceAllocation);
    let mut versions = Vec::new();
    if has_claims {
        versions.extend(DEVICES);
    }
    if plan.gates.is_on(Feature::GenericWorkload) {
        versions.push(GROUPS);
    }
    let mut disabled = vec!["ServiceAccount", "TaintNodesByCondition", "Priority"];
    if release >= Release::V1_37 {
        // The plugin adds finalizers, and the controller that removes them does not run.
        disabled.push("PodGroupProtection");
    }
    let mut apiserver_flags = vec![format!("--disable-admission-plugins={}", disabled.join(","))];
    if !versions.is_empty() {
        let versions: Vec<_> = versions.iter().map(|version| format!("{version}=true")).collect();
        apiserver_flags.push(format!("--runtime-config={}", versions.join(",")));
    }
    let mut controller_manager_flags = device_claim_controllers();
    if !gates.is_empty() {
        let gates = format!("--feature-gates={}", gates.join(","));
        apiserver_flags.push(gates.clone());
        controller_manager_flags.push(gates);
    }
    ControlPlaneOptions {
        release,
        apiserver_flags,
        controller_manager: has_claims,
        controller_manager_flags,
        ..ControlPlaneOptions::default()
    }
}

/// Returns the options of the scheduler: the workload's configuration, with the client's rate limits of the other
/// workloads.
pub(super) fn start_options(plan: &Plan) -> StartOptions {
    let default = configuration(None);
    let mut config = plan.scheduler_config.clone().unwrap_or_else(|| default.clone());
    for field in ["qps", "burst"] {
        config["clientConnection"][field] = default["clientConnection"][field].clone();
    }
    StartOptions { config: config.to_string(), feature_gates: plan.gates.flags(), ..StartOptions::default() }
}
