//! The scheduling queue: pods that are to be tried, that back off, and that wait for something to change.
//!
//! Three places, as in kube-scheduler (KEP-4247):
//! - *active*: a heap in the order of the QueueSort plugin; the next attempt takes its top;
//! - *backoff*: two heaps by expiry, one for pods that were rejected and one for pods whose attempt failed with an
//!   error. When nothing is active, the top of the former is tried before its time;
//! - *unschedulable*: rejected pods, indexed by the plugins that rejected them, so that an event looks only at pods that it
//!   may concern. Gated pods are here too.
//!
//! Invariants: a pod is in at most one place; a pod that was handed out is in none until it is given back or done;
//! an unschedulable pod is indexed under each of its rejectors and nowhere else.

mod backoff;
mod entry;
mod in_flight;
mod orders;
#[cfg(test)]
mod tests;
mod wakers;

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    cycle::EnqueueCycle,
    events::ClusterEvent,
    guard::{PointError, Stopped},
    meter::{Stage, Status},
    objects::Objects,
    pod::PodInfo,
    profile::Profile,
    sweep::PluginIdx,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    heap::IndexedHeap,
    meter::Meter,
    note::{Cause, Note, Place},
};

pub use backoff::Backoff;
pub use entry::QueuedPod;
pub use harbormaster_framework::events::OwnedChange;

use in_flight::InFlight;
use orders::{ByArrival, ByExpiry, BySort};
use wakers::{Listener, Wakers};

/// When something happens to the queue, and what is known then.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// What PreEnqueue plugins look up.
    pub objects: &'a Objects,
}

/// What an event means for a pod that waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requeue {
    Stay,
    AfterBackoff,
    Now,
}

/// A pod that could not enter the queue because a plugin failed.
#[derive(Debug)]
pub struct EnqueueFailure {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// What went wrong.
    pub error: PointError,
    /// When.
    pub since: Timestamp,
}

/// How many pods are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// Ready to be tried.
    pub active: usize,
    /// Backing off.
    pub backoff: usize,
    /// Rejected, waiting for an event.
    pub unschedulable: usize,
    /// Held back by a PreEnqueue plugin.
    pub gated: usize,
}

/// The scheduling queue.
#[derive(Debug)]
pub struct Queue {
    profiles: Vec<Arc<Profile>>,
    wakers: Wakers,
    backoff: Backoff,
    max_wait: std::time::Duration,
    active: IndexedHeap<Str, QueuedPod, BySort>,
    rejected_backoff: IndexedHeap<Str, QueuedPod, ByExpiry<BySort>>,
    error_backoff: IndexedHeap<Str, QueuedPod, ByExpiry<ByArrival>>,
    unschedulable: FxHashMap<Str, QueuedPod>,
    /// How many of them are gated.
    gated: usize,
    by_rejector: FxHashMap<&'static str, BTreeSet<(u64, Str)>>,
    in_flight: InFlight,
    /// The UIDs of all pods that were added and not deleted, by namespace and name.
    named: FxHashMap<(Str, Str), Str>,
    /// Pods that could not enter because a plugin failed; they are back in backoff.
    failed: Vec<EnqueueFailure>,
    /// Pods for which others are being evicted.
    held_for_eviction: FxHashSet<Str>,
    next_sequence: u64,
    handed_out: u64,
    /// Where the pods that are being moved were, and what moves them.
    moving: (Place, Cause),
    /// `None` unless somebody wants to know.
    moves: Option<Vec<Note>>,
    /// Who measures.
    meter: Option<Arc<dyn Meter>>,
}

impl Queue {
    /// An empty queue for pods of these profiles, of which there is at least one.
    pub fn new(profiles: Vec<Arc<Profile>>, backoff: Backoff, max_wait: std::time::Duration) -> Self {
        Self {
            wakers: Wakers::new(&profiles),
            active: IndexedHeap::new(BySort::new(profiles[0].clone())),
            rejected_backoff: IndexedHeap::new(ByExpiry(BySort::new(profiles[0].clone()))),
            error_backoff: IndexedHeap::new(ByExpiry(ByArrival)),
            profiles,
            backoff,
            max_wait,
            unschedulable: FxHashMap::default(),
            gated: 0,
            named: FxHashMap::default(),
            failed: Vec::new(),
            by_rejector: FxHashMap::default(),
            in_flight: InFlight::default(),
            held_for_eviction: FxHashSet::default(),
            next_sequence: 0,
            handed_out: 0,
            moving: (Place::New, Cause::Added),
            moves: None,
            meter: None,
        }
    }

    /// Takes note of every move from now on, or of none.
    pub(crate) fn note_moves(&mut self, wanted: bool) {
        self.moves = wanted.then(|| self.take_moves());
    }

    /// The same; if there are extenders, everything wakes the pods that they reject.
    pub(crate) fn with_extenders(mut self, any: bool) -> Self {
        if any {
            self.wakers.add_extenders(self.profiles.len());
        }
        self
    }

    /// The same, measured.
    pub(crate) fn measured_by(mut self, meter: Option<Arc<dyn Meter>>) -> Self {
        self.wakers.measured_by(meter.clone());
        self.meter = meter;
        self
    }

    /// The moves since the last call, in order.
    pub(crate) fn take_moves(&mut self) -> Vec<Note> {
        self.moves.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The pods that could not enter since the last call. They back off and try again.
    pub fn take_failed(&mut self) -> Vec<EnqueueFailure> {
        std::mem::take(&mut self.failed)
    }

    /// What else plugins panicked with since the last call, without harm to any pod.
    pub fn take_panics(&mut self) -> Vec<PointError> {
        let mut panics = self.wakers.take_panics();
        panics.extend(self.active.order().take_panic());
        panics.extend(self.rejected_backoff.order().0.take_panic());
        panics
    }

    /// The profile of that scheduler name.
    pub fn profile_of(&self, scheduler_name: &str) -> Option<usize> {
        self.profiles.iter().position(|p| *p.name() == scheduler_name)
    }

    /// The names of all profiles.
    pub(crate) fn profile_names(&self) -> Vec<Str> {
        self.profiles.iter().map(|profile| profile.name().clone()).collect()
    }

    /// How many pods are where.
    pub fn lengths(&self) -> QueueLengths {
        QueueLengths {
            active: self.active.len(),
            backoff: self.rejected_backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len() - self.gated,
            gated: self.gated,
        }
    }

    /// How many pods were handed out and are neither done nor given back.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How many events are kept for pods in flight, by event; also those of which none is kept any more.
    pub fn in_flight_events(&self) -> impl Iterator<Item = (ClusterEvent, usize)> + '_ {
        self.in_flight.events()
    }

    /// Whether [`Self::pop`] would hand out a pod.
    pub fn has_work(&self) -> bool {
        !self.active.is_empty() || !self.rejected_backoff.is_empty()
    }

    /// Whether the backoff of the pod that [`Self::pop`] would hand out is over.
    pub fn has_due_work(&self) -> bool {
        !self.active.is_empty()
    }

    /// A pod that the queue holds, with what the queue knows of it.
    pub fn get(&self, uid: &Str) -> Option<&QueuedPod> {
        let backoff = || self.rejected_backoff.get(uid).or_else(|| self.error_backoff.get(uid));
        self.active.get(uid).or_else(backoff).or_else(|| self.unschedulable.get(uid))
    }

    /// Pods that are to be tried.
    pub fn active(&self) -> impl Iterator<Item = &QueuedPod> {
        self.active.iter()
    }

    /// Pods that back off.
    pub fn backing_off(&self) -> impl Iterator<Item = &QueuedPod> {
        self.rejected_backoff.iter().chain(self.error_backoff.iter())
    }

    /// Pods that wait for an event, with the plugins that rejected them or hold them back.
    pub fn unschedulable(&self) -> impl Iterator<Item = &QueuedPod> {
        self.unschedulable.values()
    }

    // --- coming and going ---

    /// A pod that was not known before.
    pub fn add(&mut self, pod: Arc<PodInfo>, profile: usize, at: Moment<'_>) {
        self.next_sequence += 1;
        self.named.insert((pod.namespace.clone(), pod.name.clone()), pod.uid.clone());
        self.moving = (Place::New, Cause::Added);
        let entry = QueuedPod::new(pod, profile, at.now, self.next_sequence);
        self.enter_active(entry, at);
    }

    /// A queued pod's object changed; `events` say in which respects. Unknown pods are added, pods in flight only
    /// take note.
    pub fn update(
        &mut self,
        pod: Arc<PodInfo>,
        profile: usize,
        events: &[ClusterEvent],
        change: &OwnedChange,
        at: Moment<'_>,
    ) {
        let uid = pod.uid.clone();
        if self.in_flight.holds(&uid) {
            for event in events {
                self.in_flight.record(*event, change, self.wakers.listeners(*event));
            }
            return;
        }
        if let Some(mut entry) = self.active.remove(&uid) {
            entry.pod = pod;
            self.active.push(uid, entry);
        } else if let Some(mut entry) = self.rejected_backoff.remove(&uid) {
            entry.pod = pod;
            self.rejected_backoff.push(uid, entry);
        } else if let Some(mut entry) = self.error_backoff.remove(&uid) {
            entry.pod = pod;
            self.error_backoff.push(uid, entry);
        } else if let Some(entry) = self.unschedulable.get_mut(&uid) {
            entry.pod = pod;
            let verdict =
                |event: &ClusterEvent| (self.requeue_on(&self.unschedulable[&uid], *event, change), *event);
            if let Some((how, event)) = events.iter().map(verdict).find(|(how, _)| *how != Requeue::Stay) {
                self.wake(&uid, how, Cause::Event(event), at);
            }
        } else {
            self.add(pod, profile, at);
        }
    }

    /// The pod is gone or bound.
    pub fn delete(&mut self, pod: &PodInfo) {
        let uid = &pod.uid;
        let backoff = self.rejected_backoff.remove(uid).or_else(|| self.error_backoff.remove(uid));
        let entry = self.active.remove(uid).or(backoff).or_else(|| self.take_unschedulable(uid));
        entry.iter().for_each(|entry| self.count_rejectors(entry, false));
        let name = (pod.namespace.clone(), pod.name.clone());
        if self.named.get(&name) == Some(uid) {
            self.named.remove(&name);
        }
    }

    /// Hands out the next pod to be tried.
    pub fn pop(&mut self) -> Option<QueuedPod> {
        let mut entry = self.active.pop().or_else(|| self.pop_backoff())?;
        entry.attempts += 1;
        self.handed_out += 1;
        self.count_rejectors(&entry, false);
        entry.rejectors.clear();
        entry.pending.clear();
        entry.gated_by = None;
        self.in_flight.begin(entry.pod.uid.clone());
        Some(entry)
    }

    fn pop_backoff(&mut self) -> Option<QueuedPod> {
        let entry = self.rejected_backoff.pop()?;
        if let Some(meter) = &self.meter {
            meter.queued(Place::Active, Cause::PoppedFromBackoff);
        }
        Some(entry)
    }

    /// How many pods were handed out so far: kube-scheduler's scheduling cycle.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }

    /// A pod that was handed out will not come back.
    pub fn done(&mut self, uid: &Str) {
        self.in_flight.end(uid);
    }

    /// A pod that was handed out comes back after a failed attempt. Without rejectors it failed with an error.
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
        entry.since = at.now;
        entry.backoff_until = None;
        if rejectors.is_empty() && pending.is_empty() {
            entry.consecutive_errors += 1;
        } else {
            entry.rejections += 1;
            entry.consecutive_errors = 0;
        }
        entry.rejectors = rejectors;
        entry.pending = pending;
        entry.after_timeout = false;
        self.count_rejectors(&entry, true);
        let how = if entry.has_rejectors() { self.missed(&entry) } else { Requeue::AfterBackoff };
        self.in_flight.end(&uid);
        self.moving = (Place::InFlight, Cause::AttemptFailed);
        self.place(entry, how, at);
    }

    /// Pods are being evicted for this one: PreEnqueue plugins are told so.
    pub fn hold_for_eviction(&mut self, uid: Str) {
        self.held_for_eviction.insert(uid);
    }

    /// No longer. The pod is not woken by this.
    pub fn release_from_eviction(&mut self, uid: &str) {
        self.held_for_eviction.remove(uid);
    }

    /// Pods go through other profiles from now on, while none is in flight. All are tried again when their backoff allows:
    /// what they waited for may be of no consequence any more. Returns the pods whose profile is gone, which it holds no more.
    pub(crate) fn take_over(
        &mut self,
        profiles: Vec<Arc<Profile>>,
        backoff: Backoff,
        max_wait: std::time::Duration,
        extended: bool,
        at: Moment<'_>,
    ) -> Vec<Arc<PodInfo>> {
        let mut gone = Vec::new();
        let entries = self.take_all();
        self.wakers = Wakers::new(&profiles);
        if extended {
            self.wakers.add_extenders(profiles.len());
        }
        self.wakers.measured_by(self.meter.clone());
        self.active = IndexedHeap::new(BySort::new(profiles[0].clone()));
        self.rejected_backoff = IndexedHeap::new(ByExpiry(BySort::new(profiles[0].clone())));
        (self.profiles, self.backoff, self.max_wait) = (profiles, backoff, max_wait);
        for (place, mut entry) in entries {
            let Some(profile) = self.profile_of(&entry.pod.spec.scheduler_name) else {
                self.delete(&entry.pod);
                gone.push(entry.pod);
                continue;
            };
            entry.profile = profile;
            self.count_rejectors(&entry, true);
            self.moving = (place, Cause::Configured);
            match place {
                Place::Active => self.enter_active(entry, at),
                _ => self.place(entry, Requeue::AfterBackoff, at),
            }
        }
        gone
    }

    /// Takes all pods in the order in which they came, with where they were.
    fn take_all(&mut self) -> Vec<(Place, QueuedPod)> {
        let mut all = Vec::new();
        while let Some(entry) = self.active.pop() {
            all.push((Place::Active, entry));
        }
        while let Some(entry) = self.rejected_backoff.pop().or_else(|| self.error_backoff.pop()) {
            all.push((Place::Backoff, entry));
        }
        let waiting = std::mem::take(&mut self.unschedulable).into_values();
        all.extend(waiting.map(|entry| (Place::Unschedulable, entry)));
        self.by_rejector.clear();
        self.gated = 0;
        all.iter().for_each(|(_, entry)| self.count_rejectors(entry, false));
        all.sort_by_key(|(_, entry)| entry.sequence);
        all
    }

    // --- events ---

    /// Something happened: wakes the pods that it may help.
    pub fn on_event(&mut self, event: ClusterEvent, change: &OwnedChange, at: Moment<'_>) {
        self.on_event_for(event, change, at, |_| true);
    }

    /// [`Self::on_event`] for those pods only that `concerns` picks.
    pub fn on_event_for(
        &mut self,
        event: ClusterEvent,
        change: &OwnedChange,
        at: Moment<'_>,
        concerns: impl Fn(&PodInfo) -> bool,
    ) {
        self.in_flight.record(event, change, self.wakers.listeners(event));
        let waiting = self.by_rejector.iter().filter(|(_, pods)| !pods.is_empty());
        let concerned = waiting.filter(|(plugin, _)| self.wakers.is_heard_by(plugin, event));
        let woken: BTreeSet<(u64, Str)> = concerned.flat_map(|(_, pods)| pods).cloned().collect();
        for (_, uid) in woken {
            let Some(entry) = self.unschedulable.get(&uid).filter(|e| concerns(&e.pod)) else { continue };
            let how = self.requeue_on(entry, event, change);
            if how != Requeue::Stay {
                self.wake(&uid, how, Cause::Event(event), at);
            }
        }
    }

    /// [`Self::activate`] by name.
    pub fn activate_named(&mut self, namespace: Str, name: Str, at: Moment<'_>) {
        if let Some(uid) = self.named.get(&(namespace, name)).cloned() {
            self.activate(&uid, at);
        }
    }

    /// Tries the pod at once, whatever it waits for (but for its gates).
    pub fn activate(&mut self, uid: &Str, at: Moment<'_>) {
        if self.unschedulable.contains_key(uid) {
            self.wake(uid, Requeue::Now, Cause::Activated, at);
            return;
        }
        self.moving = (Place::Backoff, Cause::Activated);
        let entry = self.rejected_backoff.remove(uid).or_else(|| self.error_backoff.remove(uid));
        if let Some(entry) = entry {
            self.leave_backoff(entry, at);
        }
    }

    // --- time ---

    /// Makes pods active whose backoff is over.
    pub fn flush_backoff(&mut self, at: Moment<'_>) {
        let over = |entry: Option<&QueuedPod>| entry.is_some_and(|e| !self.backoff.is_backing_off(e, at.now));
        let mut ready = Vec::new();
        while over(self.rejected_backoff.peek()) {
            ready.extend(self.rejected_backoff.pop());
        }
        while over(self.error_backoff.peek()) {
            ready.extend(self.error_backoff.pop());
        }
        self.moving = (Place::Backoff, Cause::BackoffComplete);
        ready.into_iter().for_each(|entry| self.leave_backoff(entry, at));
    }

    /// Tries pods again that have waited for very long, in case an event was missed.
    pub fn flush_unschedulable(&mut self, at: Moment<'_>) {
        let mut stale: Vec<(u64, Str)> = self
            .unschedulable
            .values()
            .filter(|e| e.gated_by.is_none() && at.now.since(e.since) > self.max_wait)
            .map(|e| (e.sequence, e.pod.uid.clone()))
            .collect();
        stale.sort();
        for (_, uid) in stale {
            self.wake(&uid, Requeue::AfterBackoff, Cause::Timeout, at);
        }
    }

    /// When the first backoff ends.
    pub fn next_backoff_end(&self) -> Option<Timestamp> {
        let heads = [self.rejected_backoff.peek(), self.error_backoff.peek()];
        heads.into_iter().flatten().map(|e| self.backoff.release(e)).min()
    }

    /// Whether any pod waits for an event (gated ones aside).
    pub fn anyone_waits(&self) -> bool {
        self.unschedulable.len() > self.gated
    }

    // --- inside ---

    fn requeue_on(&self, entry: &QueuedPod, event: ClusterEvent, change: &OwnedChange) -> Requeue {
        if let Some(gate) = entry.gated_by
            && !self.wakers.hears(Listener { profile: entry.profile, plugin: gate }, event)
        {
            return Requeue::Stay;
        }
        if !entry.has_rejectors() || event.is_wild_card() {
            return Requeue::AfterBackoff;
        }
        let mut answer = Requeue::Stay;
        for plugin in self.wakers.asking(entry, event, change) {
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

    /// What the events mean that happened since the pod was handed out.
    fn missed(&self, entry: &QueuedPod) -> Requeue {
        let uid = entry.uid();
        let woke = |plugin: &&'static str| {
            let listener = Listener { profile: entry.profile, plugin };
            self.in_flight
                .missed(uid, listener, |event, change| self.wakers.asks(listener, entry, event, change))
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
        if let Some(mut entry) = self.take_unschedulable(uid) {
            entry.after_timeout = cause == Cause::Timeout;
            self.moving = (Place::Unschedulable, cause);
            self.place(entry, how, at);
        }
    }

    fn place(&mut self, mut entry: QueuedPod, how: Requeue, at: Moment<'_>) {
        match how {
            Requeue::Stay => self.put_unschedulable(entry),
            Requeue::Now => self.enter_active(entry, at),
            Requeue::AfterBackoff => {
                entry.backoff_until = self.backoff.end(&entry);
                if self.backoff.is_backing_off(&entry, at.now) {
                    self.enter_backoff(entry, at);
                } else {
                    self.enter_active(entry, at);
                }
            }
        }
    }

    fn enter_active(&mut self, entry: QueuedPod, at: Moment<'_>) {
        match self.gate(&entry, at) {
            Ok(Some(gate)) => self.put_gated(entry, gate),
            Ok(None) => self.push_active(entry, at),
            Err(error) => self.put_failed(entry, error, at),
        }
    }

    /// Gates were asked before the backoff began, unless one of them failed.
    fn leave_backoff(&mut self, entry: QueuedPod, at: Moment<'_>) {
        if entry.gate_failed { self.enter_active(entry, at) } else { self.push_active(entry, at) }
    }

    fn push_active(&mut self, mut entry: QueuedPod, at: Moment<'_>) {
        entry.gated_by = None;
        entry.first_active.get_or_insert(at.now);
        entry.gate_failed = false;
        self.note_move(&entry, Place::Active);
        let uid = entry.pod.uid.clone();
        self.active.push(uid.clone(), entry);
        if let Some(panic) = self.active.order().take_panic()
            && let Some(entry) = self.active.remove(&uid)
        {
            self.put_failed(entry, panic, at);
        }
    }

    fn enter_backoff(&mut self, mut entry: QueuedPod, at: Moment<'_>) {
        match self.gate(&entry, at) {
            Ok(None) => {}
            Ok(Some(gate)) => return self.put_gated(entry, gate),
            Err(error) => return self.put_failed(entry, error, at),
        }
        entry.gated_by = None;
        entry.gate_failed = false;
        self.note_move(&entry, Place::Backoff);
        let uid = entry.pod.uid.clone();
        if entry.has_rejectors() {
            self.rejected_backoff.push(uid, entry);
        } else {
            self.error_backoff.push(uid, entry);
        }
    }

    /// A plugin failed when the pod was to enter: it backs off as after a failed attempt, then tries to enter again.
    fn put_failed(&mut self, mut entry: QueuedPod, error: PointError, at: Moment<'_>) {
        entry.since = at.now;
        entry.gated_by = None;
        entry.gate_failed = true;
        self.count_rejectors(&entry, false);
        entry.rejectors.clear();
        entry.pending.clear();
        entry.consecutive_errors += 1;
        entry.backoff_until = self.backoff.end(&entry);
        self.failed.push(EnqueueFailure { pod: entry.pod.clone(), error, since: at.now });
        self.note_move(&entry, Place::Backoff);
        self.error_backoff.push(entry.pod.uid.clone(), entry);
    }

    /// The PreEnqueue plugin that holds the pod back, if any; the one that did last time is asked first.
    fn gate(&self, entry: &QueuedPod, at: Moment<'_>) -> Result<Option<&'static str>, PointError> {
        // That it always went well is kube-scheduler's word, too.
        let profile = &self.profiles[entry.profile];
        profile.measured(Stage::PreEnqueue, |_| Status::Success, || self.ask_gates(entry, at))
    }

    fn ask_gates(&self, entry: &QueuedPod, at: Moment<'_>) -> Result<Option<&'static str>, PointError> {
        let profile = &self.profiles[entry.profile];
        let mut gates: Vec<PluginIdx> = profile.at(ExtensionPoint::PreEnqueue).to_vec();
        gates.sort_by_key(|g| Some(profile.plugin(*g).name()) != entry.gated_by);
        let awaits_eviction = self.held_for_eviction.contains(&entry.pod.uid);
        let cx = EnqueueCycle { pod: &entry.pod, objects: at.objects, awaits_eviction };
        for gate in gates {
            match profile.plugin(gate).pre_enqueue(cx) {
                Ok(()) => {}
                Err(Stopped::Reject(plugin, _)) => return Ok(Some(plugin)),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    fn put_gated(&mut self, mut entry: QueuedPod, gate: &'static str) {
        entry.gated_by = Some(gate);
        if !entry.rejectors.contains(&gate) {
            entry.rejectors.push(gate);
            if !entry.pending.contains(&gate) {
                self.count_rejector(&entry, gate, true);
            }
        }
        self.put_unschedulable(entry);
    }

    fn note_move(&mut self, entry: &QueuedPod, to: Place) {
        let (from, event) = self.moving;
        if let Some(meter) = self.meter.as_ref().filter(|_| from != to) {
            meter.queued(to, event);
        }
        if let Some(moves) = self.moves.as_mut().filter(|_| from != to) {
            moves.push(Note::Moved { pod: entry.pod.clone(), from, to, event });
        }
    }

    fn count_rejectors(&self, entry: &QueuedPod, more: bool) {
        if self.meter.is_some() {
            entry.all_rejectors().for_each(|plugin| self.count_rejector(entry, plugin, more));
        }
    }

    fn count_rejector(&self, entry: &QueuedPod, plugin: &'static str, more: bool) {
        if let Some(meter) = &self.meter {
            meter.rejects(self.profiles[entry.profile].name(), plugin, more);
        }
    }

    fn put_unschedulable(&mut self, entry: QueuedPod) {
        self.note_move(&entry, Place::Unschedulable);
        for plugin in entry.all_rejectors() {
            self.by_rejector.entry(plugin).or_default().insert((entry.sequence, entry.pod.uid.clone()));
        }
        self.gated += usize::from(entry.gated_by.is_some());
        self.unschedulable.insert(entry.pod.uid.clone(), entry);
    }

    fn take_unschedulable(&mut self, uid: &Str) -> Option<QueuedPod> {
        let entry = self.unschedulable.remove(uid)?;
        self.gated -= usize::from(entry.gated_by.is_some());
        for plugin in entry.all_rejectors() {
            if let Some(pods) = self.by_rejector.get_mut(plugin) {
                pods.remove(&(entry.sequence, uid.clone()));
            }
        }
        Some(entry)
    }
}
