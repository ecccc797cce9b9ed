//! Changes to pods, nodes and custom objects wake the queued pods that they may help. Changes to bound pods and nodes
//! also update the cache.

use std::sync::Arc;

use harbormaster_api::{Node, Pod, Str, Timestamp};
use harbormaster_framework::{
    events::{Action, ClusterEvent, EventResource, PodEvents, node_events},
    meter::Stamp,
    pod::PodInfo,
    resource::CustomChange,
};

use super::Engine;
use crate::{meter::Meter, queue::OwnedChange};

/// Time of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeTime {
    now: Timestamp,
    /// Start of the handling, if it is measured.
    begun: Option<Stamp>,
}

impl ChangeTime {
    /// Time of a change made by the engine itself, whose handling is not measured.
    pub(super) fn unmeasured(now: Timestamp) -> Self {
        Self { now, begun: None }
    }
}

impl Engine {
    /// Begins the handling of a change in the cluster and returns the time of the change.
    pub(super) fn begin(&self, now: Timestamp) -> ChangeTime {
        ChangeTime { now, begun: self.meter.as_deref().map(Meter::now) }
    }

    /// Handles changes to custom objects: wakes the pods that the changes may help.
    pub(super) fn custom_changed(&mut self, changes: Vec<CustomChange>, at: ChangeTime) {
        if let Some(change) = changes.first() {
            self.queue.on_ranking_change(change.resource, self.cache.cluster.objects());
        }
        for change in changes {
            self.group_changed(&change, at.now);
            let (event, change) = OwnedChange::of_custom(change);
            self.notify_queue(event, &change, at);
        }
    }

    /// Handles a change to an object that describes a group.
    fn group_changed(&mut self, change: &CustomChange, now: Timestamp) {
        let CustomChange { resource, old, new } = change;
        let Some(object) = new.as_ref().or(old.as_ref()) else { return };
        let Some(group) = self.cache.groups.describe(*resource, object) else { return };
        let group = Arc::new(group);
        if new.is_some() {
            self.cache.groups.set(group.clone());
            self.queue.group_changed(&group, self.cache.at(now));
        } else {
            self.cache.groups.remove(&group.id);
            self.queue.group_gone(&group.id);
        }
    }

    /// Wakes the pods that an event may help.
    fn notify_queue(&mut self, event: ClusterEvent, change: &OwnedChange, at: ChangeTime) {
        self.queue.on_event(event, change, self.cache.at(at.now));
        self.report_handled(event, at);
    }

    /// Reports to the meter that the change was handled as the given event.
    fn report_handled(&self, event: ClusterEvent, at: ChangeTime) {
        if let (Some(meter), Some(begun)) = (&self.meter, at.begun) {
            meter.handled(event, begun);
        }
    }

    pub(super) fn pod_changed(&mut self, pod: Pod, at: ChangeTime) {
        let info = self.cache.info(pod);
        if info.is_terminating() {
            self.victim_leaving(&info.uid);
        }
        let old = self.pods.set(info.clone());
        if let (None, Some(group)) = (&old, info.group()) {
            self.cache.groups.count_member(group, true);
        }
        let was_bound = old.as_ref().is_some_and(|o| o.node_name.is_some());
        match (old, info.node_name.clone()) {
            (old, Some(node)) => self.bound_pod(old.filter(|_| was_bound), info, &node, at),
            (None, None) => self.new_pending_pod(info, at),
            (Some(old), None) => self.pending_pod_changed(&old, info, at),
        }
    }

    fn bound_pod(&mut self, old: Option<Arc<PodInfo>>, new: Arc<PodInfo>, node: &Str, at: ChangeTime) {
        self.cache.set_pod(new.clone(), node);
        self.nominator.clear(&new.uid);
        let (before, after) = (old.as_ref().map(|o| o.pod.clone()), Some(new.pod.clone()));
        let change = OwnedChange::Pod(before, after);
        match old {
            None => {
                self.queue.delete(&new, self.cache.at(at.now));
                let added = ClusterEvent::new(EventResource::AssignedPod, Action::ADD);
                self.notify_queue(added, &change, at);
            }
            Some(old) => {
                for event in self.pod_events.updates(EventResource::AssignedPod, &old.pod, &new.pod) {
                    self.notify_queue(event, &change, at);
                }
            }
        }
    }

    pub(super) fn new_pending_pod(&mut self, pod: Arc<PodInfo>, at: ChangeTime) {
        let Some(profile) = self.queue.profile_of(&pod.spec.scheduler_name) else { return };
        if let Some(node) = &pod.status.nominated_node_name {
            self.nominator.nominate(&pod.uid, node);
        }
        let added = ClusterEvent::new(self.pod_events.unbound, Action::ADD);
        let joins = pod.group().is_some().then(|| OwnedChange::Pod(None, Some(pod.pod.clone())));
        self.queue.add(pod, profile, self.cache.at(at.now));
        match joins {
            // Other members may wait for this one.
            Some(change) => self.notify_queue(added, &change, at),
            None => self.report_handled(added, at),
        }
    }

    fn pending_pod_changed(&mut self, old: &Arc<PodInfo>, new: Arc<PodInfo>, at: ChangeTime) {
        if old.resource_version == new.resource_version && !new.resource_version.is_empty() {
            return;
        }
        if self.bindings.contains(&new.uid) {
            if !old.is_terminating() && new.is_terminating() {
                self.assumed_pod_deleted(&new, at);
            }
            return;
        }
        // The binding has ended, but this change predates the binding, which the watch will report later.
        if self.cache.is_assumed(&new.uid) {
            return;
        }
        let Some(profile) = self.queue.profile_of(&new.spec.scheduler_name) else { return };
        self.nominator.follow(old, &new);
        let PodEvents { own, unbound, .. } = self.pod_events;
        let events: Vec<ClusterEvent> = self.pod_events.updates(own, &old.pod, &new.pod).collect();
        let change = OwnedChange::Pod(Some(old.pod.clone()), Some(new.pod.clone()));
        self.queue.update(new.clone(), profile, &events, &change, self.cache.at(at.now));
        events.iter().for_each(|event| self.report_handled(ClusterEvent::new(unbound, event.action), at));
        let nominated = &old.status.nominated_node_name;
        if nominated.is_some() && *nominated != new.status.nominated_node_name {
            self.room_given_up(old, at);
        }
    }

    /// Wakes pods of equal or lower priority, because `pod` no longer claims its nominated node.
    fn room_given_up(&mut self, pod: &Arc<PodInfo>, at: ChangeTime) {
        let priority = pod.priority();
        self.pod_left_its_node_for(pod, at, |other| other.priority() <= priority);
    }

    pub(super) fn pod_gone(&mut self, uid: &Str, at: ChangeTime) {
        let Some(old) = self.pods.remove(uid) else { return };
        if let Some(group) = old.group() {
            self.cache.groups.count_member(group, false);
        }
        self.victim_leaving(uid);
        let nominated = self.nominator.node_of(uid).is_some() || old.status.nominated_node_name.is_some();
        self.nominator.clear(uid);
        if old.node_name.is_some() {
            self.cache.remove(uid);
            self.pod_left_its_node(&old, at);
        } else {
            self.queue.delete(&old, self.cache.at(at.now));
            if self.inquiries.drop_pod(uid) {
                self.queue.done(uid);
                self.queue.set_occupied(self.inquiries.occupied());
            }
            if self.queue.profile_of(&old.spec.scheduler_name).is_some() {
                let deleted = ClusterEvent::new(self.pod_events.unbound, Action::DELETE);
                self.report_handled(deleted, at);
            }
            if self.cache.is_assumed(uid) {
                self.assumed_pod_deleted(&old, at);
            } else if nominated {
                self.room_given_up(&old, at);
            }
        }
        // Plugins may have made assumptions for the pod, whatever its state. If the pod is being bound, these
        // assumptions are reverted when the binding ends.
        if self.bindings.contains(uid) {
            self.reporter.call_off(uid, "pod does not exist any more");
        } else {
            self.cache.cluster.revert_assumptions(uid);
        }
    }

    /// Handles a pod that is deleted, or starts terminating, after its node was chosen and before it is bound.
    fn assumed_pod_deleted(&mut self, pod: &Arc<PodInfo>, at: ChangeTime) {
        if !self.reject_waiting(&pod.uid, "", "removed".to_owned(), at.now) {
            self.cache.forget(&pod.uid);
        }
        self.pod_left_its_node(pod, at);
    }

    pub(super) fn pod_left_its_node(&mut self, pod: &Arc<PodInfo>, at: ChangeTime) {
        self.pod_left_its_node_for(pod, at, |_| true);
    }

    /// Wakes pods that may use the resources of `pod`, which has left its node. Wakes only pods for which `concerns`
    /// returns true.
    pub(super) fn pod_left_its_node_for(
        &mut self,
        pod: &Arc<PodInfo>,
        at: ChangeTime,
        concerns: impl Fn(&PodInfo) -> bool,
    ) {
        let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
        let change = OwnedChange::Pod(Some(pod.pod.clone()), None);
        self.queue.on_event_for(event, &change, self.cache.at(at.now), concerns);
        self.report_handled(event, at);
    }

    // --- nodes ---

    pub(super) fn node_changed(&mut self, node: Node, at: ChangeTime) {
        let new = Arc::new(node);
        let old = self.cache.set_node(new.clone());
        let change = OwnedChange::Node(old.clone(), Some(new.clone()));
        match old {
            None => {
                let added = ClusterEvent::new(EventResource::Node, Action::ADD);
                self.notify_queue(added, &change, at);
            }
            Some(old) => {
                for event in node_events(&old, &new) {
                    self.notify_queue(event, &change, at);
                }
            }
        }
    }

    pub(super) fn node_gone(&mut self, name: &str, at: ChangeTime) {
        let Some(old) = self.cache.node(name).cloned() else { return };
        let gone = ClusterEvent::new(EventResource::Node, Action::DELETE);
        self.notify_queue(gone, &OwnedChange::Node(Some(old), None), at);
        self.cache.remove_node(name);
    }
}
