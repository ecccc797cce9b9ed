//! The scheduling queue: pods that are ready, pods in backoff, and pods that wait for an event.
//!
//! It has three parts, as in kube-scheduler (KEP-4247):
//! - *active*: a heap in the order of the QueueSort plugin; the next attempt takes its top. If the plugin lets
//!   namespaces take turns, each has its own heap, and the attempt takes the top of the one whose turn it is.
//! - *backoff*: two heaps ordered by expiry, one for pods that were rejected and one for pods whose attempt failed with
//!   an error. When no pod is active, the top of the first heap is tried early.
//! - *unschedulable*: rejected pods, indexed by the plugins that rejected them, so that an event visits only pods that
//!   it may concern. Gated pods are in this part, too.
//!
//! The elements of these parts are pods and groups: the members of a group move as one element. Members of a group
//! whose object does not exist yet are in none of the parts: they are *incomplete*.
//!
//! Invariants: a pod is in at most one part; a pod that was handed out is in no part until it is returned or done; an
//! unschedulable element is indexed under each of its rejectors and nowhere else; a group has at most one element.

mod backoff;
mod entry;
mod gate;
mod in_flight;
mod lanes;
mod members;
mod orders;
mod parts;
#[cfg(test)]
mod rank_tests;
mod reconfigure;
mod stuck;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
mod wakers;

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{Release, Str, Timestamp};
use harbormaster_framework::{
    events::{Action, ClusterEvent, PodEvents},
    extender::{ExtenderSet, Extenders},
    guard::PointError,
    objects::Objects,
    plugin::TurnCycle,
    pod::PodInfo,
    profile::Profile,
    resource::ResourceName,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    groups::Groups,
    meter::Meter,
    note::{Cause, Note, QueueState},
};

pub use backoff::Backoff;
pub(crate) use entry::key_of;
pub use entry::{Entity, QueuedGroup, QueuedPod, Standing};
pub use harbormaster_framework::events::OwnedChange;
pub(crate) use members::GroupResult;

use in_flight::InFlight;
use members::Incomplete;
use parts::Parts;
use wakers::{Listener, Wakers};

/// The current time, and what else operations on the queue need.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Current time.
    pub now: Timestamp,
    /// Objects that PreEnqueue plugins and hints read.
    pub objects: &'a Objects,
    /// Groups of the queued pods.
    pub groups: &'a Groups,
}

/// Effect of an event on a waiting pod or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requeue {
    Stay,
    AfterBackoff,
    Now,
}

/// The part that a moving pod leaves, and the cause of the move.
#[derive(Clone, Copy, Debug)]
struct Origin {
    from: QueueState,
    cause: Cause,
}

impl Origin {
    const ATTEMPT_FAILED: Self = Self { from: QueueState::InFlight, cause: Cause::AttemptFailed };

    fn backoff(cause: Cause) -> Self {
        Self { from: QueueState::Backoff, cause }
    }
}

/// A failure of a PreEnqueue or QueueSort plugin for one pod. The pod backs off and is then tried again.
#[derive(Debug)]
pub struct EnqueueFailure {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The error.
    pub error: PointError,
    /// Time of the failure.
    pub since: Timestamp,
}

/// Number of pods in each part of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// Ready to be scheduled.
    pub active: usize,
    /// Backing off.
    pub backoff: usize,
    /// Rejected, waiting for an event.
    pub unschedulable: usize,
    /// Held back by a PreEnqueue plugin.
    pub gated: usize,
    /// Members of groups whose objects do not exist.
    pub incomplete: usize,
    /// The groups among the above, each with all its queued members.
    pub groups: GroupLengths,
}

/// Number of groups in each part of the queue, and number of their members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLengths {
    /// Ready to be scheduled.
    pub active: GroupLength,
    /// Backing off.
    pub backoff: GroupLength,
    /// Rejected, waiting for an event.
    pub unschedulable: GroupLength,
    /// Held back by a PreEnqueue plugin.
    pub gated: GroupLength,
}

/// Number of groups, and number of their members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLength {
    /// Groups.
    pub groups: usize,
    /// Members.
    pub members: usize,
}

/// The scheduling queue.
#[derive(Debug)]
pub struct Queue {
    profiles: Vec<Arc<Profile>>,
    wakers: Wakers,
    backoff: Backoff,
    max_wait: std::time::Duration,
    /// True if [`Self::flush_unschedulable`] also retries gated pods.
    flushes_gated: bool,
    /// Event that stands for the creation of a pod.
    pod_created: ClusterEvent,
    /// True if groups are retried whenever their backoff ends, as in kube-scheduler, and not only after events.
    retries_groups: bool,
    parts: Parts,
    incomplete: Incomplete,
    in_flight: InFlight,
    /// Keys of the elements of all queued members of groups, by UID of the member.
    group_keys: FxHashMap<Str, Str>,
    /// UIDs of all pods that were added and not deleted, keyed by namespace and name.
    uid_by_name: FxHashMap<(Str, Str), Str>,
    /// Failures of PreEnqueue and QueueSort plugins, stored until [`Self::take_failed`] is called. The pods concerned
    /// are in backoff.
    failed: Vec<EnqueueFailure>,
    /// Keys of the pods and groups for which other pods are being evicted.
    held_for_eviction: FxHashSet<Str>,
    next_sequence: u64,
    handed_out: u64,
    /// Moves that have not been taken yet; `None` unless moves are noted.
    moves: Option<Vec<Note>>,
    meter: Option<Arc<dyn Meter>>,
    extenders: Extenders,
    /// Extenders that are being asked about another pod. Elements that need them are not handed out.
    occupied: ExtenderSet,
}

impl Queue {
    /// Creates an empty queue for pods of these profiles. There must be at least one profile.
    pub fn new(profiles: Vec<Arc<Profile>>, backoff: Backoff, max_wait: std::time::Duration) -> Self {
        let release = profiles[0].release();
        Self {
            flushes_gated: release >= Release::V1_37,
            pod_created: ClusterEvent::new(PodEvents::of(release).unbound, Action::ADD),
            wakers: Wakers::new(&profiles),
            parts: Parts::new(&profiles[0]),
            profiles,
            backoff,
            max_wait,
            retries_groups: false,
            incomplete: Incomplete::default(),
            group_keys: FxHashMap::default(),
            uid_by_name: FxHashMap::default(),
            failed: Vec::new(),
            in_flight: InFlight::default(),
            held_for_eviction: FxHashSet::default(),
            next_sequence: 0,
            handed_out: 0,
            moves: None,
            meter: None,
            extenders: Extenders::default(),
            occupied: ExtenderSet::default(),
        }
    }

    /// Turns the recording of moves on or off.
    pub(crate) fn note_moves(&mut self, wanted: bool) {
        self.moves = wanted.then(|| self.take_moves());
    }

    /// Adds extenders. They are registered for the default events, so that each of these events wakes the pods that they
    /// reject.
    pub(crate) fn with_extenders(mut self, extenders: Extenders) -> Self {
        if !extenders.is_empty() {
            self.wakers.add_extenders(self.profiles.len());
        }
        self.extenders = extenders;
        self
    }

    /// Sets the extenders that are being asked about a pod.
    pub(crate) fn set_occupied(&mut self, extenders: ExtenderSet) {
        self.occupied = extenders;
    }

    /// Makes groups be retried whenever their backoff ends, as in kube-scheduler.
    pub(crate) fn retrying_groups(mut self, retries: bool) -> Self {
        self.retries_groups = retries;
        self
    }

    /// Adds a meter.
    pub(crate) fn with_meter(mut self, meter: Option<Arc<dyn Meter>>) -> Self {
        self.wakers.set_meter(meter.clone());
        self.meter = meter;
        self
    }

    /// Takes the moves since the last call, in order.
    pub(crate) fn take_moves(&mut self) -> Vec<Note> {
        self.moves.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the plugin failures that have occurred since the last call and made pods back off.
    pub fn take_failed(&mut self) -> Vec<EnqueueFailure> {
        std::mem::take(&mut self.failed)
    }

    /// Returns true if [`Self::take_failed`] or [`Self::take_panics`] would return something.
    pub fn has_failures(&self) -> bool {
        !self.failed.is_empty() || self.wakers.has_panics() || self.parts.has_panic()
    }

    /// Takes the plugin panics since the last call, except those that [`Self::take_failed`] returns.
    pub fn take_panics(&mut self) -> Vec<PointError> {
        let mut panics = self.wakers.take_panics();
        panics.extend(self.parts.take_panics());
        panics
    }

    /// Returns the index of the profile with the given scheduler name.
    pub fn profile_of(&self, scheduler_name: &str) -> Option<usize> {
        self.profiles.iter().position(|p| *p.name() == scheduler_name)
    }

    /// Names of all profiles.
    pub(crate) fn profile_names(&self) -> Vec<Str> {
        self.profiles.iter().map(|profile| profile.name().clone()).collect()
    }

    /// Number of pods in each part.
    pub fn lengths(&self) -> QueueLengths {
        QueueLengths { incomplete: self.incomplete.len(), ..self.parts.lengths() }
    }

    /// Number of pods that were handed out and are neither done nor returned.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Number of events stored for pods in flight, per kind of event. Includes kinds whose count has dropped to zero.
    pub fn in_flight_events(&self) -> impl Iterator<Item = (ClusterEvent, usize)> + '_ {
        self.in_flight.events()
    }

    /// Returns true if [`Self::pop`] would hand out a pod.
    pub fn has_work(&self) -> bool {
        self.has_due_work() || self.parts.has_early()
    }

    /// Returns true if [`Self::pop`] would hand out a pod that is not in backoff.
    pub fn has_due_work(&self) -> bool {
        self.parts.has_active(self.occupied)
    }

    /// Returns the element that contains a pod.
    pub fn entity_of(&self, uid: &Str) -> Option<&Entity> {
        self.parts.get(self.key_of(uid))
    }

    /// Returns a pod in the queue with its own standing, which is not that of its group.
    pub fn get(&self, uid: &Str) -> Option<&QueuedPod> {
        let queued = self.entity_of(uid).and_then(|entity| entity.pod(uid));
        queued.or_else(|| self.incomplete.get(uid))
    }

    /// Returns the UID of the pod with this name, if it was added.
    pub(crate) fn uid_of(&self, namespace: &Str, name: &Str) -> Option<&Str> {
        self.uid_by_name.get(&(namespace.clone(), name.clone()))
    }

    /// Returns the element that contains a pod, and the part that contains the element.
    pub(crate) fn place_of(&self, uid: &Str) -> Option<(&Entity, QueueState)> {
        let key = self.key_of(uid);
        Some((self.parts.get(key)?, self.parts.state_of(key)?))
    }

    /// Returns the time at which a rejected element has waited too long, and is retried.
    fn stale_at(&self, standing: &Standing) -> Timestamp {
        standing.flushed.map_or(standing.since, |flushed| flushed.max(standing.since)) + self.max_wait
    }

    /// Returns the time at which a rejected element is retried if no event wakes it.
    pub(crate) fn tried_again_by(&self, standing: &Standing) -> Timestamp {
        let stale_at = self.stale_at(standing);
        standing.retry_at.map_or(stale_at, |time| time.min(stale_at))
    }

    /// Returns a profile by its index.
    pub(crate) fn profile(&self, index: usize) -> Option<&Arc<Profile>> {
        self.profiles.get(index)
    }

    /// Returns the key of the element that contains a pod.
    fn key_of<'a>(&'a self, uid: &'a Str) -> &'a Str {
        self.group_keys.get(uid).unwrap_or(uid)
    }

    /// Pods and groups that are ready to be scheduled.
    pub fn active(&self) -> impl Iterator<Item = &Entity> {
        self.parts.active()
    }

    /// Pods and groups in backoff.
    pub fn backing_off(&self) -> impl Iterator<Item = &Entity> {
        self.parts.backing_off()
    }

    /// Pods and groups that wait for an event, with the plugins that rejected or gated them.
    pub fn unschedulable(&self) -> impl Iterator<Item = &Entity> {
        self.parts.unschedulable()
    }

    /// Members of groups whose objects do not exist.
    pub fn incomplete(&self) -> impl Iterator<Item = &QueuedPod> {
        self.incomplete.all()
    }

    // --- adding and removing ---

    /// Adds a new pod.
    pub fn add(&mut self, pod: Arc<PodInfo>, profile: usize, at: Moment<'_>) {
        self.next_sequence += 1;
        self.uid_by_name.insert((pod.namespace.clone(), pod.name.clone()), pod.uid.clone());
        let entry = QueuedPod::new(pod, profile, at.now, self.next_sequence);
        let origin = Origin { from: QueueState::New, cause: Cause::Event(self.pod_created) };
        match entry.pod.group().cloned() {
            None => self.enter_active(Entity::Pod(entry), origin, at),
            Some(group) => self.add_member(&group, entry, Requeue::Now, origin, at),
        }
    }

    /// Updates a pod; `events` describe the change. An unknown pod is added. For a pod in flight, only the events are
    /// recorded.
    pub fn update(
        &mut self,
        pod: Arc<PodInfo>,
        profile: usize,
        events: &[ClusterEvent],
        change: &OwnedChange,
        at: Moment<'_>,
    ) {
        if self.in_flight.holds(&pod.uid) {
            for event in events {
                self.in_flight.record(*event, change, self.wakers.listeners(*event));
            }
            return;
        }
        let key = self.key_of(&pod.uid).clone();
        match self.parts.replace(&key, &pod, at.objects) {
            Some(QueueState::Unschedulable) => self.waiting_pod_changed(&key, events, change, at),
            Some(_) => {}
            None if self.incomplete.replace(&pod) => {}
            None => self.add(pod, profile, at),
        }
    }

    /// Wakes an element that waits for an event if one of the events that changed its pod helps.
    fn waiting_pod_changed(
        &mut self,
        key: &Str,
        events: &[ClusterEvent],
        change: &OwnedChange,
        at: Moment<'_>,
    ) {
        let Some(entity) = self.parts.get_unschedulable(key) else { return };
        let verdict = |event: &ClusterEvent| (self.requeue_on(entity, *event, change, at.objects), *event);
        if let Some((how, event)) = events.iter().map(verdict).find(|(how, _)| *how != Requeue::Stay) {
            self.wake(key, how, Cause::Event(event), at);
        }
    }

    /// Removes a pod that was deleted or bound.
    pub fn delete(&mut self, pod: &PodInfo, at: Moment<'_>) {
        let uid = &pod.uid;
        match pod.group() {
            Some(group) => self.remove_member(group, uid, at),
            None => {
                let entity = self.parts.take(uid);
                entity.iter().for_each(|(_, entity)| self.count_rejectors(entity, false));
            }
        }
        let name = (pod.namespace.clone(), pod.name.clone());
        if self.uid_by_name.get(&name) == Some(uid) {
            self.uid_by_name.remove(&name);
        }
    }

    /// Hands out the next pod or group to be scheduled.
    pub fn pop(&mut self, cx: TurnCycle<'_>) -> Option<Entity> {
        let mut entity = self.next(cx)?;
        self.handed_out += 1;
        self.count_rejectors(&entity, false);
        entity.handed_out();
        if let Entity::Group(group) = &mut entity {
            group.members.iter_mut().for_each(|member| member.standing.handed_out());
            QueuedGroup::sort(&mut group.members);
        }
        for entry in entity.pods() {
            self.group_keys.remove(entry.uid());
            self.in_flight.begin(entry.uid().clone());
        }
        Some(entity)
    }

    /// Takes the next element. Elements before it that need occupied extenders are set aside.
    fn next(&mut self, cx: TurnCycle<'_>) -> Option<Entity> {
        self.parts.unpark(self.occupied, cx);
        loop {
            let entity = self.parts.pop_active(cx).or_else(|| self.pop_early())?;
            let needed = self.extenders_for(&entity);
            if !needed.intersects(self.occupied) {
                return Some(entity);
            }
            self.parts.park(entity, needed);
        }
    }

    /// Returns the extenders that an element needs; none while no extender is occupied.
    fn extenders_for(&self, entity: &Entity) -> ExtenderSet {
        let about = |entry: &QueuedPod| self.extenders.asked_about(&entry.pod);
        let pods = if self.occupied.is_empty() { &[] } else { entity.pods() };
        pods.iter().map(about).fold(ExtenderSet::default(), ExtenderSet::union)
    }

    fn pop_early(&mut self) -> Option<Entity> {
        let entry = self.parts.pop_early()?;
        if let Some(meter) = &self.meter {
            meter.queued(QueueState::Active, Cause::PoppedFromBackoff, entry.members());
        }
        Some(entry)
    }

    /// The release that applies.
    pub(crate) fn release(&self) -> Release {
        self.profiles[0].release()
    }

    /// Number of elements handed out so far, which kube-scheduler calls the scheduling cycle.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// Marks a pod in flight as done: it will not return to the queue.
    pub fn done(&mut self, uid: &Str) {
        self.in_flight.end(uid);
    }

    /// Returns a pod to the queue whose attempt has been given up, as if it had not begun.
    pub(crate) fn take_back(&mut self, mut entry: QueuedPod, at: Moment<'_>) {
        self.in_flight.end(entry.uid());
        if self.get(entry.uid()).is_some() {
            return;
        }
        entry.standing.attempts = entry.standing.attempts.saturating_sub(1);
        let origin = Origin { from: QueueState::InFlight, cause: Cause::ConfigChanged };
        self.enter_active(Entity::Pod(entry), origin, at);
    }

    /// Returns a pod to the queue after a failed attempt or binding. If `rejectors` and `pending` are both empty, the
    /// failure counts as an error. A member of a group joins those members that are already queued.
    pub fn give_back(
        &mut self,
        mut entry: QueuedPod,
        rejectors: Vec<&'static str>,
        pending: Vec<&'static str>,
        at: Moment<'_>,
    ) {
        let uid = entry.pod.uid.clone();
        if self.get(&uid).is_some() {
            self.in_flight.end(&uid);
            return;
        }
        entry.standing.failed(rejectors, pending, at.now);
        let entity = Entity::Pod(entry);
        let how = if entity.has_rejectors() {
            let is_due = entity.retry_at.is_some_and(|time| time <= at.now);
            match self.requeue_on_missed(&entity, &uid, at.objects) {
                Requeue::Stay if is_due => Requeue::AfterBackoff,
                how => how,
            }
        } else {
            Requeue::AfterBackoff
        };
        self.in_flight.end(&uid);
        match entity {
            Entity::Pod(entry) if entry.pod.group().is_some() => self.return_member(entry, how, at),
            entity => {
                self.count_rejectors(&entity, true);
                self.insert(entity, how, Origin::ATTEMPT_FAILED, at);
            }
        }
    }

    /// Marks a pod for which other pods are being evicted. PreEnqueue plugins can read the mark.
    pub fn hold_for_eviction(&mut self, uid: Str) {
        self.held_for_eviction.insert(uid);
    }

    /// Removes the mark that [`Self::hold_for_eviction`] set. Does not wake the pod.
    pub fn release_from_eviction(&mut self, uid: &str) {
        self.held_for_eviction.remove(uid);
    }

    // --- events ---

    /// Wakes the pods that an event may help.
    pub fn on_event(&mut self, event: ClusterEvent, change: &OwnedChange, at: Moment<'_>) {
        self.on_event_for(event, change, at, |_| true);
    }

    /// Like [`Self::on_event`], but wakes only pods for which `concerns` returns true.
    pub fn on_event_for(
        &mut self,
        event: ClusterEvent,
        change: &OwnedChange,
        at: Moment<'_>,
        concerns: impl Fn(&PodInfo) -> bool,
    ) {
        self.in_flight.record(event, change, self.wakers.listeners(event));
        let concerned =
            self.parts.by_rejector().filter(|(plugin, _)| self.wakers.has_listener(plugin, event));
        let woken: BTreeSet<(u64, Str)> = concerned.flat_map(|(_, pods)| pods).cloned().collect();
        for (_, uid) in woken {
            let is_concerned = |entity: &&Entity| entity.pods().iter().any(|entry| concerns(&entry.pod));
            let Some(entry) = self.parts.get_unschedulable(&uid).filter(is_concerned) else { continue };
            let how = self.requeue_on(entry, event, change, at.objects);
            if how != Requeue::Stay {
                self.wake(&uid, how, Cause::Event(event), at);
            }
        }
    }

    /// Ranks the queued pods anew after a change to objects, if the QueueSort plugin ranks by objects of this kind.
    pub(crate) fn on_ranking_change(&mut self, resource: ResourceName, objects: &Objects) {
        // All profiles have the same QueueSort plugin.
        if self.profiles[0].ranks_by(resource) {
            self.parts.rank_all(objects);
        }
    }

    /// Like [`Self::activate`], but finds the pod by namespace and name.
    pub fn activate_named(&mut self, namespace: Str, name: Str, at: Moment<'_>) {
        if let Some(uid) = self.uid_by_name.get(&(namespace, name)).cloned() {
            self.activate(&uid, at);
        }
    }

    /// Makes a waiting pod, or a pod in backoff, active immediately, unless a PreEnqueue plugin gates it. A member of a
    /// group brings its group along.
    pub fn activate(&mut self, uid: &Str, at: Moment<'_>) {
        let key = self.key_of(uid).clone();
        match self.parts.take_backoff(&key) {
            Some(entity) => self.leave_backoff(entity, Cause::Activated, at),
            None => self.wake(&key, Requeue::Now, Cause::Activated, at),
        }
    }

    // --- time ---

    /// Activates the pods whose backoff has ended.
    pub fn flush_backoff(&mut self, at: Moment<'_>) {
        let expired = self.parts.take_expired(&self.backoff, at.now);
        expired.into_iter().for_each(|entity| self.leave_backoff(entity, Cause::BackoffComplete, at));
    }

    /// Retries the pods that plugins want to be tried again now.
    pub fn retry_due(&mut self, at: Moment<'_>) {
        for key in self.parts.take_due(at.now) {
            self.wake(&key, Requeue::AfterBackoff, Cause::Due, at);
        }
    }

    /// Earliest time at which [`Self::retry_due`] retries a pod.
    pub fn next_retry(&self) -> Option<Timestamp> {
        self.parts.next_retry()
    }

    /// Retries pods that have waited too long, in case an event was missed.
    pub fn flush_unschedulable(&mut self, at: Moment<'_>) {
        let is_stale = |entry: &&Entity| self.is_flushed(entry) && at.now > self.stale_at(entry);
        let stale = self.parts.unschedulable().filter(is_stale);
        let mut stale: Vec<(u64, Str)> = stale.map(|e| (e.sequence, e.key().clone())).collect();
        stale.sort();
        for (_, uid) in stale {
            self.parts.flushed(&uid, at.now);
            self.wake(&uid, Requeue::AfterBackoff, Cause::Timeout, at);
        }
    }

    fn is_flushed(&self, entry: &Standing) -> bool {
        self.flushes_gated || entry.gated_by.is_none()
    }

    /// Time at which the first backoff ends.
    pub fn next_backoff_end(&self) -> Option<Timestamp> {
        self.parts.next_backoff_end(&self.backoff)
    }

    /// Returns true if a pod waits that [`Self::flush_unschedulable`] will retry.
    pub fn anyone_waits(&self) -> bool {
        let (waiting, gated) = self.parts.waiting();
        waiting > if self.flushes_gated { 0 } else { gated }
    }

    // --- internals ---

    fn requeue_on(
        &self,
        entry: &Entity,
        event: ClusterEvent,
        change: &OwnedChange,
        objects: &Objects,
    ) -> Requeue {
        if let Some(gate) = entry.gated_by
            && !self.wakers.listens(Listener { profile: entry.profile, plugin: gate }, event)
        {
            return Requeue::Stay;
        }
        if !entry.has_rejectors() || event.is_wild_card() {
            return Requeue::AfterBackoff;
        }
        let mut answer = Requeue::Stay;
        for plugin in self.wakers.waking_rejectors(entry, objects, event, change) {
            if entry.pending.contains(&plugin) {
                return Requeue::Now;
            }
            answer = Requeue::AfterBackoff;
            if entry.pending.is_empty() {
                break;
            }
        }
        answer
    }

    /// Returns the effect of the events that have occurred since the pod `uid` was handed out.
    fn requeue_on_missed(&self, entry: &Entity, uid: &Str, objects: &Objects) -> Requeue {
        let woke = |plugin: &&'static str| {
            let listener = Listener { profile: entry.profile, plugin };
            let wakes = |event, change: &_| self.wakers.wakes(listener, entry, objects, event, change);
            self.in_flight.missed(uid, listener, wakes)
        };
        if entry.pending.iter().any(woke) {
            Requeue::Now
        } else if self.in_flight.missed_wild_card(uid) || entry.rejectors.iter().any(woke) {
            Requeue::AfterBackoff
        } else {
            Requeue::Stay
        }
    }

    fn wake(&mut self, uid: &Str, how: Requeue, cause: Cause, at: Moment<'_>) {
        if let Some(mut entry) = self.parts.take_unschedulable(uid) {
            entry.after_timeout = cause == Cause::Timeout;
            self.insert(entry, how, Origin { from: QueueState::Unschedulable, cause }, at);
        }
    }

    fn insert(&mut self, mut entry: Entity, how: Requeue, origin: Origin, at: Moment<'_>) {
        match how {
            Requeue::Stay => self.put_unschedulable(entry, origin),
            Requeue::Now => self.enter_active(entry, origin, at),
            Requeue::AfterBackoff => {
                entry.backoff_until = self.backoff.end(&entry);
                if self.backoff.is_backing_off(&entry, at.now) {
                    self.enter_backoff(entry, origin, at);
                } else {
                    self.enter_active(entry, origin, at);
                }
            }
        }
    }

    fn note_move(&mut self, entity: &Entity, Origin { from, cause }: Origin, to: QueueState) {
        if from == to {
            return;
        }
        if let Some(meter) = &self.meter {
            meter.queued(to, cause, entity.members());
        }
        if let Some(moves) = &mut self.moves {
            for entry in entity.pods() {
                moves.push(Note::Moved { pod: entry.pod.clone(), from, to, event: cause });
            }
        }
    }

    fn count_rejectors(&self, entry: &Standing, more: bool) {
        if self.meter.is_some() {
            entry.all_rejectors().for_each(|plugin| self.count_rejector(entry, plugin, more));
        }
    }

    fn count_rejector(&self, entry: &Standing, plugin: &'static str, more: bool) {
        if let Some(meter) = &self.meter {
            meter.rejects(self.profiles[entry.profile].name(), plugin, more);
        }
    }

    fn put_unschedulable(&mut self, entity: Entity, origin: Origin) {
        self.note_move(&entity, origin, QueueState::Unschedulable);
        self.parts.add_unschedulable(entity);
    }
}
