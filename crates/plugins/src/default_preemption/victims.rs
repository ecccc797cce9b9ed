//! The pods that would have to leave one node.

use std::sync::Arc;

use harbormaster_framework::prelude::*;

use super::{budgets, importance};

/// Pods of one node that may be preempted, in the order in which they are spared if possible.
#[derive(Debug, Default)]
pub(super) struct Preemptible {
    pods: Vec<Arc<PodInfo>>,
    /// So many of them, the first ones, cannot go without breaking a disruption budget.
    violating: usize,
}

/// The pods that must go, most important first.
#[derive(Debug)]
pub(super) struct Victims {
    pub(super) pods: Vec<Arc<PodInfo>>,
    /// How many of them break a disruption budget.
    pub(super) violations: usize,
}

impl Preemptible {
    /// Fills in the node's pods of a priority below `priority`.
    pub(super) fn gather(&mut self, node: NodeRef<'_>, priority: i32, objects: &Objects) {
        self.pods.clear();
        self.pods.extend(node.pods().iter().filter(|pod| pod.priority() < priority).cloned());
        importance::sort(&mut self.pods);
        self.violating = budgets::violating_first(&mut self.pods, objects);
    }

    /// Takes all of them off the node and puts back, one by one, who does not stand in the way. `Err`: the pod does
    /// not even fit without any of them.
    pub(super) fn spare(&self, node: &mut dyn DryRun) -> PluginResult<Result<Victims, Reject>> {
        for pod in &self.pods {
            node.remove_pod(pod)?;
        }
        if let Some(reject) = node.rejection()? {
            return Ok(Err(reject));
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
        // Who is in one group only is in order already, and of pods that are equal the order stays.
        if (1..self.pods.len()).contains(&self.violating) {
            importance::sort(&mut victims.pods);
        }
        Ok(Ok(victims))
    }
}
