//! Queueing hints for pods that hard constraints reject.

use harbormaster_api::{Labels, Pod};
use harbormaster_framework::prelude::*;

use super::{
    PodTopologySpread,
    constraints::{Constraint, Kind},
};

/// The hard constraints of a pending pod, to the extent that they are known without the cluster.
struct PendingConstraints {
    constraints: Vec<Constraint>,
    /// True for default constraints, whose selectors depend on services and owners.
    selectors_unknown: bool,
}

impl PendingConstraints {
    fn has_all_keys(&self, labels: &Labels) -> bool {
        self.constraints.iter().all(|c| labels.get(&c.key).is_some())
    }

    fn selects(&self, labels: &Labels) -> bool {
        self.constraints.iter().any(|c| self.selectors_unknown || c.matches(labels))
    }

    fn distinguishes(&self, old: &Labels, new: &Labels) -> bool {
        let differ = |c: &Constraint| self.selectors_unknown || c.matches(old) != c.matches(new);
        old != new && self.constraints.iter().any(differ)
    }
}

impl PodTopologySpread {
    pub(super) fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old, new } = *change else { return Ok(Hint::Queue) };
        if [old, new].into_iter().flatten().any(|other| !is_involved(other, pod)) {
            return Ok(Hint::Skip);
        }
        let pending = self.pending(pod)?;
        let helps = match (old, new) {
            (Some(old), Some(new)) => pending.distinguishes(&old.labels, &new.labels),
            (Some(one), None) | (None, Some(one)) => pending.selects(&one.labels),
            (None, None) => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    /// Hint for changes to the labels and tolerations of the pod itself.
    pub(super) fn after_own_update(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new: Some(new) } = *change else { return Ok(Hint::Queue) };
        let pending = self.pending(pod)?;
        let retolerates = old.spec.tolerations != new.spec.tolerations;
        let helps = retolerates && pending.constraints.iter().any(|c| c.honors_taints)
            || pending.distinguishes(&old.labels, &new.labels);
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    pub(super) fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new } = *change else { return Ok(Hint::Queue) };
        let pending = self.pending(pod)?;
        let helps = match (old, new) {
            (Some(old), Some(new)) => {
                let (had, has) = (pending.has_all_keys(&old.labels), pending.has_all_keys(&new.labels));
                let moved = |c: &Constraint| old.labels.get(&c.key) != new.labels.get(&c.key);
                had != has || has && (pending.constraints.iter().any(moved) || old.taints != new.taints)
            }
            (Some(one), None) | (None, Some(one)) => pending.has_all_keys(&one.labels),
            (None, None) => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn pending(&self, pod: &PodInfo) -> PluginResult<PendingConstraints> {
        if pod.spec.topology_spread.is_empty() {
            return Ok(PendingConstraints {
                constraints: self.default_constraints(Kind::Hard),
                selectors_unknown: true,
            });
        }
        Ok(PendingConstraints {
            constraints: self.own_constraints(pod, Kind::Hard)?,
            selectors_unknown: false,
        })
    }
}

/// Returns true if `other` is `pod` itself, or is in the same namespace and bound or nominated.
fn is_involved(other: &Pod, pod: &PodInfo) -> bool {
    let has_node = other.node_name.is_some() || other.status.nominated_node_name.is_some();
    other.uid == pod.uid || has_node && other.namespace == pod.namespace
}
