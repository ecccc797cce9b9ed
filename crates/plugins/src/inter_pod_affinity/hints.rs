//! Queueing hints.

use harbormaster_api::{Labels, Node, Pod, Str, pod::PodAffinityTerm};
use harbormaster_framework::prelude::*;

use super::{
    InterPodAffinity,
    terms::{check_terms, required},
};

impl InterPodAffinity {
    /// Hint for another pod that was added, relabeled or deleted.
    pub(super) fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old, new } = *change else { return Ok(Hint::Queue) };
        if [old, new].into_iter().flatten().any(|other| !has_node(other)) {
            return Ok(Hint::Skip);
        }
        let (affinity, anti) = (required(&pod.spec.pod_affinity), required(&pod.spec.pod_anti_affinity));
        check_terms(affinity)?;
        check_terms(anti)?;
        let helps = match (old, new) {
            (Some(old), Some(new)) => {
                (!match_all(affinity, pod, old) && match_all(affinity, pod, new))
                    || (self.keep_away(anti, pod, old) && !self.keep_away(anti, pod, new))
            }
            (None, Some(new)) => match_all(affinity, pod, new),
            (Some(old), None) => self.keep_away(anti, pod, old) || self.excludes(old, pod)?,
            (None, None) => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn excludes(&self, gone: &Pod, pod: &Pod) -> PluginResult<bool> {
        let terms = required(&gone.spec.pod_anti_affinity);
        check_terms(terms)?;
        Ok(self.keep_away(terms, gone, pod))
    }

    /// Returns true if the anti-affinity terms of `owner` are taken to keep `owner` and `other` apart.
    fn keep_away(&self, terms: &[PodAffinityTerm], owner: &Pod, other: &Pod) -> bool {
        match self.any_anti_term_wakes {
            true => terms.iter().any(|term| matches(term, &owner.namespace, other)),
            false => match_all(terms, owner, other),
        }
    }
}

fn has_node(pod: &Pod) -> bool {
    let named = |node: &Option<Str>| node.as_ref().is_some_and(|name| !name.is_empty());
    named(&pod.node_name) || named(&pod.status.nominated_node_name)
}

/// Returns true if there are terms and `other` matches all of them. Like kube-scheduler, does not look up namespace
/// labels.
fn match_all(terms: &[PodAffinityTerm], owner: &Pod, other: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, &owner.namespace, other))
}

fn matches(term: &PodAffinityTerm, owner: &Str, other: &Pod) -> bool {
    let own_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let in_namespace = match own_only {
        true => other.namespace == *owner,
        false => {
            let by_selector =
                || term.namespace_selector.as_ref().is_some_and(|s| s.matches(&Labels::default()));
            term.namespaces.contains(&other.namespace) || by_selector()
        }
    };
    in_namespace && term.label_selector.as_ref().is_some_and(|s| s.matches(&other.labels))
}

/// Hint for a node that was added or relabeled.
pub(super) fn after_node(pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
    let Change::Node { old, new: Some(new) } = *change else { return Ok(Hint::Queue) };
    let (affinity, anti) = (required(&pod.spec.pod_affinity), required(&pod.spec.pod_anti_affinity));
    check_terms(affinity)?;
    if affinity.iter().any(|term| enters_domain(old, new, &term.topology_key)) {
        return Ok(Hint::Queue);
    }
    check_terms(anti)?;
    let helps = anti.iter().any(|term| leaves_domain(old, new, &term.topology_key));
    Ok(if helps { Hint::Queue } else { Hint::Skip })
}

/// Returns true if the node has entered a domain.
fn enters_domain(old: Option<&Node>, new: &Node, key: &str) -> bool {
    let now = new.labels.get(key);
    now.is_some() && old.and_then(|old| old.labels.get(key)) != now
}

/// Returns true if the node is new or has left a domain. Anti-affinity does not require a node to have the key.
fn leaves_domain(old: Option<&Node>, new: &Node, key: &str) -> bool {
    old.is_none_or(|old| {
        let before = old.labels.get(key);
        before.is_some() && before != new.labels.get(key)
    })
}
