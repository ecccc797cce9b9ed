//! PreFilter and Filter: hard constraints.

use std::{borrow::Cow, sync::Arc};

use harbormaster_framework::prelude::*;

use super::{
    PodTopologySpread, columns,
    constraints::{Constraint, Kind},
    inclusion::Inclusion,
    not_prepared,
};
use crate::pod_index::{PodIndex, TopologyKey, ValueId};

const REASON_SKEW: &str = "node(s) didn't match pod topology spread constraints";
const REASON_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// Count that marks a value that is not a domain. Actual counts are never negative.
const NO_DOMAIN: i64 = -1;
/// Smallest count if there are no domains, as in kube-scheduler.
const NO_FEWEST: i64 = i32::MAX as i64;

/// The counts as of PreFilter, and the changes caused by pods added or removed since.
#[derive(Clone, Debug, Default)]
pub struct SpreadState {
    base: Arc<InitialCounts>,
    /// Changes in a what-if question, all on one node and all nonzero.
    changes: Vec<CountChange>,
}

#[derive(Debug, Default)]
struct InitialCounts {
    domains: Vec<ConstraintDomains>,
    inclusion: Inclusion,
}

/// A constraint with its domains.
#[derive(Debug)]
struct ConstraintDomains {
    constraint: Constraint,
    /// Number of matching pods by value; zero if the value is not a domain.
    counts: Vec<i64>,
    /// Number of domains.
    number: usize,
    /// The two domains with the fewest pods, smallest first. A what-if question changes at most one domain, so the
    /// minimum over the other domains is always one of these two.
    fewest: [Option<(ValueId, i64)>; 2],
    /// 1 if the constraint matches the pod itself, else 0.
    own: i64,
}

/// A changed count.
#[derive(Clone, Copy, Debug)]
struct CountChange {
    /// Index of the constraint.
    at: usize,
    value: ValueId,
    by: i64,
}

impl ConstraintDomains {
    fn count(
        cx: &Cycle<'_>,
        index: &PodIndex,
        constraint: &Constraint,
        key: &TopologyKey,
        rows: &NodeSet,
    ) -> PluginResult<Self> {
        let mut counts = vec![NO_DOMAIN; key.values()];
        for value in rows.iter().filter_map(|row| key.value(row)) {
            counts[value.at()] = 0;
        }
        if let Some(pods) = constraint.counted(&cx.pod.namespace) {
            let found = index.pods(&pods).ok_or_else(|| not_prepared(&constraint.key))?;
            for (row, pods) in found.iter().filter(|(row, _)| rows.contains(*row)) {
                if let Some(value) = key.value(row) {
                    counts[value.at()] += pods;
                }
            }
        }
        let (mut number, mut fewest) = (0, [None, None]);
        for (at, count) in counts.iter_mut().enumerate() {
            if *count == NO_DOMAIN {
                *count = 0;
                continue;
            }
            number += 1;
            insert(&mut fewest, (ValueId(at as u32), *count));
        }
        let own = i64::from(constraint.matches(&cx.pod.labels));
        Ok(Self { constraint: constraint.clone(), counts, number, fewest, own })
    }

    fn of(&self, value: ValueId) -> i64 {
        self.counts.get(value.at()).copied().unwrap_or(0)
    }
}

/// Keeps the two smallest counts, smallest first.
fn insert(fewest: &mut [Option<(ValueId, i64)>; 2], new: (ValueId, i64)) {
    let below = |old: Option<(ValueId, i64)>| old.is_none_or(|(_, count)| new.1 < count);
    if below(fewest[0]) {
        *fewest = [Some(new), fewest[0]];
    } else if below(fewest[1]) {
        fewest[1] = Some(new);
    }
}

impl SpreadState {
    fn changes_of(&self, at: usize) -> impl Iterator<Item = &CountChange> {
        self.changes.iter().filter(move |change| change.at == at)
    }

    fn change(&mut self, at: usize, value: ValueId, by: i64) {
        match self.changes.iter().position(|m| m.at == at && m.value == value) {
            None => self.changes.push(CountChange { at, value, by }),
            Some(known) => {
                self.changes[known].by += by;
                if self.changes[known].by == 0 {
                    self.changes.swap_remove(known);
                }
            }
        }
    }

    /// Returns the number of matching pods in the domain of a value, for the constraint at this index.
    fn count(&self, domains: &ConstraintDomains, at: usize, value: ValueId) -> i64 {
        let change = self.changes_of(at).find(|change| change.value == value);
        domains.of(value) + change.map_or(0, |change| change.by)
    }

    fn counts<'a>(&self, domains: &'a ConstraintDomains, at: usize) -> Cow<'a, [i64]> {
        let mut counts = Cow::Borrowed(domains.counts.as_slice());
        for change in self.changes_of(at) {
            if let Some(count) = counts.to_mut().get_mut(change.value.at()) {
                *count += change.by;
            }
        }
        counts
    }

    /// Returns the maximum number of pods that a domain may have for the pod to fit there.
    fn limit(&self, domains: &ConstraintDomains, at: usize) -> i64 {
        let constraint = &domains.constraint;
        i64::from(constraint.max_skew) + self.fewest(domains, at) - domains.own
    }

    fn fewest(&self, domains: &ConstraintDomains, at: usize) -> i64 {
        if (domains.number as i64) < i64::from(domains.constraint.min_domains) {
            return 0;
        }
        let stayed = |value: ValueId| self.changes_of(at).all(|change| change.value != value);
        let others = domains.fewest.iter().flatten().find(|(value, _)| stayed(*value));
        let changed = self.changes_of(at).map(|change| domains.of(change.value) + change.by);
        changed.chain(others.map(|(_, count)| *count)).min().unwrap_or(NO_FEWEST)
    }
}

impl PreFilter<WholeCluster, SpreadState> for PodTopologySpread {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<SpreadState>, Stop> {
        let constraints = self.constraints(cx.pod, Kind::Hard, cx.objects);
        let constraints = constraints.map_err(|e| format!("get constraints from pod: {e}"))?;
        if constraints.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        let index = self.index(cx)?;
        let keys = columns(index, &constraints)?;
        let mut keyed = cx.nodes.live().clone();
        for row in cx.nodes.live() {
            if keys.iter().any(|key| key.value(row).is_none()) {
                keyed.remove(row);
            }
        }
        let inclusion = Inclusion::new(cx.pod, self.compare_numbers);
        let excluded = inclusion.exclude(cx, &constraints, &keyed);
        let count = |(constraint, key): (&Constraint, &TopologyKey)| {
            let mut rows = Cow::Borrowed(&keyed);
            excluded.of(constraint).for_each(|out| rows.to_mut().subtract(out));
            ConstraintDomains::count(cx, index, constraint, key, &rows)
        };
        let domains = constraints.iter().zip(keys).map(count).collect::<PluginResult<_>>()?;
        let base = Arc::new(InitialCounts { domains, inclusion });
        Ok(PreFiltered::state(SpreadState { base, changes: Vec::new() }))
    }

    fn add_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut SpreadState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        move_pod(cx, self.index(cx)?, state, pod, node, 1)
    }

    fn remove_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut SpreadState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        move_pod(cx, self.index(cx)?, state, pod, node, -1)
    }
}

/// Counts a pod that is added to or removed from a node, even if it is terminating.
fn move_pod(
    cx: &Cycle<'_>,
    index: &PodIndex,
    state: &mut SpreadState,
    pod: &PodInfo,
    node: NodeRef<'_>,
    by: i64,
) -> PluginResult<()> {
    let base = state.base.clone();
    if pod.namespace != cx.pod.namespace || node.object().is_none() {
        return Ok(());
    }
    let keys = columns(index, base.domains.iter().map(|d| &d.constraint))?;
    let Some(values) = keys.iter().map(|key| key.value(node.idx())).collect::<Option<Vec<_>>>() else {
        return Ok(());
    };
    for (at, (domains, value)) in base.domains.iter().zip(values).enumerate() {
        let constraint = &domains.constraint;
        if constraint.matches(&pod.labels) && base.inclusion.admits(constraint, cx.pod, node) {
            state.change(at, value, by);
        }
    }
    Ok(())
}

impl Filter<WholeCluster, SpreadState> for PodTopologySpread {
    fn filter(&self, cx: &Cycle<'_>, state: &SpreadState, node: NodeRef<'_>) -> Verdict {
        let base = &state.base;
        let index: &PodIndex = self.index(cx)?;
        for (at, domains) in base.domains.iter().enumerate() {
            let key = &domains.constraint.key;
            let Some(value) = index.key(key).ok_or_else(|| not_prepared(key))?.value(node.idx()) else {
                return Err(Reject::unresolvable(REASON_LABEL).into());
            };
            if state.count(domains, at, value) > state.limit(domains, at) {
                return Err(Reject::evictable(REASON_SKEW).into());
            }
        }
        Ok(())
    }

    fn filter_batch(&self, cx: &Cycle<'_>, state: &SpreadState, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let base = &state.base;
        let keys = columns(self.index(cx)?, base.domains.iter().map(|d| &d.constraint))?;
        let judge = |(at, (domains, key))| (key, state.counts(domains, at), state.limit(domains, at));
        let judges: Vec<(&TopologyKey, Cow<'_, [i64]>, i64)> =
            base.domains.iter().zip(keys).enumerate().map(judge).collect();
        let (mut unlabelled, mut skewed) = (Vec::new(), Vec::new());
        'rows: for row in sweep.rows() {
            for (key, counts, limit) in &judges {
                let Some(value) = key.value(row) else {
                    unlabelled.push(row);
                    continue 'rows;
                };
                if counts.get(value.at()).copied().unwrap_or(0) > *limit {
                    skewed.push(row);
                    continue 'rows;
                }
            }
        }
        sweep.reject_each(unlabelled.into_iter(), &Reject::unresolvable(REASON_LABEL));
        sweep.reject_each(skewed.into_iter(), &Reject::evictable(REASON_SKEW));
        Ok(())
    }
}
