//! The events of pods and nodes for which the plugins register.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_framework::{events::ErasedRegistration, profile::registrations};

use super::*;

/// The registrations of each plugin, separated by commas. `?` marks those with a hint.
const REGISTRATIONS: [(&str, &str); 15] = [
    ("SchedulingGates", "TargetPodUpdatePodSchedulingGatesEliminated"),
    ("NodeName", "NodeAdd"),
    ("NodeUnschedulable", "NodeAdd|UpdateNodeTaint?, TargetPodUpdatePodToleration?"),
    ("TaintToleration", "NodeAdd|UpdateNodeTaint?, TargetPodUpdatePodToleration"),
    ("NodeAffinity", "NodeAdd|UpdateNodeLabel?"),
    ("NodePorts", "AssignedPodDelete?, NodeAdd"),
    (
        "NodeResourcesFit",
        "AssignedPodDelete|UpdatePodScaleDown?, TargetPodUpdatePodScaleDown, NodeAdd|UpdateNodeAllocatable?",
    ),
    ("VolumeRestrictions", "AssignedPodDelete?, NodeAdd"),
    ("NodeVolumeLimits", "AssignedPodDelete?"),
    ("VolumeBinding", "NodeAdd|UpdateNodeLabel, AssignedPodDelete?"),
    ("VolumeZone", "NodeAdd|UpdateNodeLabel"),
    (
        "PodTopologySpread",
        "AssignedPodAdd|Delete|UpdatePodLabel?, TargetPodUpdatePodLabel|UpdatePodToleration?, \
         NodeAdd|Delete|UpdateNodeLabel|UpdateNodeTaint?",
    ),
    (
        "InterPodAffinity",
        "AssignedPodAdd|Delete|UpdatePodLabel?, TargetPodUpdatePodLabel, NodeAdd|UpdateNodeLabel?",
    ),
    (
        "DynamicResources",
        "NodeAdd|UpdateNodeAllocatable|UpdateNodeLabel, TargetPodUpdatePodGeneratedResourceClaim?, \
         AssignedPodDelete?",
    ),
    ("NodeDeclaredFeatures", "NodeAdd|UpdateNodeDeclaredFeature?, TargetPodUpdate?"),
];

fn described(registration: &ErasedRegistration) -> Option<String> {
    use EventResource::{AssignedPod, Node, Pod, TargetPod};
    let counts = matches!(registration.event.resource, AssignedPod | Node | Pod | TargetPod);
    let hinted = if registration.hint.is_some() { "?" } else { "" };
    counts.then(|| format!("{}{hinted}", registration.event))
}

#[test]
fn registrations_differ_between_releases_only_in_taints_and_tolerations() {
    for (name, expected) in REGISTRATIONS {
        for release in Release::ALL {
            let features = Features::of(*release).with(Feature::NodeDeclaredFeatures, true);
            let features = features.with(Feature::DRADeviceTaintRules, false);
            let shape = (name == "VolumeBinding" && features.enabled(Feature::StorageCapacityScoring))
                .then(|| json!({"shape": [{"utilization": 0, "score": 10}]}));
            let plugin = registry().build(name, shape.as_ref(), &BuildCycle { features }).unwrap();
            let all = registrations(&plugin, true, *release).unwrap();
            let said: Vec<String> = all.iter().filter_map(described).collect();
            let hears_nodes = expected.contains("NodeAdd") && !expected.contains("UpdateNodeTaint");
            let added = if *release == Release::V1_36 && hears_nodes { ", NodeUpdateNodeTaint" } else { "" };
            let mut expected = format!("{expected}{added}");
            if *release == Release::V1_36 && name == "PodTopologySpread" {
                expected = expected.replacen("UpdatePodLabel?", "UpdatePodLabel|UpdatePodToleration?", 1);
            }
            assert_eq!(said.join(", "), expected, "{name} {release}");
        }
    }
}
