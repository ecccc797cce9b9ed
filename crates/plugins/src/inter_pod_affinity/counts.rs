//! What Filter looks at: how many pods count for and against each topology domain, and how questions of the form "what
//! if" change that.

use std::sync::Arc;

use harbormaster_api::{Labels, Str};
use harbormaster_framework::prelude::*;

use super::{
    sums::{Axis, Sums, rows},
    terms::{self, Required},
};
use crate::pod_index::{PodIndex, PodTerm};

/// A set of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Pods that match all required affinity terms, in the domain of each term.
    Affinity,
    /// Pods that match a required anti-affinity term.
    Anti,
    /// Pods whose required anti-affinity selects the pod.
    AntiOfOthers,
}

/// The counts when PreFilter ran, and the changes since. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    base: Arc<Base>,
    changes: Vec<Change>,
}

/// The counts when PreFilter ran.
#[derive(Debug, Default)]
struct Base {
    required: Required,
    affinity: Sums,
    anti: Sums,
    anti_of_others: Sums,
    /// How many domains have pods that count for affinity.
    affinity_domains: usize,
    /// The pod matches its own required affinity terms.
    matches_itself: bool,
}

/// A domain whose count is another one now. Kept by text: a pod that joins may name a key that the index does not watch.
#[derive(Clone, Debug)]
struct Change {
    of: Of,
    key: Str,
    value: Str,
    before: i64,
    now: i64,
}

impl Counts {
    /// Counts for the pod of the cycle.
    ///
    /// # Errors
    /// When the index was not prepared for the pod.
    pub(super) fn new(cx: &Cycle<'_>, index: &PodIndex) -> PluginResult<Self> {
        let required = Required::of(cx.pod);
        let (mut affinity, mut anti, mut anti_of_others) =
            (Sums::default(), Sums::default(), Sums::default());
        if let Some(pods) = &required.affinity {
            let rows = rows(index, pods)?;
            required.affinity_keys.iter().try_for_each(|key| affinity.add(index, key, rows, 1))?;
        }
        for term in &required.anti {
            anti.add(index, &term.key, rows(index, &term.pods)?, 1)?;
        }
        for term in index.terms_about(cx.objects, cx.pod) {
            anti_of_others.add(index, term.key(), &term.anti, 1)?;
        }
        let base = Base {
            affinity_domains: affinity.domains(),
            matches_itself: required.wants(cx.objects, cx.pod),
            required,
            affinity,
            anti,
            anti_of_others,
        };
        Ok(Self { base: Arc::new(base), changes: Vec::new() })
    }

    /// Whether no pod keeps the pod away from anywhere.
    pub(super) fn nobody_objects(&self) -> bool {
        self.base.anti_of_others.is_empty()
    }

    /// Pod `other` joins (`by` 1) or leaves (`by` -1) a node.
    pub(super) fn change(
        &mut self,
        cx: &Cycle<'_>,
        other: &PodInfo,
        node: NodeRef<'_>,
        by: i64,
    ) -> PluginResult<()> {
        let Some(labels) = node.labels() else { return Ok(()) };
        let (base, at) = (self.base.clone(), At { index: cx.index()?, row: node.idx(), labels });
        for key in anti_affinity_to(cx, other) {
            self.change_one(Of::AntiOfOthers, key, &at, by)?;
        }
        if base.required.wants(cx.objects, other) {
            for key in &base.required.affinity_keys {
                self.change_one(Of::Affinity, key, &at, by)?;
            }
        }
        for term in &base.required.anti {
            if term.pods.all_of.iter().all(|t| t.matches_pod(cx.objects, other)) {
                self.change_one(Of::Anti, &term.key, &at, by)?;
            }
        }
        Ok(())
    }

    fn change_one(&mut self, of: Of, key: &Str, at: &At<'_>, by: i64) -> PluginResult<()> {
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

    fn sums(&self, of: Of) -> &Sums {
        match of {
            Of::Affinity => &self.base.affinity,
            Of::Anti => &self.base.anti,
            Of::AntiOfOthers => &self.base.anti_of_others,
        }
    }

    /// Whether the pod may be the first of its group: nobody matches its affinity anywhere, but the pod itself does.
    fn may_be_first(&self) -> bool {
        let mut domains = self.base.affinity_domains;
        for change in self.changes.iter().filter(|c| c.of == Of::Affinity) {
            domains = domains + usize::from(change.now != 0) - usize::from(change.before != 0);
        }
        domains == 0 && self.base.matches_itself
    }
}

/// The keys of the required anti-affinity terms of `other` that select the pod of the cycle.
fn anti_affinity_to<'a>(cx: &'a Cycle<'_>, other: &'a PodInfo) -> impl Iterator<Item = &'a Str> {
    let all = terms::required(&other.spec.pod_anti_affinity);
    let good = if terms::check_terms(all).is_ok() { all } else { &[] };
    let selects = |pods: PodTerm| pods.matches_pod(cx.objects, cx.pod);
    good.iter()
        .filter(move |term| PodTerm::new(term, &other.namespace, false).is_some_and(selects))
        .map(|term| &term.topology_key)
}

impl Required {
    /// Whether `other` matches all affinity terms, of which there must be some.
    fn wants(&self, objects: &Objects, other: &PodInfo) -> bool {
        let selector = self.affinity.as_ref();
        selector.is_some_and(|pods| pods.all_of.iter().all(|term| term.matches_pod(objects, other)))
    }
}

impl Change {
    fn is(&self, of: Of, key: &Str, value: &Str) -> bool {
        self.of == of && self.key == *key && self.value == *value
    }
}

/// The node that a change is about.
struct At<'a> {
    index: &'a PodIndex,
    row: NodeIdx,
    labels: &'a Labels,
}

/// The counts with the columns that rows are looked up in.
pub(super) struct Lookup<'a> {
    counts: &'a Counts,
    cx: &'a Cycle<'a>,
    affinity: Vec<Axis<'a>>,
    anti: Vec<Axis<'a>>,
    anti_of_others: Vec<Axis<'a>>,
    may_be_first: bool,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(cx: &'a Cycle<'a>, counts: &'a Counts) -> PluginResult<Self> {
        let (index, base) = (cx.index()?, &counts.base);
        let keys = base.required.affinity_keys.iter();
        Ok(Self {
            counts,
            cx,
            affinity: keys.map(|key| base.affinity.axis(index, key)).collect::<PluginResult<_>>()?,
            anti: base.anti.axes(index)?,
            anti_of_others: base.anti_of_others.axes(index)?,
            may_be_first: counts.may_be_first(),
        })
    }

    /// Whether a row can be rejected for this at all.
    pub(super) fn matters(&self, of: Of) -> bool {
        !self.axes(of).is_empty() || !self.counts.changes.is_empty()
    }

    /// Those of `rows` that must be rejected for this.
    pub(super) fn rejected_of(&self, of: Of, rows: &NodeSet) -> NodeSet {
        if of == Of::Affinity || !self.counts.changes.is_empty() {
            return rows.iter().filter(|row| self.rejects(of, *row)).collect();
        }
        let mut rejected = NodeSet::default();
        self.axes(of).iter().for_each(|axis| axis.add_rows_above_zero(rows, &mut rejected));
        rejected
    }

    /// Whether the row must be rejected for this.
    pub(super) fn rejects(&self, of: Of, row: NodeIdx) -> bool {
        match of {
            Of::Affinity => self.lacks_affinity(row),
            Of::Anti | Of::AntiOfOthers => self.has_some(of, row),
        }
    }

    fn lacks_affinity(&self, row: NodeIdx) -> bool {
        let mut alone = false;
        for axis in &self.affinity {
            match self.count(Of::Affinity, axis, row) {
                Some(pods) => alone |= pods <= 0,
                None => return true,
            }
        }
        alone && !self.may_be_first
    }

    fn has_some(&self, of: Of, row: NodeIdx) -> bool {
        let counted = |axis: &Axis<'_>| self.count(of, axis, row).is_some_and(|pods| pods > 0);
        self.axes(of).iter().any(counted) || (!self.counts.changes.is_empty() && self.has_new(of, row))
    }

    /// Changes in domains that had no count before, under keys that have no axis perhaps.
    #[cold]
    fn has_new(&self, of: Of, row: NodeIdx) -> bool {
        let mut changes = self.counts.changes.iter().filter(|c| c.of == of && c.now > 0);
        changes.any(|change| self.label(row, &change.key) == Some(&change.value))
    }

    fn count(&self, of: Of, axis: &Axis<'_>, row: NodeIdx) -> Option<i64> {
        let counted = axis.at(row)?;
        match self.counts.changes.is_empty() {
            true => Some(counted),
            false => Some(self.changed(of, axis, row).unwrap_or(counted)),
        }
    }

    #[cold]
    fn changed(&self, of: Of, axis: &Axis<'_>, row: NodeIdx) -> Option<i64> {
        let value = self.label(row, axis.key)?;
        let change = self.counts.changes.iter().find(|c| c.is(of, axis.key, value))?;
        Some(change.now)
    }

    fn label(&self, row: NodeIdx, key: &Str) -> Option<&'a Str> {
        self.cx.nodes.node(row).labels()?.get(key)
    }

    fn axes(&self, of: Of) -> &[Axis<'a>] {
        match of {
            Of::Affinity => &self.affinity,
            Of::Anti => &self.anti,
            Of::AntiOfOthers => &self.anti_of_others,
        }
    }
}
