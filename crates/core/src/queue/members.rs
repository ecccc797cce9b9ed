//! Members of groups in the queue.
//!
//! All queued members of a group are one element, whose place in the queue is that of the group: members that arrive
//! or return join it. A group of which no member is queued has no element. Members of a group whose object does not
//! exist wait outside the parts until it does.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::Str;
use harbormaster_framework::{
    group::{GroupId, PodGroup},
    pod::PodInfo,
};

use super::{
    Cause, Entity, Moment, Origin, Queue, QueueState, QueuedGroup, QueuedPod, Requeue, entry::key_of,
};

/// Members of groups whose objects do not exist.
#[derive(Debug, Default)]
pub(super) struct Incomplete(BTreeMap<GroupId, Vec<QueuedPod>>);

impl Incomplete {
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &QueuedPod> {
        self.0.values().flatten()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&QueuedPod> {
        self.all().find(|entry| *entry.uid() == uid)
    }

    /// Replaces a member by its newer version. Returns false if it is not here.
    pub(super) fn replace(&mut self, pod: &Arc<PodInfo>) -> bool {
        let members = pod.group().and_then(|group| self.0.get_mut(group));
        let member = members.and_then(|all| all.iter_mut().find(|entry| *entry.uid() == pod.uid));
        member.map(|entry| entry.pod = pod.clone()).is_some()
    }

    /// All members by value.
    pub(super) fn into_all(self) -> impl Iterator<Item = QueuedPod> {
        self.0.into_values().flatten()
    }

    /// Adds a member of a group.
    pub(super) fn add(&mut self, entry: QueuedPod) {
        if let Some(group) = entry.pod.group().cloned() {
            self.0.entry(group).or_default().push(entry);
        }
    }

    fn remove(&mut self, group: &GroupId, uid: &str) {
        if let Some(members) = self.0.get_mut(group) {
            members.retain(|entry| *entry.uid() != uid);
            if members.is_empty() {
                self.0.remove(group);
            }
        }
    }
}

/// Result of the cycle of a group.
#[derive(Clone, Debug)]
pub(crate) enum GroupResult {
    /// Enough members have nodes.
    Scheduled,
    /// Too few members have nodes, because of these plugins.
    Rejected(Vec<&'static str>),
    /// An error.
    Failed,
}

impl Queue {
    /// Adds a new member of a group. `how` applies if the group has no element yet.
    pub(super) fn add_member(
        &mut self,
        id: &GroupId,
        entry: QueuedPod,
        how: Requeue,
        origin: Origin,
        at: Moment<'_>,
    ) {
        let Some(group) = at.groups.get(id) else { return self.incomplete.add(entry) };
        let key = key_of(id);
        self.group_keys.insert(entry.uid().clone(), key.clone());
        match self.take(&key) {
            Some((state, Entity::Group(group))) => self.join(group, state, entry, at),
            _ => {
                let standing = entry.standing.clone();
                let entity = Entity::Group(QueuedGroup::new(group.clone(), vec![entry], standing));
                self.insert(entity, how, origin, at);
            }
        }
    }

    /// Adds a member to an element that was in the given part, and puts the element back. The new member may gate a group
    /// that is active or in backoff. A group that waits for an event continues to wait.
    fn join(&mut self, mut group: QueuedGroup, state: QueueState, entry: QueuedPod, at: Moment<'_>) {
        group.members.push(entry);
        let entity = Entity::Group(group);
        if state == QueueState::Unschedulable {
            return self.put_back(state, entity, at);
        }
        let newcomer = entity.pods().last();
        match newcomer.map_or(Ok(None), |entry| self.gate_of(&entity, entry, at)) {
            Ok(Some(gate)) => self.put_gated(entity, gate, self.joined(state)),
            // If the plugin fails, the whole element is checked again.
            Err(_) => self.enter_active(entity, self.joined(state), at),
            Ok(None) => self.put_back(state, entity, at),
        }
    }

    /// Puts an element back into the part from which it was taken.
    fn put_back(&mut self, state: QueueState, entity: Entity, at: Moment<'_>) {
        match state {
            QueueState::Active => self.push_active(entity, self.joined(state), at),
            QueueState::Backoff => self.push_backoff(entity),
            _ => self.put_unschedulable(entity, self.joined(state)),
        }
    }

    /// Origin of an element that moves because its members change.
    fn joined(&self, from: QueueState) -> Origin {
        Origin { from, cause: Cause::Event(self.pod_created) }
    }

    /// Returns a member whose attempt has failed after its group's cycle had ended. If the group has no element, the
    /// member waits as a pod on its own would.
    pub(super) fn return_member(&mut self, entry: QueuedPod, how: Requeue, at: Moment<'_>) {
        if let Some(group) = entry.pod.group().cloned() {
            self.add_member(&group, entry, how, Origin::ATTEMPT_FAILED, at);
        }
    }

    /// Returns the members of a group that have found no node when their cycle ends.
    pub(crate) fn give_back_group(&mut self, mut group: QueuedGroup, result: GroupResult, at: Moment<'_>) {
        group.members.iter().for_each(|entry| self.in_flight.end(entry.uid()));
        // Members may have returned on their own, because the cycle gave them nodes that they lost.
        let key = key_of(&group.group.id);
        if let Some((_, Entity::Group(returned))) = self.take(&key) {
            group.members.extend(returned.members);
        }
        if group.members.is_empty() {
            return;
        }
        let how = self.standing_after(&mut group, result, at);
        let Some(latest) = at.groups.get(&group.group.id) else {
            return group.members.into_iter().for_each(|entry| self.incomplete.add(entry));
        };
        group.group = latest.clone();
        for entry in &group.members {
            self.group_keys.insert(entry.uid().clone(), key.clone());
        }
        let entity = Entity::Group(group);
        self.count_rejectors(&entity, true);
        self.insert(entity, how, Origin::ATTEMPT_FAILED, at);
    }

    /// Updates a group's standing after a cycle, and decides when the group is tried again.
    fn standing_after(&self, group: &mut QueuedGroup, result: GroupResult, at: Moment<'_>) -> Requeue {
        let standing = &mut group.standing;
        match result {
            // The rest of a group that is running is tried once more at once: now PostFilter may help it.
            GroupResult::Scheduled => {
                (standing.rejections, standing.consecutive_errors) = (0, 0);
                standing.backoff_until = None;
                Requeue::Now
            }
            GroupResult::Rejected(rejectors) => {
                standing.failed(rejectors, Vec::new(), at.now);
                if self.retries_groups { Requeue::AfterBackoff } else { Requeue::Stay }
            }
            GroupResult::Failed => {
                standing.failed(Vec::new(), Vec::new(), at.now);
                Requeue::AfterBackoff
            }
        }
    }

    /// Removes a member that was deleted or bound. A group that is gated is checked again, because the member may have
    /// been the reason.
    pub(super) fn remove_member(&mut self, id: &GroupId, uid: &Str, at: Moment<'_>) {
        self.incomplete.remove(id, uid);
        let Some(key) = self.group_keys.remove(uid) else { return };
        let Some((state, Entity::Group(mut group))) = self.take(&key) else { return };
        group.members.retain(|entry| entry.uid() != uid);
        let entity = Entity::Group(group);
        if entity.pods().is_empty() {
            self.count_rejectors(&entity, false);
        } else if entity.gated_by.is_some() {
            self.enter_active(entity, self.joined(state), at);
        } else {
            self.put_back(state, entity, at);
        }
    }

    /// Handles a group whose object was created or changed: the members that waited for it form an element.
    pub(crate) fn group_changed(&mut self, group: &Arc<PodGroup>, at: Moment<'_>) {
        let key = key_of(&group.id);
        if let Some((state, Entity::Group(mut queued))) = self.take(&key) {
            queued.group = group.clone();
            self.put_back(state, Entity::Group(queued), at);
        }
        let Some(members) = self.incomplete.0.remove(&group.id) else { return };
        let Some(standing) = members.first().map(|entry| entry.standing.clone()) else { return };
        for entry in &members {
            self.group_keys.insert(entry.uid().clone(), key.clone());
        }
        let entity = Entity::Group(QueuedGroup::new(group.clone(), members, standing));
        self.enter_active(entity, self.joined(QueueState::New), at);
    }

    /// Handles a group whose object was deleted: its queued members wait until it is created again.
    pub(crate) fn group_gone(&mut self, id: &GroupId) {
        let Some((_, entity)) = self.take(&key_of(id)) else { return };
        self.count_rejectors(&entity, false);
        if let Entity::Group(group) = entity {
            for mut entry in group.members {
                self.group_keys.remove(entry.uid());
                entry.standing.rejectors.clear();
                self.incomplete.add(entry);
            }
        }
    }
}
