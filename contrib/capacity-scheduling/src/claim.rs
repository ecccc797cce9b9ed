//! Claims of pods, or of the pods of a group, on their quotas, and the reasons for refusing them.

use std::{fmt::Write, sync::Arc};

use harbormaster::{api::Str, prelude::*};

use crate::{
    amounts::{Amounts, requested, text},
    ledger::Ledger,
    tree::{Quota, QuotaIdx, Tree, WHOLE},
};

/// Largest number of quotas or namespaces that a refusal names.
const NAMED: usize = 3;

/// The claim of a pod whose namespace has a quota, or of several members of a group, which get nodes together.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub(crate) ledger: &'a Ledger,
    /// The pod, or the first of the members.
    pub(crate) pod: &'a PodInfo,
    /// Requests, each resource once.
    pub(crate) asked: Vec<(&'a str, i128)>,
    pub(crate) priority: i32,
    /// The pod's quota and those above it, up to the whole, each with what it has promised: the future usage of nominated
    /// pods that come before this one.
    pub(crate) path: Vec<(QuotaIdx, Amounts)>,
}

impl<'a> Claim<'a> {
    /// Returns the claim of a pod; `None` if its namespace has no quota.
    ///
    /// A nominated pod of the same quota comes before the pod if it is at least as important. One of another quota does
    /// if that quota has not borrowed.
    pub fn of(ledger: &'a Ledger, nominations: &Nominations, pod: &'a PodInfo) -> Option<Self> {
        let is_own = |other: &PodInfo| other.uid == pod.uid;
        Self::new(ledger, nominations, (pod, requested(pod).collect(), pod.priority()), is_own)
    }

    /// Returns the claim of members of a group, of which there must be one; `None` if their namespace has no quota. What
    /// other members are nominated to does not count.
    pub fn of_members(
        ledger: &'a Ledger,
        nominations: &Nominations,
        members: &'a [Arc<PodInfo>],
        priority: i32,
    ) -> Option<Self> {
        let mut asked: Vec<(&str, i128)> = Vec::new();
        for (resource, amount) in members.iter().flat_map(|pod| requested(pod)) {
            match asked.iter_mut().find(|(known, _)| *known == resource) {
                Some((_, sum)) => *sum += amount,
                None => asked.push((resource, amount)),
            }
        }
        let first = members.first()?;
        let is_own = |other: &PodInfo| {
            other.uid == first.uid || (first.group().is_some() && other.group() == first.group())
        };
        Self::new(ledger, nominations, (first, asked, priority), is_own)
    }

    fn new(
        ledger: &'a Ledger,
        nominations: &Nominations,
        (pod, asked, priority): (&'a PodInfo, Vec<(&'a str, i128)>, i32),
        is_own: impl Fn(&PodInfo) -> bool,
    ) -> Option<Self> {
        let tree = ledger.tree();
        let leaf = tree.leaf(&pod.namespace)?;
        let mut path: Vec<_> = tree.path(leaf).map(|at| (at, Amounts::default())).collect();
        for (_, other) in nominations.iter().filter(|(_, other)| !is_own(other)) {
            let Some(its) = tree.leaf(&other.namespace) else { continue };
            let is_before = if its == leaf { other.priority() >= priority } else { !ledger.borrows(its) };
            if is_before {
                let shared = path.iter_mut().filter(|(at, _)| tree.path(its).any(|above| above == *at));
                shared.for_each(|(_, promised)| promised.add(requested(other)));
            }
        }
        Some(Self { ledger, pod, asked, priority, path })
    }

    /// Returns why the pod is refused; `None` if it is not. Only resources that the pod requests matter.
    pub fn refusal(&self) -> Option<String> {
        let (namespace, name) = (&self.pod.namespace, &self.pod.name);
        let why = self.path.iter().find_map(|(at, promised)| self.above_max(*at, promised))?;
        Some(format!("Pod {namespace}/{name} is rejected in PreFilter because {why}"))
    }

    fn above_max(&self, at: QuotaIdx, promised: &Amounts) -> Option<String> {
        let quota = &self.tree().quotas()[at];
        let used = self.ledger.used(at);
        let asked = self.asked.iter().copied();
        let (resource, asked, max) = asked
            .filter_map(|(resource, asked)| Some((resource, asked, quota.max.listed(resource)?)))
            .find(|(resource, asked, max)| used.get(resource) + promised.get(resource) + asked > *max)?;
        let sum = sum(resource, used.get(resource), promised.get(resource), asked);
        let max = text(resource, max);
        let (what, limit, holders) = match at {
            WHOLE => ("total ElasticQuota used is more than min".to_owned(), "min", self.borrowers(resource)),
            _ => (format!("{quota} is more than Max"), "max", self.holders(at, resource)),
        };
        Some(format!("{what}: {resource}: {sum}, {limit} {max}{holders}"))
    }

    fn tree(&self) -> &'a Tree {
        self.ledger.tree()
    }

    /// Names the quotas of namespaces that use more of the resource than is guaranteed to them.
    fn borrowers(&self, resource: &str) -> String {
        let over = |(at, quota): (QuotaIdx, &'a Quota)| {
            let over = self.ledger.used(at).get(resource) - quota.min.get(resource);
            (!quota.namespaces.is_empty()).then_some((over, quota.name.clone()))
        };
        let quotas = self.tree().quotas().iter().enumerate();
        named("; borrowed by", resource, quotas.filter_map(over).collect())
    }

    /// Names what the quota is used by: the quotas below it, or its namespaces.
    fn holders(&self, at: QuotaIdx, resource: &str) -> String {
        let quota = &self.tree().quotas()[at];
        let of_namespace = |namespace: &Str| {
            let usage = self.ledger.usage(namespace);
            (usage.map_or(0, |usage| usage.used.get(resource)), namespace.clone())
        };
        match quota.namespaces.as_slice() {
            [] => {
                let below = self.tree().quotas().iter().enumerate().filter(|(_, q)| q.parent == Some(at));
                let below = below.map(|(at, below)| (self.ledger.used(at).get(resource), below.name.clone()));
                named("; used by", resource, below.collect())
            }
            [only] => {
                let pods = self.ledger.usage(only).map_or(0, |usage| usage.pods);
                format!("; the namespace has {pods} pods on nodes")
            }
            several => named("; used by namespaces", resource, several.iter().map(of_namespace).collect()),
        }
    }
}

/// Names those with the largest positive amounts.
fn named(how: &str, resource: &str, mut all: Vec<(i128, Str)>) -> String {
    all.retain(|(amount, _)| *amount > 0);
    all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut words = String::new();
    for (amount, name) in all.iter().take(NAMED) {
        let how = if words.is_empty() { how } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(words, "{how} {name} ({})", text(resource, *amount));
    }
    if all.len() > NAMED {
        let _ = write!(words, " and {} more", all.len() - NAMED);
    }
    words
}

fn sum(resource: &str, used: i128, promised: i128, asked: i128) -> String {
    let (used, asked) = (text(resource, used), text(resource, asked));
    match promised {
        0 => format!("used {used} + requested {asked}"),
        _ => format!("used {used} + nominated {} + requested {asked}", text(resource, promised)),
    }
}
