//! Preemptions of the other scheduler, compared with those of the shadow.
//!
//! kube-scheduler evicts pods while it writes the nomination of the pod that gets their room. So the victims may have
//! left before the nomination arrives, or leave afterwards. The shadow decides with the victims on their nodes, and a
//! comparison stays open for a while to collect victims.

use std::{collections::VecDeque, sync::Arc};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::pod::PodInfo;

use super::hindsight::WINDOW;

/// A node, and the pods that are evicted from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the node.
    pub node: Str,
    /// Pods by name (`namespace/name`), sorted.
    pub victims: Vec<String>,
}

/// The preemptions of two schedulers for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// `namespace/name` of the pod that needs room.
    pub pod: String,
    /// Plan of the other scheduler; `None` if it evicts no pod.
    pub theirs: Option<Plan>,
    /// Plan of the shadow; `None` if it would evict no pod.
    pub ours: Option<Plan>,
}

/// Result of the comparison of two preemptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Accord {
    /// The same victims on the same node.
    Equal,
    /// Different nodes.
    OtherNode,
    /// Different victims on the same node.
    OtherVictims,
    /// Only the shadow would evict pods.
    OnlyOurs,
    /// Only the other scheduler evicts pods.
    OnlyTheirs,
}

impl Accord {
    /// All results, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Equal, Self::OtherNode, Self::OtherVictims, Self::OnlyOurs, Self::OnlyTheirs];

    /// Name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::OtherNode => "other_node",
            Self::OtherVictims => "other_victims",
            Self::OnlyOurs => "only_ours",
            Self::OnlyTheirs => "only_theirs",
        }
    }
}

impl Preemption {
    /// Result of the comparison.
    pub fn accord(&self) -> Accord {
        match (&self.theirs, &self.ours) {
            (Some(theirs), Some(ours)) if theirs.node != ours.node => Accord::OtherNode,
            (Some(theirs), Some(ours)) if theirs.victims != ours.victims => Accord::OtherVictims,
            (None, Some(_)) => Accord::OnlyOurs,
            (Some(_), None) => Accord::OnlyTheirs,
            _ => Accord::Equal,
        }
    }
}

/// An evicted pod for which no nomination has arrived.
#[derive(Debug)]
struct Victim {
    at: Timestamp,
    /// The pod as it was before.
    pod: Arc<PodInfo>,
    node: Str,
}

/// A comparison that collects victims.
#[derive(Debug)]
struct Open {
    uid: Str,
    since: Timestamp,
    preemption: Preemption,
}

/// Preemptions that are being compared.
#[derive(Debug, Default)]
pub(super) struct Preemptions {
    /// Oldest first.
    victims: VecDeque<Victim>,
    /// Oldest first.
    open: VecDeque<Open>,
}

impl Preemptions {
    /// Handles the eviction of a pod, which is given as it was before, from its node.
    pub(super) fn evicted(&mut self, pod: Arc<PodInfo>, node: &Str, now: Timestamp) {
        let mut plans = self.open.iter_mut().rev().filter_map(|open| open.preemption.theirs.as_mut());
        match plans.find(|plan| plan.node == *node) {
            Some(plan) => {
                plan.victims.push(pod.full_name());
                plan.victims.sort();
            }
            None => self.victims.push_back(Victim { at: now, pod, node: node.clone() }),
        }
    }

    /// Returns the evicted pods for which no nomination has arrived, as they were before, with their nodes.
    pub(super) fn unclaimed(&mut self, now: Timestamp) -> Vec<(Arc<PodInfo>, Str)> {
        self.victims.retain(|victim| now.since(victim.at) < WINDOW);
        self.victims.iter().map(|victim| (victim.pod.clone(), victim.node.clone())).collect()
    }

    /// Handles an attempt of the other scheduler that found no node. `old` and `new` are the pod before and after it.
    /// Returns the comparison of an earlier attempt.
    pub(super) fn decided(
        &mut self,
        old: &PodInfo,
        new: &PodInfo,
        ours: Option<Plan>,
        now: Timestamp,
    ) -> Option<Preemption> {
        let earlier = self.close(&new.uid);
        let is_new = |node: &&Str| {
            old.status.nominated_node_name.as_ref() != Some(*node)
                || ours.as_ref().is_some_and(|plan| plan.node == **node)
                || self.victims.iter().any(|victim| victim.node == **node)
        };
        let nominated = new.status.nominated_node_name.as_ref().filter(is_new).cloned();
        let theirs = nominated.map(|node| Plan { victims: self.claim(&node), node });
        if theirs.is_some() || ours.is_some() {
            let preemption = Preemption { pod: new.full_name(), theirs, ours };
            self.open.push_back(Open { uid: new.uid.clone(), since: now, preemption });
        }
        earlier
    }

    /// Takes the names of the pods that have been evicted from a node.
    fn claim(&mut self, node: &Str) -> Vec<String> {
        let mut names = Vec::new();
        self.victims.retain(|victim| {
            let is_other = victim.node != *node;
            if !is_other {
                names.push(victim.pod.full_name());
            }
            is_other
        });
        names.sort();
        names
    }

    /// Ends the comparison for a pod that has a node, is gone, or is tried again.
    pub(super) fn close(&mut self, uid: &str) -> Option<Preemption> {
        let at = self.open.iter().position(|open| open.uid == uid)?;
        self.open.remove(at).map(|open| open.preemption)
    }

    /// Takes the comparisons that have been open for long.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> Vec<Preemption> {
        let expired = self.open.iter().take_while(|open| now.since(open.since) >= WINDOW).count();
        self.open.drain(..expired).map(|open| open.preemption).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Preemption> {
        self.open.drain(..).map(|open| open.preemption).collect()
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.open.front().map(|open| open.since + WINDOW)
    }
}
