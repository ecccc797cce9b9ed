//! Evictions in progress, which free resources for other pods (KEP-4832).
//!
//! ```text
//! all victims but the last ──all evicted──> the last one ──evicted──> over
//!            └────────────some eviction failed─────────────┴──> the preemptor is retried immediately
//! ```
//!
//! The evictions for one attempt form a round. The preemptor, a pod or a group, is held back, that is, gated in the queue, until the round
//! is over. It is released slightly earlier if the engine sees the last victim terminating, because that event must
//! wake the preemptor.
//!
//! This module decides the next step; its caller carries the step out.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::{meter::Stamp, pod::PodInfo};
use rustc_hash::FxHashMap;

use crate::{effect::EvictTask, pods::Pods};

/// Pods to evict for one preemptor.
#[derive(Debug, Default)]
pub(crate) struct Victims {
    pub(crate) pods: Vec<Arc<PodInfo>>,
    /// Number of pods whose eviction violates a disruption budget.
    pub(crate) violations: usize,
}

/// The pod or group that needs resources, and the place from which pods are evicted for it.
#[derive(Clone, Debug)]
pub(crate) struct Preemption {
    /// Key of the preemptor's element in the queue.
    pub(crate) key: Str,
    /// UID of the pod or group.
    pub(crate) uid: Str,
    /// `pod` or `podgroup`.
    pub(crate) kind: &'static str,
    /// Name of the preemptor's profile.
    pub(crate) scheduler: Str,
    /// The pods that need resources.
    pub(crate) pods: Vec<Str>,
    /// Name of the node, or `cluster` if pods of several nodes are evicted.
    pub(crate) place: Str,
}

impl Preemption {
    /// The preemption for a pod on its own.
    pub(crate) fn for_pod(preemptor: &PodInfo, node: &Str) -> Self {
        Self {
            key: preemptor.uid.clone(),
            uid: preemptor.uid.clone(),
            kind: "pod",
            scheduler: preemptor.spec.scheduler_name.clone(),
            pods: vec![preemptor.uid.clone()],
            place: node.clone(),
        }
    }
}

/// The victims of one attempt.
#[derive(Debug)]
struct EvictionRound {
    preemption: Preemption,
    /// Number of eviction calls in progress.
    in_flight: usize,
    /// The victim that is evicted after all others.
    last: Option<Arc<PodInfo>>,
    /// UID of the last victim once its eviction has started.
    waits_for: Option<Str>,
    /// True if no later event will wake the preemptor, so it must be retried when the round ends.
    retry: bool,
    /// Start of the round, if it is measured.
    started: Option<Stamp>,
    /// True if a call has failed.
    failed: bool,
}

/// Next step of a round.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// Wait for more calls to end.
    Wait,
    /// Evict the last victim.
    Evict(Arc<PodInfo>),
    /// The round is over.
    Over {
        /// Key of the preemptor; `None` if a newer round holds it back.
        held: Option<Str>,
        /// Key of the preemptor if it must be retried immediately.
        retry: Option<Str>,
        /// `pod` or `podgroup`.
        kind: &'static str,
        /// Start of the round, if it is measured.
        started: Option<Stamp>,
        /// True if a call failed.
        failed: bool,
    },
}

/// All evictions in progress. A preemptor that was retried before its round ended may have several rounds; only the
/// newest one holds it back.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    by_round: FxHashMap<u64, EvictionRound>,
    /// The newest round of each preemptor, by the preemptor's key.
    newest: FxHashMap<Str, u64>,
    /// Rounds that wait only for their last victim, keyed by the victim's UID.
    by_last_victim: FxHashMap<Str, Vec<u64>>,
    rounds: u64,
}

impl Evictions {
    /// Starts a round of `others` eviction calls, after which `last` is evicted. If the preemptor has an older round,
    /// that round no longer evicts its last victim. Returns the round's number.
    pub(crate) fn begin(
        &mut self,
        preemption: Preemption,
        others: usize,
        last: Arc<PodInfo>,
        started: Option<Stamp>,
    ) -> u64 {
        self.rounds += 1;
        let older = self.newest.insert(preemption.key.clone(), self.rounds);
        if let Some(older) = older.and_then(|older| self.by_round.get_mut(&older)) {
            older.last = None;
        }
        let last = Some(last);
        let (in_flight, waits_for) = (others, None);
        let eviction =
            EvictionRound { preemption, in_flight, last, waits_for, retry: false, started, failed: false };
        self.by_round.insert(self.rounds, eviction);
        self.rounds
    }

    /// Number of eviction calls in progress.
    pub(crate) fn requested(&self) -> usize {
        self.by_round.values().map(|eviction| eviction.in_flight).sum()
    }

    /// Returns the preemption of a round, if the round still exists.
    pub(crate) fn preemption(&self, round: u64) -> Option<&Preemption> {
        self.by_round.get(&round).map(|eviction| &eviction.preemption)
    }

    /// Creates the task that evicts one pod; `None` if the round no longer exists.
    pub(crate) fn task(&self, round: u64, victim: Arc<PodInfo>) -> Option<EvictTask> {
        let Preemption { uid, kind, scheduler, .. } = self.preemption(round)?;
        let message = format!("{scheduler}: preempting to accommodate a higher priority {kind}");
        Some(EvictTask { preemptor: uid.clone(), round, message, victim })
    }

    /// Cancels the eviction of the last victim because this engine no longer schedules the preemptor.
    pub(crate) fn give_up(&mut self, preemptor: &str) {
        let round = self.newest.get(preemptor);
        if let Some(eviction) = round.and_then(|round| self.by_round.get_mut(round)) {
            eviction.last = None;
        }
    }

    /// Records the end of an eviction call.
    pub(crate) fn call_finished(&mut self, round: u64, succeeded: bool) {
        if let Some(eviction) = self.by_round.get_mut(&round) {
            eviction.in_flight = eviction.in_flight.saturating_sub(1);
            eviction.retry |= !succeeded;
            eviction.failed |= !succeeded;
        }
    }

    /// Records that a victim left without an eviction call.
    pub(crate) fn finished_without_call(&mut self, round: u64) {
        if let Some(eviction) = self.by_round.get_mut(&round) {
            // No event will follow for the last victim.
            eviction.retry |= eviction.waits_for.is_some();
        }
        self.call_finished(round, true);
    }

    /// Returns the next step of a round. Once all calls have ended, the next step is the eviction of the last victim if
    /// that is still needed, and otherwise the end of the round.
    pub(crate) fn next(&mut self, round: u64, pods: &Pods) -> NextStep {
        let Some(eviction) = self.by_round.get_mut(&round) else { return NextStep::Wait };
        if eviction.in_flight > 0 {
            return NextStep::Wait;
        }
        let is_there = eviction.preemption.pods.iter().any(|uid| pods.get(uid).is_some());
        let wanted = !eviction.retry && is_there;
        let Some(last) = eviction.last.take().filter(|_| wanted) else { return self.end(round) };
        if pods.get(&last.uid).is_none() {
            // The victim left while the preemptor was held back, so its deletion could not wake the preemptor.
            eviction.retry = true;
            return self.end(round);
        }
        eviction.in_flight = 1;
        eviction.waits_for = Some(last.uid.clone());
        self.by_last_victim.entry(last.uid.clone()).or_default().push(round);
        NextStep::Evict(last)
    }

    /// Returns the keys of the preemptors that wait only for the given pod, which is terminating or deleted. They no
    /// longer need to be held back.
    pub(crate) fn victim_leaving(&mut self, uid: &str) -> Vec<Str> {
        let rounds = self.by_last_victim.remove(uid).into_iter().flatten();
        rounds.filter_map(|round| self.held_by(round)).collect()
    }

    fn end(&mut self, round: u64) -> NextStep {
        let held = self.held_by(round);
        let Some(eviction) = self.by_round.remove(&round) else { return NextStep::Wait };
        if let Some(victim) = &eviction.waits_for
            && let Some(rounds) = self.by_last_victim.get_mut(victim)
        {
            rounds.retain(|r| *r != round);
            if rounds.is_empty() {
                self.by_last_victim.remove(victim);
            }
        }
        if let Some(preemptor) = &held {
            self.newest.remove(preemptor);
        }
        let EvictionRound { preemption, retry, started, failed, .. } = eviction;
        let (kind, retry) = (preemption.kind, retry.then_some(preemption.key));
        NextStep::Over { held, retry, kind, started, failed }
    }

    /// Returns the preemptor that a round holds back.
    fn held_by(&self, round: u64) -> Option<Str> {
        let preemptor = &self.by_round.get(&round)?.preemption.key;
        (self.newest.get(preemptor) == Some(&round)).then(|| preemptor.clone())
    }
}
