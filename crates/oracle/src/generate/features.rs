//! Features that nodes declare (KEP-5328), and pods that need them.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::{Random, World};

/// Names of features that nodes may declare, and one unknown name.
const FEATURES: &[&str] = &[
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "example.com/unknown",
];

/// Declared features of nodes, and pods that need a feature.
pub(super) struct Features;

impl Flavour for Features {
    fn name(&self) -> &'static str {
        "declared features"
    }

    fn share(&self) -> usize {
        35
    }

    // An API server drops the fields of disabled feature gates.
    fn admitted(&self) -> bool {
        false
    }

    fn node(&self, random: &mut Random, _world: &World, node: &mut Value) {
        let count = random.below(FEATURES.len() + 1);
        if count > 0 {
            let mut features = random.sample(FEATURES, count);
            features.sort_unstable();
            node["status"]["declaredFeatures"] = json!(features);
        }
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if random.chance(15) {
            pod["spec"]["hostUsers"] = false.into();
            pod["spec"]["hostNetwork"] = true.into();
        }
        if random.chance(15) {
            let exit_codes = json!({"operator": "In", "values": [42]});
            let rule = json!({"action": "RestartAllContainers", "exitCodes": exit_codes});
            pod["spec"]["containers"][0]["restartPolicy"] = "Never".into();
            pod["spec"]["containers"][0]["restartPolicyRules"] = json!([rule]);
        }
    }
}
