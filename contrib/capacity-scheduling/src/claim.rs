//! What a pod claims of its quota, and why it is refused.

use std::fmt::Write;

use harbormaster::prelude::*;

use crate::{
    amounts::{Amounts, requested, text},
    ledger::{Ledger, Quota},
};

/// Largest number of borrowers that a refusal names.
const NAMED: usize = 3;

/// The claim of a pod whose namespace has a quota.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) pod: &'a PodInfo,
    pub(crate) quota: &'a Quota,
    /// Future usage of nominated pods of the namespace that are at least as important as this one.
    pub(crate) promised: Amounts,
    /// The same, plus the future usage of nominated pods in other namespaces whose quotas do not borrow.
    pub(crate) promised_to_all: Amounts,
}

impl<'a> Claim<'a> {
    /// Returns the claim of a pod; `None` if its namespace has no quota.
    pub fn of(ledger: &'a Ledger, nominations: &Nominations, pod: &'a PodInfo) -> Option<Self> {
        let quota = ledger.quota(&pod.namespace)?;
        let (mut promised, mut promised_to_all) = (Amounts::default(), Amounts::default());
        for (_, other) in nominations.iter().filter(|(_, other)| other.uid != pod.uid) {
            if other.namespace == pod.namespace {
                if other.priority() >= pod.priority() {
                    promised.add(requested(other));
                    promised_to_all.add(requested(other));
                }
            } else if ledger.quota(&other.namespace).is_some() && !ledger.borrows(&other.namespace) {
                promised_to_all.add(requested(other));
            }
        }
        Some(Self { ledger, pod, quota, promised, promised_to_all })
    }

    /// Returns why the pod is refused; `None` if it is not. Only resources that the pod requests matter.
    pub fn refusal(&self) -> Option<String> {
        let (namespace, name) = (&self.pod.namespace, &self.pod.name);
        let why = self.above_max().or_else(|| self.above_guarantees())?;
        Some(format!("Pod {namespace}/{name} is rejected in PreFilter because {why}"))
    }

    fn above_max(&self) -> Option<String> {
        let usage = self.ledger.usage(&self.pod.namespace);
        let used = |resource: &str| usage.map_or(0, |usage| usage.used.get(resource));
        let (resource, asked, max) = requested(self.pod)
            .filter_map(|(resource, asked)| Some((resource, asked, self.quota.spec.max.listed(resource)?)))
            .find(|(resource, asked, max)| used(resource) + self.promised.get(resource) + asked > *max)?;
        let holders = usage.map_or(0, |usage| usage.pods);
        let sum = sum(resource, used(resource), self.promised.get(resource), asked);
        let (quota, max) = (&self.quota.name, text(resource, max));
        Some(format!(
            "ElasticQuota {quota} is more than Max: {resource}: {sum}, max {max}; the namespace has {holders} pods on nodes"
        ))
    }

    fn above_guarantees(&self) -> Option<String> {
        let used = self.ledger.used();
        let (resource, asked, guaranteed) = requested(self.pod)
            .filter_map(|(resource, asked)| Some((resource, asked, self.ledger.guaranteed(resource)?)))
            .find(|(resource, asked, guaranteed)| {
                used.get(resource) + self.promised_to_all.get(resource) + asked > *guaranteed
            })?;
        let sum = sum(resource, used.get(resource), self.promised_to_all.get(resource), asked);
        let guaranteed = text(resource, guaranteed);
        let borrowers = self.borrowers(resource);
        Some(format!(
            "total ElasticQuota used is more than min: {resource}: {sum}, min {guaranteed}{borrowers}"
        ))
    }

    /// Names the quotas that use more of the resource than they guarantee, those that borrow most first.
    fn borrowers(&self, resource: &str) -> String {
        let over = |(namespace, quota): (&harbormaster::api::Str, &'a Quota)| {
            let used = self.ledger.usage(namespace)?.used.get(resource);
            let over = used - quota.spec.min.get(resource);
            (over > 0).then_some((over, &quota.name))
        };
        let mut borrowers: Vec<_> = self.ledger.quotas().filter_map(over).collect();
        borrowers.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let mut named = String::new();
        for (over, quota) in borrowers.iter().take(NAMED) {
            let how = if named.is_empty() { "; borrowed by" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(named, "{how} {quota} ({})", text(resource, *over));
        }
        if borrowers.len() > NAMED {
            let _ = write!(named, " and {} more", borrowers.len() - NAMED);
        }
        named
    }
}

fn sum(resource: &str, used: i128, promised: i128, asked: i128) -> String {
    let (used, asked) = (text(resource, used), text(resource, asked));
    match promised {
        0 => format!("used {used} + requested {asked}"),
        _ => format!("used {used} + nominated {} + requested {asked}", text(resource, promised)),
    }
}
