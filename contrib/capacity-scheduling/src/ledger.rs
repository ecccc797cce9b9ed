//! The ledger: an index of the quotas, and of what the pods of each namespace use.
//!
//! All pods that have a node count, from the decision until they end or are deleted. Namespaces without a quota are in
//! the ledger, too, so that a quota counts the pods that were there before it.

use std::collections::{BTreeMap, HashMap};

use harbormaster::{
    api::{Pod, Str, pod::PodCondition},
    framework::Contradiction,
    prelude::*,
};

use crate::{
    amounts::{Amounts, requested, text},
    elastic_quota::ElasticQuota,
};

/// Quotas and usage by namespace.
#[derive(Debug, Default, PartialEq)]
pub struct Ledger {
    quotas: BTreeMap<Str, Quota>,
    usage: HashMap<Str, Usage>,
    /// Sum of what the quotas guarantee, by resource, for resources that some quota guarantees.
    guaranteed: BTreeMap<Str, Guarantee>,
    /// Sum of what is used in namespaces with quotas.
    used: Amounts,
    contradictions: BTreeMap<Str, Vec<Contradiction>>,
}

/// The quota of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// `namespace/name` of the object.
    pub name: Str,
    /// Guaranteed and maximum amounts.
    pub spec: ElasticQuota,
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

/// Sum of the guarantees of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Guarantee {
    sum: i128,
    /// Number of quotas that guarantee the resource.
    quotas: usize,
}

impl Usage {
    /// Returns what is used apart from pods that are being evicted.
    pub fn lasting(&self) -> Amounts {
        let mut lasting = self.used.clone();
        lasting.subtract(self.leaving.parts());
        lasting
    }

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
    /// Returns the quota of a namespace.
    pub fn quota(&self, namespace: &str) -> Option<&Quota> {
        self.quotas.get(namespace)
    }

    /// The quotas by namespace.
    pub fn quotas(&self) -> impl Iterator<Item = (&Str, &Quota)> {
        self.quotas.iter()
    }

    /// Returns what the pods of a namespace use; `None` if it has no pods on nodes.
    pub fn usage(&self, namespace: &str) -> Option<&Usage> {
        self.usage.get(namespace)
    }

    /// Returns the usage of all namespaces with quotas.
    pub fn used(&self) -> &Amounts {
        &self.used
    }

    /// Returns how much of a resource all quotas together guarantee; `None` if no quota guarantees any.
    pub fn guaranteed(&self, resource: &str) -> Option<i128> {
        self.guaranteed.get(resource).map(|guarantee| guarantee.sum)
    }

    /// The guarantees of all quotas.
    pub fn guarantees(&self) -> impl Iterator<Item = (&Str, i128)> {
        self.guaranteed.iter().map(|(resource, guarantee)| (resource, guarantee.sum))
    }

    /// Returns true if the quota of the namespace is used beyond what it guarantees. A resource that no quota guarantees
    /// does not matter.
    pub fn borrows(&self, namespace: &str) -> bool {
        let (Some(quota), Some(usage)) = (self.quota(namespace), self.usage(namespace)) else { return false };
        let mut used = usage.used.iter();
        used.any(|(name, amount)| self.guaranteed.contains_key(name) && amount > quota.spec.min.get(name))
    }

    /// Replaces the quota of a namespace.
    fn set_quota(&mut self, namespace: &Str, quota: Option<Quota>) {
        let used = self.usage.get(namespace).map(|usage| usage.used.clone()).unwrap_or_default();
        if let Some(old) = self.quotas.remove(namespace) {
            self.used.subtract(used.parts());
            for (resource, amount) in old.spec.min.iter() {
                if let Some(guarantee) = self.guaranteed.get_mut(resource) {
                    guarantee.sum -= amount;
                    guarantee.quotas -= 1;
                    if guarantee.quotas == 0 {
                        self.guaranteed.remove(resource);
                    }
                }
            }
        }
        if let Some(new) = quota {
            self.used.add(used.parts());
            for (resource, amount) in new.spec.min.iter() {
                let guarantee = self.guaranteed.entry(resource.clone()).or_default();
                guarantee.sum += amount;
                guarantee.quotas += 1;
            }
            self.quotas.insert(namespace.clone(), new);
        }
    }
}

impl Watches for Ledger {
    type Resources = ElasticQuota;
}

impl Index for Ledger {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        if self.quotas.contains_key(&pod.namespace) {
            self.used.add(requested(pod));
        }
        match self.usage.get_mut(&pod.namespace) {
            Some(usage) => usage.join(pod),
            None => self.usage.entry(pod.namespace.clone()).or_default().join(pod),
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        if self.quotas.contains_key(&pod.namespace) {
            self.used.subtract(requested(pod));
        }
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
        if !key.is_of::<ElasticQuota>() {
            return;
        }
        let mut quotas = self.watched(view.objects).all_in(&key.namespace);
        let name = |quota: &Custom<ElasticQuota>| format!("{}/{}", key.namespace, quota.metadata.name);
        let quota = quotas.next();
        let mut problems: Vec<Contradiction> = Vec::new();
        let others: Vec<String> = quotas.map(name).collect();
        if let (Some(quota), false) = (quota, others.is_empty()) {
            problems.push(Contradiction {
                problem: "Only the first ElasticQuota of a namespace counts",
                subject: name(quota),
                objects: others,
            });
        }
        problems.extend(quota.and_then(|quota| min_above_max(&name(quota), quota)));
        self.contradictions.remove(&key.namespace);
        if !problems.is_empty() {
            self.contradictions.insert(key.namespace.clone(), problems);
        }
        let quota = quota.map(|quota| Quota { name: name(quota).into(), spec: quota.object.clone() });
        if self.quotas.get(&key.namespace) != quota.as_ref() {
            self.set_quota(&key.namespace, quota);
        }
    }

    fn contradictions(&self) -> Vec<&Contradiction> {
        self.contradictions.values().flatten().collect()
    }
}

/// Returns the contradiction of a quota that guarantees more than it allows.
fn min_above_max(name: &str, quota: &ElasticQuota) -> Option<Contradiction> {
    let (resource, min, max) = quota
        .min
        .iter()
        .filter_map(|(resource, min)| Some((resource, min, quota.max.listed(resource)?)))
        .find(|(_, min, max)| min > max)?;
    let (min, max) = (text(resource, min), text(resource, max));
    Some(Contradiction {
        problem: "The min of an ElasticQuota is above its max, which is the limit",
        subject: format!("{name}: {resource}: min {min}, max {max}"),
        objects: vec![name.to_owned()],
    })
}
