//! Choice of the victims on one node.

use std::sync::Arc;

use harbormaster_framework::prelude::*;

use super::{budgets, importance};

/// Pods of one node that may be preempted, in the order in which `find_victims` tries to spare them.
#[derive(Debug, Default)]
pub(super) struct Preemptible {
    pods: Vec<Arc<PodInfo>>,
    /// Number of leading pods whose eviction violates a disruption budget.
    violating: usize,
    stops_at_violation: bool,
}

/// Pods to evict, most important first.
#[derive(Debug)]
pub(super) struct Victims {
    pub(super) pods: Vec<Arc<PodInfo>>,
    /// Number of victims whose eviction violates a disruption budget.
    pub(super) violations: usize,
}

/// Result of evicting pods from one node.
#[derive(Debug)]
pub(super) enum Evictions {
    /// The pod fits once these victims are evicted.
    Help(Victims),
    /// The pod does not fit even if all preemptible pods are evicted.
    DoNotHelp(Reject),
}

impl Preemptible {
    /// See [`budgets::violating_first`] for `stops_at_violation`.
    pub(super) fn new(stops_at_violation: bool) -> Self {
        Self { stops_at_violation, ..Self::default() }
    }

    /// Collects the node's pods with a priority below `priority`.
    pub(super) fn gather(&mut self, node: NodeRef<'_>, priority: i32, objects: &Objects) {
        self.pods.clear();
        self.pods.extend(node.pods().iter().filter(|pod| pod.priority() < priority).cloned());
        importance::sort(&mut self.pods);
        self.violating = budgets::violating_first(&mut self.pods, objects, self.stops_at_violation);
    }

    /// Removes all preemptible pods and adds back each one that still leaves room for the pod.
    pub(super) fn find_victims(&self, mut node: DryRun<'_>) -> PluginResult<Evictions> {
        for pod in &self.pods {
            node.remove_pod(pod)?;
        }
        if let Some(reject) = node.rejection()? {
            return Ok(Evictions::DoNotHelp(reject));
        }
        let mut victims = Victims { pods: Vec::new(), violations: 0 };
        for (at, pod) in self.pods.iter().enumerate() {
            node.add_pod(pod)?;
            if node.rejection()?.is_some() {
                node.remove_pod(pod)?;
                victims.pods.push(pod.clone());
                victims.violations += usize::from(at < self.violating);
            }
        }
        // If the evictions of all pods or of none violate a budget, the victims are already in order, and sorting them
        // again would reverse equal pods.
        if (1..self.pods.len()).contains(&self.violating) {
            importance::sort(&mut victims.pods);
        }
        Ok(Evictions::Help(victims))
    }
}
