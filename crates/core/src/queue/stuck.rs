//! Pods that the queue would never hand out again.

use std::sync::Arc;

use harbormaster_framework::pod::PodInfo;

use super::{Cause, Entity, Moment, Queue, QueueState, Requeue, wakers::Listener};
use crate::watchdog::Stuck;

impl Queue {
    /// Returns the reason why a pod that should be in the queue would stay there for ever, if there is one. Times that
    /// have passed count as missed, so the queue must have handled them before.
    pub(crate) fn stuck(&self, pod: &PodInfo, at: Moment<'_>) -> Option<Stuck> {
        let Some((entity, part)) = self.place_of(&pod.uid) else {
            let waits_for_group =
                self.incomplete.holds(pod) && pod.group().is_none_or(|id| at.groups.get(id).is_none());
            return (!waits_for_group).then_some(Stuck::Lost);
        };
        match part {
            QueueState::Backoff => (self.backoff.release(entity) < at.now).then_some(Stuck::Overdue),
            QueueState::Unschedulable => self.stuck_waiting(entity, at),
            _ => None,
        }
    }

    fn stuck_waiting(&self, entity: &Entity, at: Moment<'_>) -> Option<Stuck> {
        if self.held_for_eviction.contains(entity.key()) {
            return Some(Stuck::Unreported);
        }
        if !self.parts.is_listed(entity) {
            return Some(Stuck::Lost);
        }
        if self.is_flushed(entity) {
            return (self.stale_at(entity) < at.now).then_some(Stuck::Overdue);
        }
        let gate = entity.gated_by?;
        let listener = Listener { profile: entity.profile, plugin: gate };
        (!self.wakers.has_any(listener)).then_some(Stuck::Unheard)
    }

    /// Makes a stuck pod active, wherever it is. A pod that is nowhere is added as if it were new.
    pub(crate) fn rescue(&mut self, pod: &Arc<PodInfo>, profile: usize, at: Moment<'_>) {
        let key = self.key_of(&pod.uid).clone();
        match self.place_of(&pod.uid).map(|(_, part)| part) {
            Some(QueueState::Unschedulable) => self.wake(&key, Requeue::Now, Cause::Timeout, at),
            Some(QueueState::Backoff) => {
                if let Some(entity) = self.parts.take_backoff(&key) {
                    self.leave_backoff(entity, Cause::Timeout, at);
                }
            }
            Some(_) => {}
            None => {
                self.in_flight.end(&pod.uid);
                self.group_keys.remove(&pod.uid);
                match pod.group().and_then(|id| at.groups.get(id)).cloned() {
                    Some(group) if self.incomplete.holds(pod) => self.group_changed(&group, at),
                    _ => self.add(pod.clone(), profile, at),
                }
            }
        }
    }

    /// Loses a pod, as a bug might.
    #[cfg(test)]
    pub(crate) fn lose(&mut self, uid: &harbormaster_api::Str) {
        let key = self.key_of(uid).clone();
        self.parts.take(&key);
    }

    /// Loses a pod whose attempt seems to go on.
    #[cfg(test)]
    pub(crate) fn lose_in_flight(&mut self, uid: &harbormaster_api::Str) {
        self.lose(uid);
        self.in_flight.begin(uid.clone());
    }

    /// Leaves gated pods alone, as releases before 1.37 do.
    #[cfg(test)]
    pub(crate) fn stop_flushing_gated(&mut self) {
        self.flushes_gated = false;
    }

    /// Makes a waiting pod deaf to events.
    #[cfg(test)]
    pub(crate) fn unlist(&mut self, uid: &harbormaster_api::Str) {
        let key = self.key_of(uid).clone();
        self.parts.unlist(&key);
    }
}
