//! Groups of pods that are placed together.

use serde_json::{Value, json};

use super::{Creation, MEASURED};

/// Groups of measured pods. Consecutive pods are in one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups {
    /// Number of pods of each group.
    pub(super) members: usize,
    pub(super) policy: Policy,
}

/// Scheduling policy of a group.
#[derive(Debug, Clone, Copy)]
pub(super) enum Policy {
    /// As many members are placed as fit.
    Basic,
    /// All members are placed, or none.
    Gang,
}

impl Groups {
    /// Returns the groups of `pods` measured pods.
    pub(super) fn of(self, pods: usize) -> impl Iterator<Item = Creation> {
        let policy = match self.policy {
            Policy::Basic => json!({"basic": {}}),
            Policy::Gang => json!({"gang": {"minCount": self.members}}),
        };
        (0..pods.div_ceil(self.members)).map(move |index| {
            let collection = format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{MEASURED}/podgroups");
            (collection, json!({"metadata": {"name": name(index)}, "spec": {"schedulingPolicy": policy}}))
        })
    }

    /// Makes the measured pod with this index a member of its group.
    pub(super) fn join(self, index: usize, pod: &mut Value) {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": name(index / self.members)});
    }
}

fn name(index: usize) -> String {
    format!("group-{index}")
}
