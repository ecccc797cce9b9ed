//! Terminating and finished pods, and pods on nodes that do not exist.

use serde_json::Value;

use super::flavour::Flavour;
use super::{Random, World};

/// Terminating, finished and orphaned pods.
pub(super) struct Lifecycle;

impl Flavour for Lifecycle {
    fn name(&self) -> &'static str {
        "lifecycle"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn share(&self) -> usize {
        50
    }

    // Only a kubelet puts pods into these states.
    fn admitted(&self) -> bool {
        false
    }

    fn bound(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        match random.below(10) {
            0 => {
                pod["metadata"]["deletionTimestamp"] = "2025-06-01T00:00:00Z".into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
            }
            1 => pod["status"]["phase"] = (*random.pick(&["Succeeded", "Failed"])).into(),
            2 => pod["spec"]["nodeName"] = "gone".into(),
            _ => pod["status"]["phase"] = (*random.pick(&["Pending", "Running"])).into(),
        }
    }
}
