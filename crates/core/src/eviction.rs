//! Evicting pods to make room for another (KEP-4832).
//!
//! ```text
//! all victims but the last ──all evicted──> the last one ──evicted──> over
//!            └────────────some eviction failed─────────────┴──> the preemptor is tried again at once
//! ```
//!
//! Until the end the preemptor is kept out of the queue. It is let in a moment earlier, when the last victim is seen to
//! go: the event of its going is what wakes the preemptor.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::pod::PodInfo;
use rustc_hash::FxHashMap;

use crate::{
    effect::{Effect, EvictTask, PodEvent, StatusPatch},
    engine::Engine,
    input::EvictOutcome,
    queue::QueuedPod,
};

/// The victims of one attempt.
#[derive(Debug)]
struct Eviction {
    preemptor: Arc<PodInfo>,
    node: Str,
    /// Whose events and conditions speak.
    reporter: Str,
    /// How many calls are on their way.
    in_flight: usize,
    /// The victim that waits until all others are gone.
    last: Option<Arc<PodInfo>>,
    /// The UID of that victim, once it is its turn.
    waits_for: Option<Str>,
    /// Nothing that is still to come may wake the preemptor: it is tried again at the end.
    retry: bool,
}

/// All evictions on their way. A preemptor that was tried in between may have several rounds of them; only the newest
/// keeps it out of the queue.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    by_round: FxHashMap<u64, Eviction>,
    /// By the preemptor's UID.
    newest: FxHashMap<Str, u64>,
    /// Rounds that wait for just this victim, by the victim's UID.
    last_ones: FxHashMap<Str, Vec<u64>>,
    rounds: u64,
}

impl Evictions {
    /// The round of a new eviction. What an older one of the same preemptor has not asked for yet is not wanted any more.
    fn begin(&mut self, eviction: Eviction) -> u64 {
        self.rounds += 1;
        let older = self.newest.insert(eviction.preemptor.uid.clone(), self.rounds);
        if let Some(older) = older.and_then(|older| self.by_round.get_mut(&older)) {
            older.last = None;
        }
        self.by_round.insert(self.rounds, eviction);
        self.rounds
    }

    /// Forgets a round.
    fn end(&mut self, round: u64) -> Option<Eviction> {
        let eviction = self.by_round.remove(&round)?;
        if let Some(victim) = &eviction.waits_for
            && let Some(rounds) = self.last_ones.get_mut(victim)
        {
            rounds.retain(|r| *r != round);
            if rounds.is_empty() {
                self.last_ones.remove(victim);
            }
        }
        Some(eviction)
    }

    /// The preemptor that a round keeps out of the queue.
    fn held_by(&self, round: u64) -> Option<&Str> {
        let preemptor = &self.by_round.get(&round)?.preemptor.uid;
        (self.newest.get(preemptor) == Some(&round)).then_some(preemptor)
    }
}

impl Engine {
    /// Evicts pods so that `entry`'s pod may go to `node`. Victims that are on their way out already are left alone.
    pub(crate) fn begin_eviction(
        &mut self,
        entry: &QueuedPod,
        node: &Str,
        victims: Vec<Arc<PodInfo>>,
        now: Timestamp,
    ) {
        let mut victims: Vec<Arc<PodInfo>> = victims.into_iter().filter(|v| !v.is_terminating()).collect();
        let Some(last) = victims.pop() else { return };
        self.clear_lower_nominations(&entry.pod, node);
        self.queue.hold_for_eviction(entry.pod.uid.clone());
        let round = self.evictions.begin(Eviction {
            preemptor: entry.pod.clone(),
            node: node.clone(),
            reporter: self.runners[entry.profile].profile().name().clone(),
            in_flight: victims.len(),
            last: Some(last),
            waits_for: None,
            retry: false,
        });
        if victims.is_empty() {
            self.go_on_evicting(round, now);
        }
        for victim in victims {
            self.evict(round, victim, now);
        }
    }

    /// Pods of lower priority that count on that node look for another one.
    fn clear_lower_nominations(&mut self, preemptor: &PodInfo, node: &Str) {
        let pods = self.nominator.pods_on(node).iter().filter_map(|uid| self.pods.get(uid));
        let lower = pods.filter(|pod| pod.priority() < preemptor.priority());
        let told = lower.filter(|pod| pod.status.nominated_node_name.is_some());
        let clear = |pod: &Arc<PodInfo>| {
            let pod = pod.clone();
            Effect::PatchStatus(StatusPatch { pod, condition: None, nominated_node: Some(None) })
        };
        self.effects.extend(told.map(clear));
    }

    /// Evicts one pod: in memory if it is still held back by Permit plugins, else through the API server.
    fn evict(&mut self, round: u64, victim: Arc<PodInfo>, now: Timestamp) {
        if self.preempt_waiting(&victim.uid, now) {
            self.evicted_in_memory(round, &victim, now);
            return;
        }
        let Some(eviction) = self.evictions.by_round.get(&round) else { return };
        let preemptor = &eviction.preemptor;
        self.effects.push(Effect::Evict(EvictTask {
            preemptor: preemptor.uid.clone(),
            round,
            message: format!(
                "{}: preempting to accommodate a higher priority pod",
                preemptor.spec.scheduler_name
            ),
            victim,
        }));
    }

    /// A call that [`Effect::Evict`] asked for has ended.
    pub(crate) fn evict_finished(&mut self, task: &EvictTask, outcome: &EvictOutcome, now: Timestamp) {
        match outcome {
            EvictOutcome::Evicted => {
                self.preempted_event(task.round, &task.victim, "");
                self.eviction_ended(task.round, true, now);
            }
            EvictOutcome::Gone => self.eviction_ended(task.round, true, now),
            EvictOutcome::Failed(_) => self.eviction_ended(task.round, false, now),
        }
    }

    fn evicted_in_memory(&mut self, round: u64, victim: &Arc<PodInfo>, now: Timestamp) {
        self.preempted_event(round, victim, " (in kube-scheduler memory).");
        if let Some(eviction) = self.evictions.by_round.get_mut(&round) {
            // Of the last victim nothing more will be heard.
            eviction.retry |= eviction.waits_for.is_some();
        }
        self.eviction_ended(round, true, now);
    }

    fn preempted_event(&mut self, round: u64, victim: &Arc<PodInfo>, how: &str) {
        let Some(eviction) = self.evictions.by_round.get(&round) else { return };
        self.effects.push(Effect::Event(PodEvent {
            pod: victim.clone(),
            warning: false,
            reason: "Preempted",
            action: "Preempting",
            note: format!("Preempted by pod {} on node {}{how}", eviction.preemptor.uid, eviction.node),
            reporter: eviction.reporter.clone(),
        }));
    }

    fn eviction_ended(&mut self, round: u64, well: bool, now: Timestamp) {
        if let Some(eviction) = self.evictions.by_round.get_mut(&round) {
            eviction.in_flight = eviction.in_flight.saturating_sub(1);
            eviction.retry |= !well;
            self.go_on_evicting(round, now);
        }
    }

    /// When all calls have ended: the last victim's turn if it is still wanted, else the end.
    fn go_on_evicting(&mut self, round: u64, now: Timestamp) {
        let Some(eviction) = self.evictions.by_round.get_mut(&round) else { return };
        if eviction.in_flight > 0 {
            return;
        }
        let wanted = !eviction.retry && self.pods.contains_key(&eviction.preemptor.uid);
        let Some(last) = eviction.last.take().filter(|_| wanted) else {
            self.end_eviction(round, now);
            return;
        };
        let Some(known) = self.pods.get(&last.uid) else {
            // It went while the preemptor was kept out, and could not wake it.
            eviction.retry = true;
            self.end_eviction(round, now);
            return;
        };
        eviction.in_flight = 1;
        eviction.waits_for = Some(last.uid.clone());
        self.evictions.last_ones.entry(last.uid.clone()).or_default().push(round);
        if known.is_terminating() {
            self.victim_is_going(&last.uid);
        }
        self.evict(round, last, now);
    }

    fn end_eviction(&mut self, round: u64, now: Timestamp) {
        let held = self.evictions.held_by(round).cloned();
        let Some(eviction) = self.evictions.end(round) else { return };
        if let Some(preemptor) = held {
            self.evictions.newest.remove(&preemptor);
            self.queue.release_from_eviction(&preemptor);
        }
        if eviction.retry {
            self.queue.activate(&eviction.preemptor.uid, now);
        }
    }

    /// A pod is gone or on its way out: whoever waits for just this one need not be kept out of the queue any more.
    pub(crate) fn victim_is_going(&mut self, uid: &str) {
        for round in self.evictions.last_ones.remove(uid).into_iter().flatten() {
            if let Some(preemptor) = self.evictions.held_by(round) {
                self.queue.release_from_eviction(preemptor);
            }
        }
    }
}
