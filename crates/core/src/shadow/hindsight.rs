//! Differences that come from the times of the decisions.
//!
//! The other scheduler decided some time before its decision arrives. In between, pods may have come to nodes or left
//! them. Also, it counts a pod on its node from the decision on, whereas the shadow counts it when the binding
//! arrives, and bindings that are written at the same time may arrive in another order than that of the decisions.
//!
//! So when decisions differ, the shadow decides again
//! - with the pods on nodes that come before this pod in the queue, and without those that come after it, as far as
//!   they have arrived;
//! - without the latest changes since the pod appeared, one after the other;
//! - after each of the next bindings of pods that had appeared when the decision arrived, and after changes of nodes.
//!
//! If the decisions agree on one of these clusters, the pod has *raced*. No other change can have influenced the
//! decision, and only a limited number of changes within a short time count, so that a race does not hide a lasting
//! difference.

use std::{cmp::Reverse, collections::VecDeque, sync::Arc, time::Duration};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::pod::PodInfo;

use super::{Comparison, Finding};
use crate::{cache::Cache, pods::Pods};

/// Time within which changes may explain a difference.
pub(super) const WINDOW: Duration = Duration::from_secs(5);
/// Maximum number of changes before a decision, and after it, that are considered one after the other.
const CHANGES: usize = 8;
/// Maximum number of changes that are considered because of the order of the queue.
const REMEMBERED: usize = 256;
/// Maximum number of differences in doubt at the same time.
const DOUBTS: usize = 64;

/// Appearance of a pod without a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appearance {
    /// Number of the pod in the order of appearance.
    pub(super) number: u64,
    /// Time, if decisions were compared already.
    pub(super) time: Option<Timestamp>,
    /// Number of changes before.
    changes: u64,
}

/// Place of a pod in a queue that orders by priority, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    priority: Reverse<i32>,
    arrival: u64,
}

impl Turn {
    pub(super) fn of(pod: &PodInfo, appearance: Appearance) -> Self {
        Self { priority: Reverse(pod.priority()), arrival: appearance.number }
    }
}

/// A change to the pods on nodes.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A pod came to a node. The turn is absent if the pod has never waited.
    Joined { uid: Str, node: Str, turn: Option<Turn> },
    /// A pod left its node.
    Left(Arc<PodInfo>, Str),
}

impl Change {
    pub(super) fn undo(&self, cache: &mut Cache) {
        match self {
            Self::Joined { uid, .. } => cache.remove(uid),
            Self::Left(pod, node) => cache.set_pod(pod.clone(), node),
        }
    }

    /// Makes the change again. `pods` contains the latest versions of the pods.
    pub(super) fn redo(&self, cache: &mut Cache, pods: &Pods) {
        match self {
            Self::Joined { uid, node, .. } => {
                // A pod that has left in the meantime is not in `pods`.
                if let Some(pod) = pods.get(uid) {
                    cache.set_pod(pod.clone(), node);
                }
            }
            Self::Left(pod, _) => cache.remove(&pod.uid),
        }
    }

    fn turn(&self) -> Option<Turn> {
        match self {
            Self::Joined { turn, .. } => *turn,
            Self::Left(..) => None,
        }
    }
}

/// A difference that later changes may explain.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The pod as it was before the other scheduler's decision.
    pod: Arc<PodInfo>,
    turn: Option<Turn>,
    comparison: Comparison,
    since: Timestamp,
    /// Number of pods that had appeared.
    appearances: u64,
    /// Number of changes since then that may explain the difference.
    changes: usize,
}

impl Doubt {
    pub(super) fn new(
        pod: Arc<PodInfo>,
        turn: Option<Turn>,
        comparison: Comparison,
        (since, appearances): (Timestamp, u64),
    ) -> Self {
        Self { pod, turn, comparison, since, appearances, changes: 0 }
    }

    pub(super) fn turn(&self) -> Option<Turn> {
        self.turn
    }

    /// Returns true if the other scheduler may have known of the change, and few such changes have been considered.
    /// `None` is a change of a node.
    pub(super) fn may_follow(&self, change: Option<&Change>) -> bool {
        let is_known = match change {
            Some(change) => change.turn().is_some_and(|turn| turn.arrival <= self.appearances),
            None => true,
        };
        is_known && self.changes < CHANGES
    }

    /// Returns true if the change is a pod whose turn was before this one's.
    pub(super) fn comes_after(&self, change: Option<&Change>) -> bool {
        let other = change.and_then(Change::turn);
        other.zip(self.turn).is_some_and(|(other, own)| other < own)
    }

    /// Changes what is told of the difference if no change explains it.
    pub(super) fn ends_in(&mut self, finding: Finding) {
        self.comparison.finding = finding;
    }

    /// Counts a change that may explain the difference.
    pub(super) fn count(&mut self) {
        self.changes += 1;
    }

    pub(super) fn pod(&self) -> &Arc<PodInfo> {
        &self.pod
    }

    pub(super) fn theirs(&self) -> Option<&Str> {
        self.comparison.theirs.as_ref()
    }

    fn raced(self) -> Comparison {
        Comparison { has_raced: true, ..self.comparison }
    }
}

/// Latest changes, and differences in doubt.
#[derive(Debug, Default)]
pub(super) struct Hindsight {
    /// Oldest first.
    changes: VecDeque<(Timestamp, Change)>,
    /// Number of changes so far.
    count: u64,
    /// Number of pods that have appeared.
    appearances: u64,
    /// Oldest first.
    doubts: VecDeque<Doubt>,
}

impl Hindsight {
    /// Handles a pod that appears without a node.
    pub(super) fn appears(&mut self, time: Option<Timestamp>) -> Appearance {
        self.appearances += 1;
        Appearance { number: self.appearances, time, changes: self.count }
    }

    /// Number of pods that have appeared.
    pub(super) fn appearances(&self) -> u64 {
        self.appearances
    }

    pub(super) fn remember(&mut self, change: Change, now: Timestamp) {
        if self.changes.len() == REMEMBERED {
            self.changes.pop_front();
        }
        self.changes.push_back((now, change));
        self.count += 1;
    }

    /// Returns the latest changes since a pod appeared, which may have happened after a decision about the pod that
    /// arrives now. Newest first.
    pub(super) fn latest(&self, since: Appearance, now: Timestamp) -> Vec<Change> {
        let count = usize::try_from(self.count - since.changes).unwrap_or(CHANGES).min(CHANGES);
        self.newest(now).take(count).cloned().collect()
    }

    /// Returns the pods that came to nodes although their turn is after `turn`. Newest first.
    pub(super) fn later_turns(&self, turn: Option<Turn>, now: Timestamp) -> Vec<Change> {
        let Some(turn) = turn else { return Vec::new() };
        self.newest(now).filter(|change| change.turn().is_some_and(|other| other > turn)).cloned().collect()
    }

    fn newest(&self, now: Timestamp) -> impl Iterator<Item = &Change> {
        let newest = self.changes.iter().rev().take_while(move |(at, _)| now.since(*at) < WINDOW);
        newest.map(|(_, change)| change)
    }

    /// Keeps a difference in doubt. Returns one that has no room any more. A pod that the other scheduler leaves
    /// without a node again stays one doubt.
    pub(super) fn doubt(&mut self, doubt: Doubt) -> Option<Comparison> {
        if doubt.theirs().is_none() && self.waiting(&doubt.pod.uid).is_some() {
            return None;
        }
        self.doubts.push_back(doubt);
        let oldest = (self.doubts.len() > DOUBTS).then(|| self.doubts.pop_front());
        oldest.flatten().map(|doubt| doubt.comparison)
    }

    pub(super) fn has_doubts(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Takes all doubts, in order to reconsider each.
    pub(super) fn take_doubts(&mut self) -> Vec<Doubt> {
        self.doubts.drain(..).collect()
    }

    /// Handles a doubt after a change, with which the decisions agree or do not. Returns the result if they do.
    pub(super) fn reconsidered(&mut self, doubt: Doubt, agrees: bool) -> Option<Comparison> {
        if agrees {
            return Some(doubt.raced());
        }
        self.doubts.push_back(doubt);
        None
    }

    /// Handles a pod that does not wait any more, because it has a node or is gone. Returns the result if it was in
    /// doubt whether the other scheduler should have placed the pod earlier.
    pub(super) fn waits_no_more(&mut self, uid: &str) -> Option<Comparison> {
        let at = self.waiting(uid)?;
        self.doubts.remove(at).map(Doubt::raced)
    }

    /// Returns the position of the doubt about a pod that the other scheduler left without a node.
    fn waiting(&self, uid: &str) -> Option<usize> {
        self.doubts.iter().position(|doubt| doubt.pod.uid == uid && doubt.theirs().is_none())
    }

    /// Takes the results that have been in doubt for long.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> Vec<Comparison> {
        let expired = self.doubts.iter().take_while(|doubt| now.since(doubt.since) >= WINDOW).count();
        self.doubts.drain(..expired).map(|doubt| doubt.comparison).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Comparison> {
        self.doubts.drain(..).map(|doubt| doubt.comparison).collect()
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.doubts.front().map(|doubt| doubt.since + WINDOW)
    }
}
