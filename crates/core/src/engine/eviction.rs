//! Making room: the pods that must go, one after the other, and the pod that waits for it.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::pod::PodInfo;

use super::Engine;
use crate::effect::EvictTask;
use crate::{
    evictions::{Next, Purpose},
    input::EvictOutcome,
    queue::QueuedPod,
};

impl Engine {
    /// Evicts pods so that `entry`'s pod may go to `node`. Victims that are on their way out already are left alone.
    pub(super) fn begin_eviction(
        &mut self,
        entry: &QueuedPod,
        node: &Str,
        victims: Vec<Arc<PodInfo>>,
        now: Timestamp,
    ) {
        let all = victims.len();
        let mut victims: Vec<Arc<PodInfo>> = victims.into_iter().filter(|v| !v.is_terminating()).collect();
        let Some(last) = victims.pop() else { return };
        let begun = self.meter.as_ref().map(|meter| {
            meter.victims(all);
            meter.now()
        });
        self.clear_lower_nominations(&entry.pod, node);
        self.queue.hold_for_eviction(entry.pod.uid.clone());
        let purpose = Purpose { preemptor: entry.pod.clone(), node: node.clone() };
        let round = self.evictions.begin(purpose, victims.len(), last, begun);
        if victims.is_empty() {
            self.go_on_evicting(round, now);
        }
        for victim in victims {
            self.evict(round, victim, now);
        }
    }

    /// A call that [`crate::Effect::Evict`] asked for has ended.
    pub(super) fn evict_finished(&mut self, task: &EvictTask, outcome: &EvictOutcome, now: Timestamp) {
        match outcome {
            EvictOutcome::Evicted => self.report_preempted(task.round, &task.victim, ""),
            EvictOutcome::CalledOff => return self.evicted_in_memory(task.round, &task.victim, now),
            EvictOutcome::Gone | EvictOutcome::Failed(_) => {}
        }
        self.evictions.ended(task.round, !matches!(outcome, EvictOutcome::Failed(_)));
        self.go_on_evicting(task.round, now);
    }

    /// A pod is gone or on its way out: whoever waits for just this one need not be kept out of the queue any more.
    pub(super) fn victim_is_going(&mut self, uid: &str) {
        for preemptor in self.evictions.going(uid) {
            self.queue.release_from_eviction(&preemptor);
        }
    }

    /// Pods of lower priority that count on that node look for another one.
    fn clear_lower_nominations(&mut self, preemptor: &PodInfo, node: &Str) {
        for pod in self.nominator.of(&self.pods).below_on(node, preemptor) {
            if pod.status.nominated_node_name.is_some() {
                self.reporter.nominate(&pod, None);
            }
        }
    }

    /// Evicts one pod: in memory if it is still held back by Permit plugins, else through the API server.
    fn evict(&mut self, round: u64, victim: Arc<PodInfo>, now: Timestamp) {
        if self.preempt_waiting(&victim.uid, now) {
            self.evicted_in_memory(round, &victim, now);
        } else if let Some(task) = self.evictions.task(round, victim) {
            self.reporter.evict(task);
        }
    }

    /// A victim gave way before it was bound.
    fn evicted_in_memory(&mut self, round: u64, victim: &Arc<PodInfo>, now: Timestamp) {
        self.report_preempted(round, victim, " (in kube-scheduler memory).");
        self.evictions.ended_in_memory(round);
        self.go_on_evicting(round, now);
    }

    fn report_preempted(&mut self, round: u64, victim: &Arc<PodInfo>, how: &str) {
        if let Some(Purpose { preemptor, node }) = self.evictions.purpose(round) {
            self.reporter.preempted(victim, preemptor, node, how);
        }
    }

    fn go_on_evicting(&mut self, round: u64, now: Timestamp) {
        match self.evictions.next(round, &self.pods) {
            Next::Wait => {}
            Next::Evict(last) => {
                if self.pods.get(&last.uid).is_some_and(|known| known.is_terminating()) {
                    self.victim_is_going(&last.uid);
                }
                self.evict(round, last, now);
            }
            Next::Over { held, retry, begun, failed } => {
                if let (Some(meter), Some(begun)) = (&self.meter, begun) {
                    meter.evicted(failed, begun);
                }
                held.iter().for_each(|preemptor| self.queue.release_from_eviction(preemptor));
                retry.iter().for_each(|preemptor| self.queue.activate(preemptor, self.cache.at(now)));
            }
        }
    }
}
