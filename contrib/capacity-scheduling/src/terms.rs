//! Terms on which pods are evicted for a pod.
//!
//! A pod whose quota would be used beyond its guarantee may take what pods of this quota use that are less important. A
//! pod within the guarantee takes back what the quotas beside its own have borrowed, however important their pods are,
//! but never more than that: it takes pods that use what it requests and what their quota has borrowed. The same holds
//! on each level of the tree: for a group within its guarantee, a pod takes back what the quotas beside the group have
//! borrowed. Beyond the guarantee, it may still take from a quota beside it, if both have weights and the other one has
//! borrowed more for its weight even without the victim. A pod without a quota evicts only pods without a quota.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster::{api::Str, preemption::EvictionTerms, prelude::*};

use crate::{
    amounts::{Amounts, requested},
    claim::Claim,
    ledger::{Ledger, is_leaving},
    share::Share,
    tree::{QuotaIdx, Tree},
};

/// The terms for one pod.
#[derive(Clone, Debug)]
pub struct QuotaTerms {
    tree: Arc<Tree>,
    /// Usage of pods that are not being evicted, by quota.
    used: Vec<Amounts>,
    /// Usage of those that have not left.
    left: Vec<Amounts>,
    priority: i32,
    /// The pod's claim; `None` if its namespace has no quota.
    claimant: Option<Claimant>,
    /// True if the quotas do not admit the pod while all pods are there.
    is_refused: bool,
    /// True if pods of other quotas may be evicted.
    reaches_other_quotas: bool,
}

/// The pod for which others are evicted, or the members of a group.
#[derive(Clone, Debug)]
struct Claimant {
    request: Vec<(Str, i128)>,
    /// The pod's quota and those above it, up to the whole.
    levels: Vec<Level>,
    /// Usage of less important pods of the quota.
    less_important: Amounts,
    has_less_important: bool,
    /// Number of pods that have left, by the level on which they were taken and by the quota beside it.
    taken: BTreeMap<(usize, QuotaIdx), usize>,
}

/// A quota above the pod, or its own.
#[derive(Clone, Debug)]
struct Level {
    quota: QuotaIdx,
    promised: Amounts,
    right: Right,
}

/// The right of a quota to what the quotas beside it have borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// It takes back what it needs, as long as it is within its guarantee with the pod.
    Guaranteed,
    /// It takes from those that have borrowed more for their weights.
    Fair,
}

impl QuotaTerms {
    /// Returns the terms for a pod, or for members of a group, of this priority.
    pub fn new(ledger: &Ledger, claim: Option<Claim<'_>>, priority: i32) -> Self {
        let used = ledger.lasting();
        let claimant = claim.map(|claim| Claimant::new(claim, &used));
        let mut terms = Self {
            tree: ledger.tree().clone(),
            left: used.clone(),
            used,
            priority,
            claimant,
            is_refused: false,
            reaches_other_quotas: false,
        };
        terms.is_refused = !terms.admits();
        terms.reaches_other_quotas = terms.tree.leaves().any(|(_, leaf)| terms.lends(leaf));
        terms
    }

    /// Returns why no eviction can help the pod; `None` if one may.
    pub fn hopeless(&self) -> Option<String> {
        let claimant = self.claimant.as_ref()?;
        let own = claimant.own()?;
        let (quota, used) = (&self.tree.quotas()[own.quota], &self.used[own.quota]);
        let borrows = claimant.borrows();
        if !self.reaches_other_quotas {
            if !borrows {
                return Some("no other ElasticQuota is used beyond its min".to_owned());
            }
            if !claimant.has_less_important {
                return Some(format!("{quota} is used up by pods that are at least as important"));
            }
        }
        let gone = |resource: &str| if borrows { claimant.less_important.get(resource) } else { 0 };
        let exceeds = |(resource, asked): &(Str, i128)| {
            let least = used.get(resource) - gone(resource) + own.promised.get(resource) + asked;
            quota.max.listed(resource).is_some_and(|max| least > max)
        };
        let exceeded = claimant.request.iter().find(|part| exceeds(part))?;
        Some(format!("no evictions would leave enough {} of {quota}", exceeded.0))
    }

    /// Returns the lowest level on which the claimant is within the guarantee; `None` if it is on none.
    pub fn entitlement(&self) -> Option<usize> {
        let levels = &self.claimant.as_ref()?.levels;
        levels.iter().position(|level| level.right == Right::Guaranteed)
    }

    /// Returns true if the quotas admit the pod once those that are being evicted, or have left, are gone.
    pub fn admits(&self) -> bool {
        let Some(claimant) = &self.claimant else { return true };
        claimant.levels.iter().all(|level| {
            let max = &self.tree.quotas()[level.quota].max;
            claimant.request.iter().all(|(resource, asked)| {
                let sum = self.left[level.quota].get(resource) + level.promised.get(resource) + asked;
                max.listed(resource).is_none_or(|max| sum <= max)
            })
        })
    }

    /// Returns the level on which the claimant may take from a quota of namespaces, and the quota beside this level.
    fn meeting(&self, leaf: QuotaIdx) -> Option<(usize, QuotaIdx)> {
        let levels = &self.claimant.as_ref()?.levels;
        let mut beside = leaf;
        for at in self.tree.path(leaf) {
            if let Some(level) = levels.iter().position(|level| level.quota == at) {
                return Some((level.checked_sub(1)?, beside));
            }
            beside = at;
        }
        None
    }

    /// The resources that the claimant requests, and of which the quota and those above it, up to the one beside the
    /// claimant's, have borrowed.
    fn borrowed(&self, leaf: QuotaIdx) -> impl Iterator<Item = &str> {
        let end = self.meeting(leaf).map(|(_, beside)| self.tree.quotas()[beside].parent);
        let requests = self.claimant.iter().flat_map(Claimant::parts).map(|(resource, _)| resource);
        requests.filter(move |resource| {
            let Some(end) = end.filter(|_| self.tree.is_guaranteed(resource)) else { return false };
            let mut branch = self.tree.path(leaf).take_while(|at| Some(*at) != end);
            branch.all(|at| self.left[at].get(resource) > self.tree.quotas()[at].min.get(resource))
        })
    }

    /// Returns true if the quota has borrowed what the claimant may have a right to.
    fn lends(&self, leaf: QuotaIdx) -> bool {
        let Some((level, beside)) = self.meeting(leaf) else { return false };
        self.borrowed(leaf).next().is_some()
            && self.claimant.as_ref().is_some_and(|claimant| match claimant.levels[level].right {
                Right::Guaranteed => true,
                Right::Fair => self.are_weighted(level, beside) && self.share_at(level) < self.share(beside),
            })
    }

    fn are_weighted(&self, level: usize, beside: QuotaIdx) -> bool {
        let Some(level) = self.claimant.as_ref().and_then(|claimant| claimant.levels.get(level)) else {
            return false;
        };
        let weight = |at: QuotaIdx| self.tree.quotas()[at].weight;
        weight(level.quota).is_some() && weight(beside).is_some()
    }

    fn share(&self, quota: QuotaIdx) -> Share {
        Share::of(&self.tree, quota, &self.left[quota])
    }

    /// The share that the claimant's quota on a level would have with the pod.
    fn share_at(&self, level: usize) -> Share {
        let Some(claimant) = &self.claimant else { return Share::NONE };
        let level = &claimant.levels[level];
        let mut used = self.left[level.quota].clone();
        used.add(level.promised.parts());
        used.add(claimant.parts());
        Share::of(&self.tree, level.quota, &used)
    }

    /// Returns true if the quota on a level would use no more with the pod than it is guaranteed.
    fn is_within(&self, level: usize) -> bool {
        let Some(claimant) = &self.claimant else { return false };
        claimant.is_within(&claimant.levels[level], &self.tree, &self.left)
    }

    /// Returns true if the pods, which leave together, may leave now.
    fn may_go(&self, leaf: QuotaIdx, pods: &[&PodInfo]) -> bool {
        let (Some(claimant), Some((level, beside))) = (&self.claimant, self.meeting(leaf)) else {
            return false;
        };
        let uses = |pod: &&PodInfo, resource: &str| requested(pod).any(|(name, _)| name == resource);
        let gives_back = || self.borrowed(leaf).any(|resource| pods.iter().any(|pod| uses(pod, resource)));
        if !self.lends(leaf) || !gives_back() {
            return false;
        }
        match claimant.levels[level].right {
            Right::Guaranteed => self.is_within(level),
            Right::Fair => {
                let mut rest = self.left[beside].clone();
                pods.iter().filter(|pod| !is_leaving(pod)).for_each(|pod| rest.subtract(requested(pod)));
                let rest = Share::of(&self.tree, beside, &rest);
                rest < self.share(beside) && self.share_at(level) <= rest
            }
        }
    }

    /// Returns true if the claimant has a right to all that has been taken for it.
    fn is_justified(&self) -> bool {
        let Some(claimant) = &self.claimant else { return true };
        claimant.taken.keys().all(|(level, beside)| match claimant.levels[*level].right {
            Right::Guaranteed => self.is_within(*level),
            Right::Fair => self.share_at(*level) <= self.share(*beside),
        })
    }

    /// Enters that a pod has left (-1) or returned (1). A pod that is being evicted does not count as being there.
    fn enter(&mut self, pod: &PodInfo, sign: i128) {
        let Some(leaf) = self.tree.leaf(&pod.namespace).filter(|_| !is_leaving(pod)) else { return };
        let met = self.meeting(leaf);
        let Some(claimant) = &mut self.claimant else { return };
        for at in self.tree.path(leaf) {
            self.left[at].add(requested(pod).map(|(resource, amount)| (resource, sign * amount)));
        }
        let Some(met) = met else { return };
        let taken = claimant.taken.entry(met).or_default();
        *taken = if sign < 0 { *taken + 1 } else { taken.saturating_sub(1) };
        if *taken == 0 {
            claimant.taken.remove(&met);
        }
    }
}

impl Claimant {
    fn new(claim: Claim<'_>, used: &[Amounts]) -> Self {
        let Claim { ledger, asked, priority, path, .. } = claim;
        let tree = ledger.tree();
        let level = |(quota, promised)| Level { quota, promised, right: Right::Fair };
        let mut claimant = Self {
            request: asked.into_iter().map(|(resource, asked)| (resource.into(), asked)).collect(),
            levels: path.into_iter().map(level).collect(),
            less_important: Amounts::default(),
            has_less_important: false,
            taken: BTreeMap::new(),
        };
        let within: Vec<bool> =
            claimant.levels.iter().map(|level| claimant.is_within(level, tree, used)).collect();
        // Within the guarantee of a quota on its path, the pod may first have to take from the quotas beside it before
        // a group above is within its guarantee, too.
        let mut is_entitled = false;
        for (level, is_within) in claimant.levels.iter_mut().zip(within) {
            is_entitled |= is_within;
            level.right = if is_entitled { Right::Guaranteed } else { Right::Fair };
        }
        let own =
            claimant.own().map(|own| tree.quotas()[own.quota].namespaces.as_slice()).unwrap_or_default();
        for usage in own.iter().filter_map(|namespace| ledger.usage(namespace)) {
            for tier in usage.staying.range(..priority).map(|(_, tier)| tier) {
                claimant.less_important.add(tier.used.parts());
                claimant.has_less_important = true;
            }
        }
        claimant
    }

    fn own(&self) -> Option<&Level> {
        self.levels.first()
    }

    /// Returns true if the pod would use more of a resource than its own quota guarantees.
    fn borrows(&self) -> bool {
        self.own().is_some_and(|own| own.right == Right::Fair)
    }

    fn parts(&self) -> impl Iterator<Item = (&str, i128)> {
        self.request.iter().map(|(resource, asked)| (resource.as_str(), *asked))
    }

    fn is_within(&self, level: &Level, tree: &Tree, used: &[Amounts]) -> bool {
        let (used, min) = (&used[level.quota], &tree.quotas()[level.quota].min);
        self.parts().all(|(resource, asked)| {
            let sum = used.get(resource) + level.promised.get(resource) + asked;
            sum <= min.get(resource) || !tree.is_guaranteed(resource)
        })
    }
}

impl EvictionTerms for QuotaTerms {
    fn ceiling(&self) -> i32 {
        if self.reaches_other_quotas { i32::MAX } else { self.priority }
    }

    fn spares(&self, pod: &PodInfo) -> bool {
        let leaf = self.tree.leaf(&pod.namespace);
        let Some(claimant) = &self.claimant else { return leaf.is_some() };
        // It leaves anyway.
        if is_leaving(pod) {
            return false;
        }
        match leaf {
            None => true,
            Some(leaf) if claimant.own().is_some_and(|own| own.quota == leaf) => {
                !claimant.borrows() || pod.priority() >= self.priority
            }
            Some(leaf) => !self.lends(leaf),
        }
    }

    fn keeps(&self, pods: &[&PodInfo]) -> bool {
        pods.iter().any(|pod| {
            let leaf = self.tree.leaf(&pod.namespace);
            let is_met = leaf.filter(|leaf| !is_leaving(pod) && self.meeting(*leaf).is_some());
            self.spares(pod) || is_met.is_some_and(|leaf| !self.may_go(leaf, pods))
        })
    }

    fn keeps_some(&self) -> bool {
        self.claimant.is_some()
    }

    fn restart(&mut self) {
        self.left.clone_from(&self.used);
        if let Some(claimant) = &mut self.claimant {
            claimant.taken.clear();
        }
    }

    fn pod_left(&mut self, pod: &PodInfo) {
        self.enter(pod, -1);
    }

    fn pod_returned(&mut self, pod: &PodInfo) {
        self.enter(pod, 1);
    }

    fn rejection(&self) -> Option<Reject> {
        let is_rejected = !self.admits() || !self.is_justified();
        is_rejected.then(|| Reject::evictable("global quota max exceeded"))
    }

    fn reaches_other_nodes(&self) -> bool {
        self.is_refused
    }

    fn takes_whole_gangs(&self) -> bool {
        true
    }
}
