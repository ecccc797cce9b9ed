//! Choice of the victims on one node, or for one node.

use std::{collections::BTreeSet, iter, sync::Arc};

use harbormaster_framework::prelude::*;

use super::{
    EvictionTerms, Rules, budgets, importance,
    unit::{Unit, Wholes, units_on},
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

impl Victims {
    pub(super) fn of(units: Vec<Unit>) -> Self {
        Self {
            violations: units.iter().map(|unit| unit.violations).sum(),
            pods: units.into_iter().flat_map(|unit| unit.pods).map(|(_, pod)| pod).collect(),
        }
    }

    /// The plan that evicts these pods for a pod on the row.
    pub(super) fn on(self, row: NodeIdx) -> EvictionPlan {
        EvictionPlan { row, victims: self.pods, violations: self.violations }
    }
}

impl Preemptible {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Collects the units with pods on the node that may be evicted, and tells the terms that they have left. Returns
    /// false if there are none.
    pub(super) fn gather(
        &mut self,
        row: NodeIdx,
        what_if: &dyn WhatIf,
        terms: &mut impl EvictionTerms,
    ) -> bool {
        terms.restart();
        self.units = units_on(iter::once(row), terms, what_if, &mut self.wholes);
        importance::sort(&mut self.units, self.rules.reverses_unstarted);
        self.units.iter_mut().enumerate().for_each(|(rank, unit)| unit.rank = rank);
        // Otherwise all of them leave, and the order does not matter.
        if terms.keeps_some() {
            budgets::violating_first(&mut self.units, what_if.objects(), self.rules);
        }
        // From the least important on, because the terms may spare the others once these are gone.
        self.units.reverse();
        self.units = leave_in_turn(std::mem::take(&mut self.units), terms, |_| false);
        self.units.sort_by_key(|unit| unit.rank);
        self.violating = budgets::violating_first(&mut self.units, what_if.objects(), self.rules);
        !self.units.is_empty()
    }

    /// Removes all preemptible pods and adds back each unit that still leaves room for the pod. The terms already know
    /// that the pods have left.
    pub(super) fn find_victims(
        &self,
        mut node: DryRun<'_>,
        terms: &mut impl EvictionTerms,
    ) -> PluginResult<Evictions> {
        for unit in &self.units {
            unit.leave(&mut node)?;
        }
        if let Some(reject) = node.rejection()?.or_else(|| terms.rejection()) {
            return Ok(Evictions::DoNotHelp(reject));
        }
        let evicted = needed(&self.units, &mut node, terms)?;
        Ok(Evictions::Help(Victims::of(self.in_order(evicted, self.units.len(), self.violating))))
    }

    /// Puts the victims in order, which were chosen among some units, of which the first `violating` violate budgets.
    fn in_order(&self, mut victims: Vec<Unit>, units: usize, violating: usize) -> Vec<Unit> {
        // If the evictions of all units or of none violate a budget, the victims are already in order, and sorting them
        // again might change the order of equal ones.
        if (1..units).contains(&violating) {
            importance::sort(&mut victims, self.rules.reverses_unstarted);
        }
        victims
    }

    /// Returns the units to evict from the node so that the pod fits there, whether or not the terms then reject it.
    /// `None` if it does not fit there.
    pub(super) fn make_room(
        &mut self,
        row: NodeIdx,
        what_if: &mut dyn WhatIf,
        terms: &mut impl EvictionTerms,
    ) -> PluginResult<Option<Vec<Unit>>> {
        let mut node = what_if.dry_run(row);
        if node.rejection()?.is_none() {
            return Ok(Some(Vec::new()));
        }
        drop(node);
        if !self.gather(row, what_if, terms) {
            return Ok(None);
        }
        let mut node = what_if.dry_run(row);
        for unit in &self.units {
            unit.leave(&mut node)?;
        }
        if node.rejection()?.is_some() {
            return Ok(None);
        }
        needed(&self.units, &mut node, &mut Ignored).map(Some)
    }

    /// Adds units of any nodes to those that make room, the least important first, until the terms accept the pod.
    /// Returns those of them that are needed, or `None` if the terms still reject the pod.
    pub(super) fn find_everywhere(
        &mut self,
        row: NodeIdx,
        room: Vec<Unit>,
        what_if: &mut dyn WhatIf,
        terms: &mut impl EvictionTerms,
    ) -> PluginResult<Option<Victims>> {
        terms.restart();
        let mut others = units_on(what_if.nodes().live().iter(), terms, what_if, &mut self.wholes);
        importance::sort(&mut others, self.rules.reverses_unstarted);
        budgets::violating_first(&mut others, what_if.objects(), self.rules);
        let mut known: BTreeSet<_> = room.iter().filter_map(Unit::first).collect();
        let mut units = leave_in_turn(room, terms, |_| false);
        let others = others.into_iter().rev().filter(|unit| known.insert(unit.first().unwrap_or_default()));
        units.extend(leave_in_turn(others.collect(), terms, |terms| terms.rejection().is_none()));
        importance::sort(&mut units, self.rules.reverses_unstarted);
        let violating = budgets::violating_first(&mut units, what_if.objects(), self.rules);
        let mut node = what_if.dry_run(row);
        for unit in &units {
            unit.leave(&mut node)?;
        }
        if terms.rejection().is_some() || node.rejection()?.is_some() {
            return Ok(None);
        }
        let evicted = needed(&units, &mut node, terms)?;
        Ok(Some(Victims::of(self.in_order(evicted, units.len(), violating))))
    }
}

/// Terms that reject no pod.
struct Ignored;

impl EvictionTerms for Ignored {
    fn ceiling(&self) -> i32 {
        i32::MAX
    }
}

/// Returns the units without whose eviction the pod does not fit the node, or is rejected by the terms. All of them have
/// left. Each returns if it can, in the order given. If the terms keep some units, one that could not return is asked
/// again after others have returned, because the terms may then no longer object.
fn needed(units: &[Unit], node: &mut DryRun<'_>, terms: &mut impl EvictionTerms) -> PluginResult<Vec<Unit>> {
    let mut evicted: Vec<&Unit> = units.iter().collect();
    loop {
        let asked = std::mem::take(&mut evicted);
        let number = asked.len();
        for unit in asked {
            unit.return_to(node)?;
            unit.pods.iter().for_each(|(_, pod)| terms.pod_returned(pod));
            if terms.rejection().is_some() || node.rejection()?.is_some() {
                unit.leave(node)?;
                unit.pods.iter().for_each(|(_, pod)| terms.pod_left(pod));
                evicted.push(unit);
            }
        }
        if !terms.keeps_some() || evicted.len() == number {
            return Ok(evicted.into_iter().cloned().collect());
        }
    }
}

/// Lets units leave in the given order, until there are enough or the terms keep all others. Units that have to stay are
/// asked again after others have left. Returns those that have left, in the given order.
pub(super) fn leave_in_turn<T: EvictionTerms>(
    units: Vec<Unit>,
    terms: &mut T,
    is_enough: impl Fn(&T) -> bool,
) -> Vec<Unit> {
    let mut has_left = vec![false; units.len()];
    loop {
        let mut is_changed = false;
        for (unit, has_left) in units.iter().zip(&mut has_left).filter(|(_, has_left)| !**has_left) {
            if is_enough(terms) {
                break;
            }
            *has_left = unit.leaves(terms);
            is_changed |= *has_left;
        }
        if !is_changed || is_enough(terms) {
            break;
        }
    }
    units.into_iter().zip(has_left).filter(|(_, has_left)| *has_left).map(|(unit, _)| unit).collect()
}

impl Unit {
    /// Tells the terms that the unit has left, unless they keep it. Returns true if it has left.
    fn leaves(&self, terms: &mut impl EvictionTerms) -> bool {
        let pods: Vec<&PodInfo> = self.pods.iter().map(|(_, pod)| &**pod).collect();
        let may_go = !terms.keeps(&pods);
        if may_go {
            self.pods.iter().for_each(|(_, pod)| terms.pod_left(pod));
        }
        may_go
    }

    /// UID of the unit's first pod.
    fn first(&self) -> Option<harbormaster_api::Str> {
        self.pods.first().map(|(_, pod)| pod.uid.clone())
    }

    fn leave(&self, node: &mut DryRun<'_>) -> PluginResult<()> {
        self.pods.iter().try_for_each(|(row, pod)| node.remove_pod_on(*row, pod))
    }

    fn return_to(&self, node: &mut DryRun<'_>) -> PluginResult<()> {
        self.pods.iter().try_for_each(|(row, pod)| node.add_pod_on(*row, pod))
    }
}
