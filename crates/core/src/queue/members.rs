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
    Cause, Entity, Moment, Note, Origin, Queue, QueueState, QueuedGroup, QueuedPod, Requeue, entry::key_of,
};

/// Members of groups whose objects do not exist.
#[derive(Debug, Default)]
pub(super) struct Incomplete {
    groups: BTreeMap<GroupId, Vec<QueuedPod>>,
    /// Number of members.
    len: usize,
}

impl Incomplete {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &QueuedPod> {
        self.groups.values().flatten()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&QueuedPod> {
        self.all().find(|entry| *entry.uid() == uid)
    }

    /// Returns true if a member is here.
    pub(super) fn holds(&self, pod: &PodInfo) -> bool {
        let members = pod.group().and_then(|group| self.groups.get(group));
        members.is_some_and(|all| all.iter().any(|entry| *entry.uid() == pod.uid))
    }

    /// Replaces a member by its newer version. Returns false if it is not here.
    pub(super) fn replace(&mut self, pod: &Arc<PodInfo>) -> bool {
        let members = pod.group().and_then(|group| self.groups.get_mut(group));
        let member = members.and_then(|all| all.iter_mut().find(|entry| *entry.uid() == pod.uid));
        member.map(|entry| entry.pod = pod.clone()).is_some()
    }

    /// All members by value.
    pub(super) fn into_all(self) -> impl Iterator<Item = QueuedPod> {
        self.groups.into_values().flatten()
    }

    /// Adds a member of a group.
    pub(super) fn add(&mut self, entry: QueuedPod) {
        if let Some(group) = entry.pod.group().cloned() {
            self.groups.entry(group).or_default().push(entry);
            self.len += 1;
        }
    }

    fn remove(&mut self, group: &GroupId, uid: &str) {
        if let Some(members) = self.take(group) {
            members.into_iter().filter(|entry| *entry.uid() != uid).for_each(|entry| self.add(entry));
        }
    }

    /// Takes the members of a group.
    fn take(&mut self, group: &GroupId) -> Option<Vec<QueuedPod>> {
        let members = self.groups.remove(group)?;
        self.len -= members.len();
        Some(members)
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

/// What may gate an element, or open its gate, after a change.
enum Check {
    Nothing,
    /// A new member, which is the last one.
    Newcomer,
    /// All members, if the element is gated.
    Gate,
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
        if self.parts.get(&key).is_none() {
            let standing = entry.standing.clone();
            let entity = Entity::Group(QueuedGroup::new(group.clone(), vec![entry], standing));
            return self.insert(entity, how, origin, at);
        }
        let pod = entry.pod.clone();
        let from = self.change_element(&key, at, |group| {
            group.members.push(entry);
            Check::Newcomer
        });
        let to = self.parts.state_of(&key);
        // If the element has moved, the move of all members was noted.
        if let (Some(from), Some(to)) = (from, to)
            && from == to
        {
            self.note_joined(pod, origin, to);
        }
    }

    /// Changes the element of a group, if there is one, and puts it back into the part that it was in. There, a member
    /// may gate the element, or no longer gate it. An element without members is dropped. Returns the part.
    fn change_element(
        &mut self,
        key: &Str,
        at: Moment<'_>,
        change: impl FnOnce(&mut QueuedGroup) -> Check,
    ) -> Option<QueueState> {
        let (state, mut entity) = self.parts.take(key)?;
        let Entity::Group(group) = &mut entity else { return None };
        let check = change(group);
        let Some(newest) = entity.pods().last() else {
            self.count_rejectors(&entity, false);
            return Some(state);
        };
        let waits = state == QueueState::Unschedulable;
        let origin = Origin { from: state, cause: Cause::Event(self.pod_created) };
        match check {
            // A group that waits for an event continues to wait.
            Check::Newcomer if !waits => match self.gate_of(&entity, newest, at) {
                Ok(None) => self.put_back(entity, origin, at),
                Ok(Some(gate)) => self.put_gated(entity, gate, origin),
                // The whole element is checked again.
                Err(_) => self.enter_active(entity, origin, at),
            },
            Check::Gate if entity.gated_by.is_some() => self.enter_active(entity, origin, at),
            _ => self.put_back(entity, origin, at),
        }
        Some(state)
    }

    /// Puts an element back into the part from which it was taken.
    fn put_back(&mut self, entity: Entity, origin: Origin, at: Moment<'_>) {
        match origin.from {
            QueueState::Active => self.push_active(entity, origin, at),
            QueueState::Backoff => self.parts.add_backoff(entity, at.objects),
            _ => self.put_unschedulable(entity, origin),
        }
    }

    /// Notes that a member has joined an element that stays in its part.
    fn note_joined(&mut self, pod: Arc<PodInfo>, Origin { from, cause }: Origin, to: QueueState) {
        if let Some(meter) = &self.meter {
            meter.joined(to, cause);
        }
        if let Some(moves) = &mut self.moves {
            moves.push(Note::Moved { pod, from, to, event: cause });
        }
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
        if let Some((_, Entity::Group(returned))) = self.parts.take(&key) {
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
        self.change_element(&key, at, |group| {
            group.members.retain(|entry| entry.uid() != uid);
            Check::Gate
        });
    }

    /// Handles a group whose object was created or changed: the members that waited for it form an element.
    pub(crate) fn group_changed(&mut self, group: &Arc<PodGroup>, at: Moment<'_>) {
        let key = key_of(&group.id);
        self.change_element(&key, at, |queued| {
            queued.group = group.clone();
            Check::Nothing
        });
        let Some(members) = self.incomplete.take(&group.id) else { return };
        let Some(standing) = members.first().map(|entry| entry.standing.clone()) else { return };
        for entry in &members {
            self.group_keys.insert(entry.uid().clone(), key.clone());
        }
        let entity = Entity::Group(QueuedGroup::new(group.clone(), members, standing));
        let origin = Origin { from: QueueState::New, cause: Cause::Event(self.pod_created) };
        self.enter_active(entity, origin, at);
    }

    /// Handles a group whose object was deleted: its queued members wait until it is created again.
    pub(crate) fn group_gone(&mut self, id: &GroupId) {
        let Some((_, entity)) = self.parts.take(&key_of(id)) else { return };
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
