//! The reasons why a pod fits no node, kept as data until they are printed.

use std::collections::BTreeMap;

use crate::outcome::{Fix, Reject};

/// The reasons why one attempt failed.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Number of nodes.
    pub nodes: usize,
    /// The plugin whose PreFilter rejected the pod for all nodes (`None` for the framework itself), and its rejection.
    pub pre_filter: Option<(Option<&'static str>, Reject)>,
    /// Number of nodes rejected for each reason.
    pub reasons: BTreeMap<String, usize>,
    /// Number of nodes that each plugin rejected for each reason, not counting the nodes that PreFilter excluded.
    pub rejections: BTreeMap<(&'static str, String), usize>,
    /// The plugins that rejected the pod. The events that they listen to may wake it.
    pub rejectors: Vec<&'static str>,
    /// The members of `rejectors` that wait for an asynchronous step. The events that they listen to wake the pod
    /// without backoff.
    pub pending: Vec<&'static str>,
    /// Message from PostFilter.
    pub post_filter: String,
}

impl Diagnosis {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    pub(crate) fn by_pre_filter(
        nodes: usize,
        plugin: Option<&'static str>,
        reject: Reject,
        narrowed_by: Vec<&'static str>,
    ) -> Self {
        let mut diagnosis = Self::new(nodes);
        narrowed_by.into_iter().chain(plugin).for_each(|p| diagnosis.rejected_by(p));
        diagnosis.pre_filter = Some((plugin, reject));
        diagnosis
    }

    /// Creates the diagnosis for a rejection after the node was chosen (by Reserve or Permit): one node, one plugin.
    pub fn of_one(plugin: &'static str, reject: &Reject) -> Self {
        let mut diagnosis = Self::new(1);
        diagnosis.add(plugin, reject, 1);
        diagnosis
    }

    pub(crate) fn add(&mut self, plugin: &'static str, reject: &Reject, nodes: usize) {
        for reason in &reject.reasons {
            *self.reasons.entry(reason.to_string()).or_default() += nodes;
        }
        self.rejected_by(plugin);
        if reject.fix == Fix::Pending && !self.pending.contains(&plugin) {
            self.pending.push(plugin);
        }
        *self.rejections.entry((plugin, reject.message())).or_default() += nodes;
    }

    pub(crate) fn add_outside(&mut self, narrowed_by: &[&'static str], reject: &Reject, nodes: usize) {
        narrowed_by.iter().for_each(|p| self.rejected_by(p));
        if nodes > 0 {
            for reason in &reject.reasons {
                *self.reasons.entry(reason.to_string()).or_default() += nodes;
            }
        }
    }

    fn rejected_by(&mut self, plugin: &'static str) {
        if let Err(gap) = self.rejectors.binary_search(&plugin) {
            self.rejectors.insert(gap, plugin);
        }
    }

    /// kube-scheduler's message: `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable.`
    pub fn message(&self) -> String {
        let mut text = format!("0/{} nodes are available:", self.nodes);
        if let Some((_, reject)) = &self.pre_filter {
            text += &format!(" {}.", reject.message());
        } else if !self.reasons.is_empty() {
            let mut entries: Vec<String> = self.reasons.iter().map(|(why, n)| format!("{n} {why}")).collect();
            entries.sort();
            text += &format!(" {}.", entries.join(", "));
        }
        if !self.post_filter.is_empty() {
            text += &format!(" {}", self.post_filter);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_as_text_and_every_reason_is_counted() {
        let mut diagnosis = Diagnosis::new(14);
        let both = Reject { fix: Fix::EvictionMayHelp, reasons: vec!["b".into(), "a".into()] };
        diagnosis.add("X", &both, 2);
        diagnosis.add("Y", &Reject::evictable("b"), 10);
        assert_eq!(diagnosis.message(), "0/14 nodes are available: 12 b, 2 a.");
        assert_eq!(diagnosis.rejectors, ["X", "Y"]);
        diagnosis.post_filter = "no luck".into();
        assert_eq!(diagnosis.message(), "0/14 nodes are available: 12 b, 2 a. no luck");
    }

    #[test]
    fn a_rejection_by_pre_filter_is_the_whole_message() {
        let reject = Reject::unresolvable("pod affinity terms conflict");
        let diagnosis = Diagnosis::by_pre_filter(3, Some("NodeAffinity"), reject, vec![]);
        assert_eq!(diagnosis.message(), "0/3 nodes are available: pod affinity terms conflict.");
    }
}
