//! Which changes may help a pod that hard constraints keep from being bound.

use harbormaster_api::{Labels, Pod};
use harbormaster_framework::prelude::*;

use super::{
    PodTopologySpread,
    constraints::{Constraint, Kind},
};

/// The hard constraints of a pending pod, as far as they are known without the cluster.
struct Waiting {
    constraints: Vec<Constraint>,
    /// Default constraints: whom they select depends on services and owners.
    selectors_unknown: bool,
}

impl Waiting {
    fn has_all_keys(&self, labels: &Labels) -> bool {
        self.constraints.iter().all(|c| labels.get(&c.key).is_some())
    }

    fn selects(&self, labels: &Labels) -> bool {
        self.constraints.iter().any(|c| self.selectors_unknown || c.matches(labels))
    }

    fn tells_apart(&self, old: &Labels, new: &Labels) -> bool {
        self.constraints.iter().any(|c| self.selectors_unknown || c.matches(old) != c.matches(new))
    }
}

impl PodTopologySpread {
    pub(super) fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old, new } = *change else { return Ok(Hint::Queue) };
        if [old, new].into_iter().flatten().any(|other| !is_involved(other, pod)) {
            return Ok(Hint::Skip);
        }
        let waiting = self.waiting(pod)?;
        let helps = match (old, new) {
            (Some(old), Some(new)) => {
                let tolerates_others = new.uid == pod.uid && old.spec.tolerations != new.spec.tolerations;
                tolerates_others && waiting.constraints.iter().any(|c| c.honors_taints)
                    || old.labels != new.labels && waiting.tells_apart(&old.labels, &new.labels)
            }
            (Some(one), None) | (None, Some(one)) => waiting.selects(&one.labels),
            (None, None) => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    pub(super) fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new } = *change else { return Ok(Hint::Queue) };
        let waiting = self.waiting(pod)?;
        let helps = match (old, new) {
            (Some(old), Some(new)) => {
                let (had, has) = (waiting.has_all_keys(&old.labels), waiting.has_all_keys(&new.labels));
                let moved = |c: &Constraint| old.labels.get(&c.key) != new.labels.get(&c.key);
                had != has || has && (waiting.constraints.iter().any(moved) || old.taints != new.taints)
            }
            (Some(one), None) | (None, Some(one)) => waiting.has_all_keys(&one.labels),
            (None, None) => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn waiting(&self, pod: &PodInfo) -> PluginResult<Waiting> {
        if pod.spec.topology_spread.is_empty() {
            return Ok(Waiting {
                constraints: self.default_constraints(Kind::Hard),
                selectors_unknown: true,
            });
        }
        Ok(Waiting { constraints: self.own_constraints(pod, Kind::Hard)?, selectors_unknown: false })
    }
}

/// Whether the other pod counts for this one: it is this one, or one of its namespace that has a node or expects one.
fn is_involved(other: &Pod, pod: &PodInfo) -> bool {
    let has_node = other.node_name.is_some() || other.status.nominated_node_name.is_some();
    other.uid == pod.uid || has_node && other.namespace == pod.namespace
}
