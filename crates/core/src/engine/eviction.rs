//! Evicts victims step by step. The preemptor is held back until the last victim is terminating or gone, or until the
//! evictions have ended.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    group::{Disruption, PodGroup},
    pod::PodInfo,
};

use super::Engine;
use crate::effect::EvictTask;
use crate::{
    evictions::{NextStep, Preemption, Victims},
    input::EvictOutcome,
    meter::VictimCounts,
    queue::{self, QueuedPod},
};

impl Engine {
    /// Evicts pods so that `entry`'s pod can run on `node`. Victims that are already being deleted are skipped.
    pub(super) fn begin_eviction(&mut self, entry: &QueuedPod, node: &Str, victims: Victims, now: Timestamp) {
        if victims.pods.iter().any(|victim| !victim.is_terminating()) {
            self.clear_lower_nominations(&entry.pod, node);
        }
        self.begin_round(Preemption::for_pod(&entry.pod, node), victims, now);
    }

    /// Evicts pods so that the members of a group can run.
    pub(super) fn begin_group_eviction(
        &mut self,
        group: &PodGroup,
        members: Vec<Arc<PodInfo>>,
        victims: Victims,
        now: Timestamp,
    ) {
        let Some(first) = members.first() else { return };
        let preemption = Preemption {
            key: queue::key_of(&group.id),
            uid: group.uid.clone(),
            kind: "podgroup",
            scheduler: first.spec.scheduler_name.clone(),
            pods: members.iter().map(|pod| pod.uid.clone()).collect(),
            place: "cluster".into(),
        };
        self.begin_round(preemption, victims, now);
    }

    fn begin_round(&mut self, preemption: Preemption, victims: Victims, now: Timestamp) {
        let Victims { pods, violations } = victims;
        let counts = self.meter.as_ref().map(|_| {
            let disrupted = self.disrupted_groups(&pods);
            VictimCounts { pods: pods.len(), disrupted, violations }
        });
        let mut victims: Vec<Arc<PodInfo>> = pods.into_iter().filter(|v| !v.is_terminating()).collect();
        let Some(last) = victims.pop() else { return };
        let started = self.meter.as_ref().zip(counts).map(|(meter, counts)| {
            meter.victims(preemption.kind, counts);
            meter.now()
        });
        self.queue.hold_for_eviction(preemption.key.clone());
        let round = self.evictions.begin(preemption, victims.len(), last, started);
        if victims.is_empty() {
            self.continue_eviction(round, now);
        }
        for victim in victims {
            self.evict(round, victim, now);
        }
    }

    /// Number of groups that are disrupted as a whole, and of single members of other groups, among the victims.
    fn disrupted_groups(&self, victims: &[Arc<PodInfo>]) -> usize {
        let mut whole = BTreeSet::new();
        let is_first = |victim: &&Arc<PodInfo>| match victim.group().and_then(|id| self.cache.groups.get(id))
        {
            Some(group) if group.disruption == Disruption::All => whole.insert(&group.id),
            group => group.is_some(),
        };
        victims.iter().filter(is_first).count()
    }

    /// Handles the outcome of an eviction requested by [`crate::Effect::Evict`].
    pub(super) fn evict_finished(&mut self, task: &EvictTask, outcome: &EvictOutcome, now: Timestamp) {
        match outcome {
            EvictOutcome::Evicted => self.report_preempted(task.round, &task.victim, ""),
            EvictOutcome::CalledOff => return self.evicted_in_memory(task.round, &task.victim, now),
            EvictOutcome::Gone | EvictOutcome::Failed(_) => {}
        }
        self.evictions.call_finished(task.round, !matches!(outcome, EvictOutcome::Failed(_)));
        self.continue_eviction(task.round, now);
    }

    /// Releases preemptors that wait only for the given pod, which is terminating or deleted.
    pub(super) fn victim_leaving(&mut self, uid: &str) {
        for preemptor in self.evictions.victim_leaving(uid) {
            self.queue.release_from_eviction(&preemptor);
        }
    }

    /// Clears the nominations to `node` of all pods whose priority is lower than the preemptor's.
    fn clear_lower_nominations(&mut self, preemptor: &PodInfo, node: &Str) {
        for pod in self.nominator.of(&self.pods).below_on(node, preemptor) {
            if pod.status.nominated_node_name.is_some() {
                self.reporter.nominate(&pod, None);
            }
        }
    }

    /// Evicts one pod: rejects it if it waits on Permit, otherwise evicts it through the API server.
    fn evict(&mut self, round: u64, victim: Arc<PodInfo>, now: Timestamp) {
        if self.preempt_waiting(&victim.uid, now) {
            self.evicted_in_memory(round, &victim, now);
        } else if let Some(task) = self.evictions.task(round, victim) {
            self.reporter.evict(task);
        }
    }

    /// Records that a victim was preempted before it was bound.
    fn evicted_in_memory(&mut self, round: u64, victim: &Arc<PodInfo>, now: Timestamp) {
        self.report_preempted(round, victim, " (in kube-scheduler memory).");
        self.evictions.finished_without_call(round);
        self.continue_eviction(round, now);
    }

    fn report_preempted(&mut self, round: u64, victim: &Arc<PodInfo>, how: &str) {
        if let Some(preemption) = self.evictions.preemption(round) {
            self.reporter.preempted(victim, preemption, how);
        }
    }

    fn continue_eviction(&mut self, round: u64, now: Timestamp) {
        match self.evictions.next(round, &self.pods) {
            NextStep::Wait => {}
            NextStep::Evict(last) => {
                if self.pods.get(&last.uid).is_some_and(|known| known.is_terminating()) {
                    self.victim_leaving(&last.uid);
                }
                self.evict(round, last, now);
            }
            NextStep::Over { held, retry, kind, started, failed } => {
                if let (Some(meter), Some(started)) = (&self.meter, started) {
                    meter.evicted(kind, failed, started);
                }
                held.iter().for_each(|preemptor| self.queue.release_from_eviction(preemptor));
                retry.iter().for_each(|preemptor| self.queue.activate(preemptor, self.cache.at(now)));
            }
        }
    }
}
