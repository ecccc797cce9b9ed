//! Terms on which pods are evicted for a pod.
//!
//! A pod whose quota would be used beyond its guarantee may take only what pods of its namespace use that are less
//! important. A pod within the guarantee takes back what other quotas have borrowed, however important their pods are,
//! but never more than that. A pod without a quota evicts only pods without a quota.

use std::collections::BTreeMap;

use harbormaster::{api::Str, preemption::EvictionTerms, prelude::*};

use crate::{
    amounts::{Amounts, requested},
    claim::Claim,
    ledger::{Ledger, Quota, is_leaving},
};

/// The terms for one pod.
#[derive(Clone, Debug)]
pub struct QuotaTerms {
    /// Accounts of the namespaces with quotas.
    accounts: BTreeMap<Str, Account>,
    priority: i32,
    /// The pod's claim; `None` if its namespace has no quota.
    claimant: Option<Claimant>,
    /// True if the quotas do not admit the pod while all pods are there.
    is_refused: bool,
}

/// A quota, and what is used of it.
#[derive(Clone, Debug)]
struct Account {
    quota: Quota,
    /// Usage of pods that are not being evicted.
    used: Amounts,
    /// Usage of those that have not left.
    left: Amounts,
}

/// The pod for which others are evicted.
#[derive(Clone, Debug)]
struct Claimant {
    namespace: Str,
    request: Vec<(Str, i128)>,
    promised: Amounts,
    promised_to_all: Amounts,
    /// True if the pod would use more of a resource than its quota guarantees.
    borrows: bool,
    /// Usage of less important pods of the namespace.
    less_important: Amounts,
    has_less_important: bool,
    /// Guarantees of all quotas, by resource.
    guaranteed: BTreeMap<Str, i128>,
    /// Usage of all namespaces with quotas, without pods that are being evicted.
    used: Amounts,
    left: Amounts,
}

impl QuotaTerms {
    /// Returns the terms for a pod.
    pub fn new(ledger: &Ledger, claim: Option<Claim<'_>>, pod: &PodInfo) -> Self {
        let account = |(namespace, quota): (&Str, &Quota)| {
            let used = ledger.usage(namespace).map(|usage| usage.lasting()).unwrap_or_default();
            (namespace.clone(), Account { quota: quota.clone(), left: used.clone(), used })
        };
        let accounts: BTreeMap<Str, Account> = ledger.quotas().map(account).collect();
        let claimant = claim.map(|claim| Claimant::new(claim, &accounts));
        let mut terms = Self { accounts, priority: pod.priority(), claimant, is_refused: false };
        terms.is_refused = !terms.admits();
        terms
    }

    /// Returns why no eviction can help the pod; `None` if one may.
    pub fn hopeless(&self) -> Option<String> {
        let claimant = self.claimant.as_ref()?;
        let account = self.accounts.get(&claimant.namespace)?;
        let quota = &account.quota.name;
        if claimant.borrows && !claimant.has_less_important {
            return Some(format!("ElasticQuota {quota} is used up by pods that are at least as important"));
        }
        if !claimant.borrows && !self.accounts.keys().any(|other| self.is_lent_to(other)) {
            return Some("no other ElasticQuota is used beyond its min".to_owned());
        }
        let gone = |resource: &str| if claimant.borrows { claimant.less_important.get(resource) } else { 0 };
        let exceeds = |(resource, asked): &(Str, i128)| {
            let least = account.used.get(resource) - gone(resource) + claimant.promised.get(resource) + asked;
            account.quota.spec.max.listed(resource).is_some_and(|max| least > max)
        };
        let exceeded = claimant.request.iter().find(|part| exceeds(part))?;
        Some(format!("no evictions would leave enough {} of ElasticQuota {quota}", exceeded.0))
    }

    /// Returns true if the namespace uses more than its quota guarantees, and is not the pod's own.
    fn is_lent_to(&self, namespace: &str) -> bool {
        let Some(claimant) = &self.claimant else { return false };
        let Some(account) = self.accounts.get(namespace) else { return false };
        *claimant.namespace != *namespace
            && account.left.iter().any(|(resource, used)| {
                claimant.guaranteed.contains_key(resource) && used > account.quota.spec.min.get(resource)
            })
    }

    /// Returns true if the quotas admit the pod once those that are being evicted, or have left, are gone.
    pub fn admits(&self) -> bool {
        let Some(claimant) = &self.claimant else { return true };
        let Some(account) = self.accounts.get(&claimant.namespace) else { return true };
        claimant.request.iter().all(|(resource, asked)| {
            let own = account.left.get(resource) + claimant.promised.get(resource) + asked;
            let all = claimant.left.get(resource) + claimant.promised_to_all.get(resource) + asked;
            account.quota.spec.max.listed(resource).is_none_or(|max| own <= max)
                && claimant.guaranteed.get(resource).is_none_or(|guaranteed| all <= *guaranteed)
        })
    }

    /// Enters that a pod has left (-1) or returned (1). A pod that is being evicted does not count as being there.
    fn enter(&mut self, pod: &PodInfo, sign: i128) {
        let Some(claimant) = &mut self.claimant else { return };
        let Some(account) = self.accounts.get_mut(&pod.namespace) else { return };
        if !is_leaving(pod) {
            let change = || requested(pod).map(|(resource, amount)| (resource, sign * amount));
            account.left.add(change());
            claimant.left.add(change());
        }
    }
}

impl Claimant {
    fn new(claim: Claim<'_>, accounts: &BTreeMap<Str, Account>) -> Self {
        let Claim { ledger, pod, quota, promised, promised_to_all } = claim;
        let guaranteed: BTreeMap<Str, i128> =
            ledger.guarantees().map(|(resource, sum)| (resource.clone(), sum)).collect();
        let request: Vec<(Str, i128)> =
            requested(pod).map(|(resource, asked)| (resource.into(), asked)).collect();
        let own = accounts.get(&pod.namespace).map(|account| account.used.clone()).unwrap_or_default();
        let borrows = request.iter().any(|(resource, asked)| {
            let used = own.get(resource) + promised.get(resource) + asked;
            guaranteed.contains_key(resource) && used > quota.spec.min.get(resource)
        });
        let mut less_important = Amounts::default();
        let below = ledger.usage(&pod.namespace).into_iter();
        let below = below.flat_map(|usage| usage.staying.range(..pod.priority()));
        let tiers: Vec<_> = below.map(|(_, tier)| &tier.used).collect();
        tiers.iter().for_each(|used| less_important.add(used.parts()));
        let mut used = Amounts::default();
        accounts.values().for_each(|account| used.add(account.used.parts()));
        Self {
            namespace: pod.namespace.clone(),
            request,
            promised,
            promised_to_all,
            borrows,
            less_important,
            has_less_important: !tiers.is_empty(),
            guaranteed,
            left: used.clone(),
            used,
        }
    }
}

impl EvictionTerms for QuotaTerms {
    fn ceiling(&self) -> i32 {
        match &self.claimant {
            Some(claimant) if !claimant.borrows => i32::MAX,
            _ => self.priority,
        }
    }

    fn spares(&self, pod: &PodInfo) -> bool {
        match &self.claimant {
            None => self.accounts.contains_key(&pod.namespace),
            // It leaves anyway.
            Some(_) if is_leaving(pod) => false,
            Some(claimant) if claimant.borrows => pod.namespace != claimant.namespace,
            Some(_) => !self.is_lent_to(&pod.namespace),
        }
    }

    fn restart(&mut self) {
        for account in self.accounts.values_mut() {
            account.left.clone_from(&account.used);
        }
        if let Some(claimant) = &mut self.claimant {
            claimant.left.clone_from(&claimant.used);
        }
    }

    fn pod_left(&mut self, pod: &PodInfo) {
        self.enter(pod, -1);
    }

    fn pod_returned(&mut self, pod: &PodInfo) {
        self.enter(pod, 1);
    }

    fn rejection(&self) -> Option<Reject> {
        (!self.admits()).then(|| Reject::evictable("global quota max exceeded"))
    }

    fn reaches_other_nodes(&self) -> bool {
        self.is_refused
    }
}
