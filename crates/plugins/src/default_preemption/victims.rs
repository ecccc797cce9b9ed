//! Choice of the victims on one node.

use std::{iter, sync::Arc};

use harbormaster_framework::prelude::*;

use super::{
    Rules, Spares, budgets, importance,
    unit::{Unit, Wholes, units_below},
};

/// Units with pods on one node that may be preempted, in the order in which `find_victims` tries to spare them.
#[derive(Debug, Default)]
pub(super) struct Preemptible {
    units: Vec<Unit>,
    /// Number of leading units whose eviction violates a disruption budget.
    violating: usize,
    wholes: Wholes,
    rules: Rules,
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
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Collects the units with pods on the node and a priority below `priority`.
    /// Omits units with a pod that `spares` is true for. Returns false if there are none left.
    pub(super) fn gather(
        &mut self,
        row: NodeIdx,
        priority: i32,
        what_if: &dyn WhatIf,
        spares: Spares<'_>,
    ) -> bool {
        self.units = units_below(priority, iter::once(row), what_if, &mut self.wholes);
        self.units.retain(|unit| !unit.pods.iter().any(|(_, pod)| spares(pod)));
        importance::sort(&mut self.units, self.rules.reverses_unstarted);
        self.violating = budgets::violating_first(&mut self.units, what_if.objects(), self.rules);
        !self.units.is_empty()
    }

    /// Removes all preemptible pods and adds back each unit that still leaves room for the pod.
    pub(super) fn find_victims(&self, mut node: DryRun<'_>) -> PluginResult<Evictions> {
        for unit in &self.units {
            unit.leave(&mut node)?;
        }
        if let Some(reject) = node.rejection()? {
            return Ok(Evictions::DoNotHelp(reject));
        }
        let mut evicted = Vec::new();
        for unit in &self.units {
            unit.return_to(&mut node)?;
            if node.rejection()?.is_some() {
                unit.leave(&mut node)?;
                evicted.push(unit.clone());
            }
        }
        // If the evictions of all units or of none violate a budget, the victims are already in order, and sorting them
        // again might change the order of equal ones.
        if (1..self.units.len()).contains(&self.violating) {
            importance::sort(&mut evicted, self.rules.reverses_unstarted);
        }
        Ok(Evictions::Help(Victims {
            violations: evicted.iter().map(|unit| unit.violations).sum(),
            pods: evicted.into_iter().flat_map(|unit| unit.pods).map(|(_, pod)| pod).collect(),
        }))
    }
}

impl Unit {
    fn leave(&self, node: &mut DryRun<'_>) -> PluginResult<()> {
        self.pods.iter().try_for_each(|(row, pod)| node.remove_pod_on(*row, pod))
    }

    fn return_to(&self, node: &mut DryRun<'_>) -> PluginResult<()> {
        self.pods.iter().try_for_each(|(row, pod)| node.add_pod_on(*row, pod))
    }
}
