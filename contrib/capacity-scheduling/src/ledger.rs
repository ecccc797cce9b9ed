//! The ledger: an index of the quotas, and of what the pods of each of them use.
//!
//! All pods that have a node count, from the decision until they end or are deleted. Namespaces without a quota are in
//! the ledger, too, so that a quota counts the pods that were there before it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use harbormaster::{
    api::{Pod, Str, pod::PodCondition},
    framework::Contradiction,
    prelude::*,
};

use crate::{
    amounts::{Amounts, requested},
    elastic_quota::ElasticQuota,
    quota_group::QuotaGroup,
    tree::{Objects, QuotaIdx, Tree},
};

/// Quotas and usage.
#[derive(Debug, Default, PartialEq)]
pub struct Ledger {
    objects: Objects,
    tree: Arc<Tree>,
    /// Usage by namespace.
    usage: HashMap<Str, Usage>,
    /// Usage by quota.
    used: Vec<Amounts>,
    /// Namespaces with several ElasticQuotas.
    doubled: BTreeMap<Str, Contradiction>,
}

/// Usage of a namespace's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of pods.
    pub pods: usize,
    /// Total usage, including pods that are being evicted.
    pub used: Amounts,
    /// Usage of pods that a scheduler is evicting.
    pub leaving: Amounts,
    /// The other pods, by priority.
    pub staying: BTreeMap<i32, Tier>,
}

/// The pods of one priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    pods: usize,
    /// Usage of these pods.
    pub used: Amounts,
}

impl Usage {
    fn join(&mut self, pod: &PodInfo) {
        self.pods += 1;
        self.used.add(requested(pod));
        if is_leaving(pod) {
            self.leaving.add(requested(pod));
        } else {
            let tier = self.staying.entry(pod.priority()).or_default();
            tier.pods += 1;
            tier.used.add(requested(pod));
        }
    }

    fn leave(&mut self, pod: &PodInfo) {
        self.pods = self.pods.saturating_sub(1);
        self.used.subtract(requested(pod));
        if is_leaving(pod) {
            self.leaving.subtract(requested(pod));
        } else if let Some(tier) = self.staying.get_mut(&pod.priority()) {
            tier.pods = tier.pods.saturating_sub(1);
            tier.used.subtract(requested(pod));
            if tier.pods == 0 {
                self.staying.remove(&pod.priority());
            }
        }
    }
}

/// Returns true if a scheduler is evicting the pod.
pub fn is_leaving(pod: &Pod) -> bool {
    let by_scheduler =
        |condition: &PodCondition| condition.status == "True" && condition.reason == "PreemptionByScheduler";
    pod.is_terminating() && pod.condition("DisruptionTarget").is_some_and(by_scheduler)
}

impl Ledger {
    /// The quotas.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Returns what the pods of a namespace use; `None` if it has no pods on nodes.
    pub fn usage(&self, namespace: &str) -> Option<&Usage> {
        self.usage.get(namespace)
    }

    /// Returns the usage of a quota and of those below it.
    pub fn used(&self, quota: QuotaIdx) -> &Amounts {
        const NONE: &Amounts = &Amounts::NONE;
        self.used.get(quota).unwrap_or(NONE)
    }

    /// Usage by quota, apart from pods that are being evicted.
    pub fn lasting(&self) -> Vec<Amounts> {
        let mut lasting = self.used.clone();
        for (namespace, leaf) in self.tree.leaves() {
            if let Some(usage) = self.usage.get(namespace).filter(|usage| !usage.leaving.is_empty()) {
                self.tree.path(leaf).for_each(|at| lasting[at].subtract(usage.leaving.parts()));
            }
        }
        lasting
    }

    /// Returns true if the quota is used beyond what it guarantees.
    pub fn borrows(&self, quota: QuotaIdx) -> bool {
        self.tree.is_exceeded(quota, self.used(quota))
    }

    /// Adds a pod to the usage of its quotas, or subtracts it.
    fn count(&mut self, pod: &PodInfo, change: fn(&mut Amounts, &PodInfo)) {
        let Some(leaf) = self.tree.leaf(&pod.namespace) else { return };
        self.tree.path(leaf).for_each(|at| change(&mut self.used[at], pod));
    }

    /// Builds the tree anew after a change to an object.
    fn plant(&mut self) {
        self.tree = Arc::new(Tree::of(&self.objects));
        self.used = vec![Amounts::default(); self.tree.quotas().len()];
        for (namespace, leaf) in self.tree.leaves() {
            if let Some(usage) = self.usage.get(namespace) {
                self.tree.path(leaf).for_each(|at| self.used[at].add(usage.used.parts()));
            }
        }
    }

    fn quota_changed(&mut self, quotas: Watched<'_, ElasticQuota>, namespace: &Str) -> bool {
        let name = |quota: &Custom<ElasticQuota>| format!("{namespace}/{}", quota.metadata.name);
        let mut quotas = quotas.all_in(namespace);
        let first = quotas.next();
        let others: Vec<String> = quotas.map(name).collect();
        self.doubled.remove(namespace);
        let Some(first) = first else { return self.objects.quotas.remove(namespace).is_some() };
        if !others.is_empty() {
            let problem = "Only the first ElasticQuota of a namespace counts";
            let found = Contradiction { problem, subject: name(first), objects: others };
            self.doubled.insert(namespace.clone(), found);
        }
        let name = name(first);
        let known = self.objects.quotas.get(namespace);
        if known.is_some_and(|(known, quota)| *known == *name && **quota == first.object) {
            return false;
        }
        self.objects.quotas.insert(namespace.clone(), (name.into(), Arc::new(first.object.clone())));
        true
    }

    fn group_changed(&mut self, groups: Watched<'_, QuotaGroup>, name: &Str) -> bool {
        let Some(group) = groups.get("", name) else { return self.objects.groups.remove(name).is_some() };
        if self.objects.groups.get(name).is_some_and(|known| **known == group.object) {
            return false;
        }
        self.objects.groups.insert(name.clone(), Arc::new(group.object.clone()));
        true
    }
}

impl Watches for Ledger {
    type Resources = (ElasticQuota, QuotaGroup);
}

impl Index for Ledger {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        self.count(pod, |used, pod| used.add(requested(pod)));
        match self.usage.get_mut(&pod.namespace) {
            Some(usage) => usage.join(pod),
            None => self.usage.entry(pod.namespace.clone()).or_default().join(pod),
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        self.count(pod, |used, pod| used.subtract(requested(pod)));
        if let Some(usage) = self.usage.get_mut(&pod.namespace) {
            usage.leave(pod);
            if usage.pods == 0 {
                self.usage.remove(&pod.namespace);
            }
        }
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        let counts = |pod: &PodInfo| (pod.namespace.clone(), pod.priority(), is_leaving(pod));
        if counts(old) != counts(new) || old.request() != new.request() {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        let (quotas, groups) = self.watched(view.objects);
        let has_changed = if key.is_of::<ElasticQuota>() {
            self.quota_changed(quotas, &key.namespace)
        } else {
            key.is_of::<QuotaGroup>() && self.group_changed(groups, &key.name)
        };
        if has_changed {
            self.plant();
        }
    }

    fn contradictions(&self) -> Vec<&Contradiction> {
        self.doubled.values().chain(self.tree.problems()).collect()
    }
}
