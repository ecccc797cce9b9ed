//! Filter's state: the number of pods per topology domain, and the changes to these counts in what-if questions.

use std::sync::Arc;

use harbormaster_api::{Labels, Str};
use harbormaster_framework::prelude::*;

use super::{
    sums::{Axis, Sums, rows},
    terms::{self, Required},
};
use crate::pod_index::{PodIndex, PodTerm};

/// Kind of term. Each kind has its own counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermKind {
    /// Pods that match all required affinity terms, in the domain of each term.
    Affinity,
    /// Pods that match a required anti-affinity term.
    Anti,
    /// Pods with required anti-affinity terms that select the pod.
    ExistingAnti,
}

/// The counts as of PreFilter, and later changes. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    base: Arc<InitialCounts>,
    changes: Vec<Change>,
}

/// The counts as of PreFilter.
#[derive(Debug, Default)]
struct InitialCounts {
    required: Required,
    affinity: Sums,
    anti: Sums,
    existing_anti: Sums,
    /// Number of domains with pods that match the required affinity.
    affinity_domains: usize,
    /// True if the pod matches its own required affinity terms.
    matches_itself: bool,
}

/// A domain whose count has changed. The domain is identified by its label, since an added pod may use a key that the
/// index does not watch.
#[derive(Clone, Debug)]
struct Change {
    of: TermKind,
    key: Str,
    value: Str,
    before: i64,
    now: i64,
}

impl Counts {
    /// Returns the counts for the pod of the cycle, which has these required terms.
    ///
    /// # Errors
    /// If the index was not prepared for the pod.
    pub(super) fn new(cx: &Cycle<'_>, index: &PodIndex, required: Required) -> PluginResult<Self> {
        let (mut affinity, mut anti, mut existing_anti) = (Sums::default(), Sums::default(), Sums::default());
        if let Some(pods) = &required.affinity {
            let rows = rows(index, pods)?;
            required.affinity_keys.iter().try_for_each(|key| affinity.add(index, key, rows, 1))?;
        }
        for term in &required.anti {
            anti.add(index, &term.key, rows(index, &term.pods)?, 1)?;
        }
        for term in index.terms_about(cx.objects, cx.pod) {
            existing_anti.add(index, term.key(), &term.anti, 1)?;
        }
        let base = InitialCounts {
            affinity_domains: affinity.domains(),
            matches_itself: required.matched_by(cx.objects, cx.pod),
            required,
            affinity,
            anti,
            existing_anti,
        };
        Ok(Self { base: Arc::new(base), changes: Vec::new() })
    }

    /// Returns true if no other pod's anti-affinity applied to the pod anywhere when PreFilter ran.
    pub(super) fn has_no_existing_anti(&self) -> bool {
        self.base.existing_anti.is_empty()
    }

    /// Adds (`by` is 1) or removes (`by` is -1) the pod `other`.
    pub(super) fn change(
        &mut self,
        cx: &Cycle<'_>,
        index: &PodIndex,
        other: &PodInfo,
        node: NodeRef<'_>,
        by: i64,
    ) -> PluginResult<()> {
        let Some(labels) = node.labels() else { return Ok(()) };
        let (base, at) = (self.base.clone(), ChangedNode { index, row: node.idx(), labels });
        for key in anti_affinity_to(cx, other) {
            self.change_one(TermKind::ExistingAnti, key, &at, by)?;
        }
        if base.required.matched_by(cx.objects, other) {
            for key in &base.required.affinity_keys {
                self.change_one(TermKind::Affinity, key, &at, by)?;
            }
        }
        for term in &base.required.anti {
            if term.pods.all_of.iter().all(|t| t.matches_pod(cx.objects, other)) {
                self.change_one(TermKind::Anti, &term.key, &at, by)?;
            }
        }
        Ok(())
    }

    fn change_one(&mut self, of: TermKind, key: &Str, at: &ChangedNode<'_>, by: i64) -> PluginResult<()> {
        let Some(value) = at.labels.get(key) else { return Ok(()) };
        if let Some(known) = self.changes.iter_mut().find(|c| c.is(of, key, value)) {
            known.now += by;
            return Ok(());
        }
        let before = match at.index.key(key) {
            Some(_) => self.sums(of).axis(at.index, key)?.at(at.row).unwrap_or(0),
            None => 0,
        };
        self.changes.push(Change { of, key: key.clone(), value: value.clone(), before, now: before + by });
        Ok(())
    }

    fn sums(&self, of: TermKind) -> &Sums {
        match of {
            TermKind::Affinity => &self.base.affinity,
            TermKind::Anti => &self.base.anti,
            TermKind::ExistingAnti => &self.base.existing_anti,
        }
    }

    /// Returns true if the pod may be the first of its group: no pod anywhere matches its affinity, but the pod
    /// matches its own terms.
    fn may_be_first(&self) -> bool {
        let mut domains = self.base.affinity_domains;
        for change in self.changes.iter().filter(|c| c.of == TermKind::Affinity) {
            domains = domains + usize::from(change.now != 0) - usize::from(change.before != 0);
        }
        domains == 0 && self.base.matches_itself
    }
}

/// Returns the keys of the required anti-affinity terms of `other` that select the pod of the cycle.
fn anti_affinity_to<'a>(cx: &'a Cycle<'_>, other: &'a PodInfo) -> impl Iterator<Item = &'a Str> {
    let all = terms::required(&other.spec.pod_anti_affinity);
    let good = if terms::check_terms(all).is_ok() { all } else { &[] };
    let selects = |pods: PodTerm| pods.matches_pod(cx.objects, cx.pod);
    good.iter()
        .filter(move |term| PodTerm::new(term, &other.namespace).is_some_and(selects))
        .map(|term| &term.topology_key)
}

impl Required {
    /// Returns true if there are affinity terms and `other` matches all of them.
    fn matched_by(&self, objects: &Objects, other: &PodInfo) -> bool {
        let selector = self.affinity.as_ref();
        selector.is_some_and(|pods| pods.all_of.iter().all(|term| term.matches_pod(objects, other)))
    }
}

impl Change {
    fn is(&self, of: TermKind, key: &Str, value: &Str) -> bool {
        self.of == of && self.key == *key && self.value == *value
    }
}

/// The node where a pod is added or removed.
struct ChangedNode<'a> {
    index: &'a PodIndex,
    row: NodeIdx,
    labels: &'a Labels,
}

/// The counts, prepared for lookup by row.
pub(super) struct Lookup<'a> {
    counts: &'a Counts,
    cx: &'a Cycle<'a>,
    affinity: Vec<Axis<'a>>,
    anti: Vec<Axis<'a>>,
    existing_anti: Vec<Axis<'a>>,
    may_be_first: bool,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(cx: &'a Cycle<'a>, index: &'a PodIndex, counts: &'a Counts) -> PluginResult<Self> {
        let base = &counts.base;
        let keys = base.required.affinity_keys.iter();
        Ok(Self {
            counts,
            cx,
            affinity: keys.map(|key| base.affinity.axis(index, key)).collect::<PluginResult<_>>()?,
            anti: base.anti.axes(index)?,
            existing_anti: base.existing_anti.axes(index)?,
            may_be_first: counts.may_be_first(),
        })
    }

    /// Returns true if terms of this kind may reject a row.
    pub(super) fn can_reject(&self, of: TermKind) -> bool {
        !self.axes(of).is_empty() || !self.counts.changes.is_empty()
    }

    /// Returns the rows that terms of this kind reject.
    pub(super) fn rejected_rows(&self, of: TermKind, rows: &NodeSet) -> NodeSet {
        if of == TermKind::Affinity || !self.counts.changes.is_empty() {
            return rows.iter().filter(|row| self.rejects(of, *row)).collect();
        }
        let mut rejected = NodeSet::default();
        self.axes(of).iter().for_each(|axis| axis.add_rows_above_zero(rows, &mut rejected));
        rejected
    }

    /// Returns true if terms of this kind reject the row.
    pub(super) fn rejects(&self, of: TermKind, row: NodeIdx) -> bool {
        match of {
            TermKind::Affinity => self.lacks_affinity(row),
            TermKind::Anti | TermKind::ExistingAnti => self.is_in_counted_domain(of, row),
        }
    }

    fn lacks_affinity(&self, row: NodeIdx) -> bool {
        let mut alone = false;
        for axis in &self.affinity {
            match self.count(TermKind::Affinity, axis, row) {
                Some(pods) => alone |= pods <= 0,
                None => return true,
            }
        }
        alone && !self.may_be_first
    }

    fn is_in_counted_domain(&self, of: TermKind, row: NodeIdx) -> bool {
        let counted = |axis: &Axis<'_>| self.count(of, axis, row).is_some_and(|pods| pods > 0);
        self.axes(of).iter().any(counted)
            || (!self.counts.changes.is_empty() && self.is_in_new_domain(of, row))
    }

    /// Returns true if the row is in a domain whose count has changed and is positive, perhaps under a key that has no
    /// [`Axis`].
    #[cold]
    fn is_in_new_domain(&self, of: TermKind, row: NodeIdx) -> bool {
        let mut changes = self.counts.changes.iter().filter(|c| c.of == of && c.now > 0);
        changes.any(|change| self.label(row, &change.key) == Some(&change.value))
    }

    fn count(&self, of: TermKind, axis: &Axis<'_>, row: NodeIdx) -> Option<i64> {
        let counted = axis.at(row)?;
        match self.counts.changes.is_empty() {
            true => Some(counted),
            false => Some(self.changed(of, axis, row).unwrap_or(counted)),
        }
    }

    #[cold]
    fn changed(&self, of: TermKind, axis: &Axis<'_>, row: NodeIdx) -> Option<i64> {
        let value = self.label(row, axis.key)?;
        let change = self.counts.changes.iter().find(|c| c.is(of, axis.key, value))?;
        Some(change.now)
    }

    fn label(&self, row: NodeIdx, key: &Str) -> Option<&'a Str> {
        self.cx.nodes.node(row).labels()?.get(key)
    }

    fn axes(&self, of: TermKind) -> &[Axis<'a>] {
        match of {
            TermKind::Affinity => &self.affinity,
            TermKind::Anti => &self.anti,
            TermKind::ExistingAnti => &self.existing_anti,
        }
    }
}
