//! The check of the pods that wait: each of them must have a reason to be woken, or something in progress whose end will
//! be reported. A pod without one is reported and tried again.

use std::sync::Arc;

use harbormaster_api::Timestamp;
use harbormaster_framework::pod::PodInfo;

use super::Engine;
use crate::watchdog::{Stuck, Suspect};

impl Engine {
    /// Looks at every pod without a node. In parity, stuck pods are only reported, because kube-scheduler would leave
    /// them alone.
    pub(super) fn check_waiting_pods(&mut self, now: Timestamp) {
        let suspects = self.pods.without_node().filter_map(|pod| self.suspect(pod, now)).collect();
        for Suspect { uid, why, .. } in self.watchdog.check(suspects, now) {
            let Some(pod) = self.pods.get(&uid).cloned() else { continue };
            if let Some(meter) = &self.meter {
                meter.stuck(why);
            }
            self.reporter.note_stuck(pod.clone(), why);
            if !self.finder.is_in_parity() {
                self.rescue(&pod, now);
            }
        }
    }

    /// Returns the reason why the pod seems to be stuck, if there is one.
    fn suspect(&self, pod: &Arc<PodInfo>, now: Timestamp) -> Option<Suspect> {
        let uid = &pod.uid;
        self.queue.profile_of(&pod.spec.scheduler_name).filter(|_| !pod.is_terminating())?;
        let (why, attempts) = if let Some(binding) = self.bindings.get(uid) {
            let why = match binding.first_wait() {
                Some(wait) => (wait.until < now).then_some(Stuck::Overdue),
                None => Some(Stuck::Unreported),
            };
            (why, binding.entry.attempts)
        } else if let Some(entry) = self.inquiries.get(uid) {
            (Some(Stuck::Unanswered), entry.attempts)
        } else if self.cache.is_on_node(uid) {
            (Some(Stuck::Unconfirmed), 0)
        } else {
            (self.queue.stuck(pod, self.cache.at(now)), 0)
        };
        Some(Suspect { uid: uid.clone(), why: why?, attempts })
    }

    /// Has a stuck pod tried again. A pod whose binding or eviction is not reported stays as it is: the request may still
    /// be carried out, and a second one would contradict it.
    fn rescue(&mut self, pod: &Arc<PodInfo>, now: Timestamp) {
        let uid = &pod.uid;
        if let Some(binding) = self.bindings.get(uid) {
            if let Some(wait) = binding.first_wait() {
                self.reject_waiting(uid, wait.plugin, "the end of the wait was missed".to_owned(), now);
            }
        } else if let Some(entry) = self.inquiries.take(uid) {
            self.queue.take_back(entry, self.cache.at(now));
            self.queue.set_occupied(self.inquiries.occupied());
        } else if !self.cache.is_on_node(uid)
            && let Some(profile) = self.queue.profile_of(&pod.spec.scheduler_name)
        {
            self.queue.rescue(pod, profile, self.cache.at(now));
        }
    }
}

#[cfg(test)]
mod tests;
