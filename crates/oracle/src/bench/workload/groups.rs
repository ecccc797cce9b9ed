//! Groups of pods that are placed together.

use serde_json::{Value, json};

use super::{Creation, MEASURED};

/// Label of nodes in racks.
pub(super) const RACK: &str = "topology.kubernetes.io/rack";

/// Number of nodes of a rack, as in `scheduler_perf`.
pub(super) const NODES_PER_RACK: usize = 100;

/// Groups of measured pods. Consecutive pods are in one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups {
    /// Number of pods of each group.
    pub(super) members: usize,
    pub(super) policy: Policy,
    /// True if the members of a group must be in one rack.
    pub(super) in_one_rack: bool,
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
        let mut spec = json!({"schedulingPolicy": policy});
        if self.in_one_rack {
            spec["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
        }
        (0..pods.div_ceil(self.members)).map(move |index| {
            let collection = format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{MEASURED}/podgroups");
            (collection, json!({"metadata": {"name": name(index)}, "spec": spec}))
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
