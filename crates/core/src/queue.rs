//! The scheduling queue: pods that are to be tried, that back off, and that wait for something to change.
//!
//! Three places, as in kube-scheduler (KEP-4247):
//! - *active*: a heap in the order of the QueueSort plugin; the next attempt takes its top;
//! - *backoff*: two heaps by expiry, one for pods that were rejected and one for pods whose attempt failed with an
//!   error. When nothing is active, the top of the former is tried before its time;
//! - *waiting*: rejected pods, indexed by the plugins that rejected them, so that an event looks only at pods that it
//!   may concern. Gated pods are here too.
//!
//! Invariants: a pod is in at most one place; a pod that was handed out is in none until it is given back or done;
//! a waiting pod is indexed under each of its rejectors and nowhere else.

mod backoff;
mod entry;
mod in_flight;
#[cfg(test)]
mod tests;
mod wakers;

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    cycle::EnqueueCycle, events::ClusterEvent, outcome::Verdict, plugin::Queued, pod::PodInfo,
    profile::Profile, sweep::PluginIdx,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    heap::IndexedHeap,
    note::{Cause, Note, Place},
};

pub use backoff::Backoff;
pub use entry::QueuedPod;
pub use in_flight::OwnedChange;

use backoff::after_backoff_before;
use in_flight::InFlight;
use wakers::Wakers;

/// What an event means for a waiting pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requeue {
    Stay,
    AfterBackoff,
    Now,
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
    active: IndexedHeap<Str, QueuedPod>,
    rejected_backoff: IndexedHeap<Str, QueuedPod>,
    error_backoff: IndexedHeap<Str, QueuedPod>,
    waiting: FxHashMap<Str, QueuedPod>,
    by_rejector: FxHashMap<&'static str, BTreeSet<(u64, Str)>>,
    in_flight: InFlight,
    /// Pods for which others are being evicted.
    held_for_eviction: FxHashSet<Str>,
    next_sequence: u64,
    handed_out: u64,
    /// Where the pods that are being moved were, and what moves them.
    moving: (Place, Cause),
    /// `None` unless somebody wants to know.
    moves: Option<Vec<Note>>,
}

impl Queue {
    /// An empty queue for pods of these profiles, of which there is at least one.
    pub fn new(profiles: Vec<Arc<Profile>>, backoff: Backoff, max_wait: std::time::Duration) -> Self {
        Self {
            wakers: Wakers::new(&profiles),
            profiles,
            backoff,
            max_wait,
            active: IndexedHeap::default(),
            rejected_backoff: IndexedHeap::default(),
            error_backoff: IndexedHeap::default(),
            waiting: FxHashMap::default(),
            by_rejector: FxHashMap::default(),
            in_flight: InFlight::default(),
            held_for_eviction: FxHashSet::default(),
            next_sequence: 0,
            handed_out: 0,
            moving: (Place::New, Cause::Added),
            moves: None,
        }
    }

    /// The same, taking note of every move if that is wanted.
    pub(crate) fn noting(mut self, moves: bool) -> Self {
        self.moves = moves.then(Vec::new);
        self
    }

    /// The moves since the last call, in order.
    pub(crate) fn take_moves(&mut self) -> Vec<Note> {
        self.moves.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The profile of that scheduler name.
    pub fn profile_of(&self, scheduler_name: &str) -> Option<usize> {
        self.profiles.iter().position(|p| *p.name() == scheduler_name)
    }

    /// How many pods are where.
    pub fn lengths(&self) -> QueueLengths {
        let gated = self.waiting.values().filter(|p| p.gated_by.is_some()).count();
        QueueLengths {
            active: self.active.len(),
            backoff: self.rejected_backoff.len() + self.error_backoff.len(),
            unschedulable: self.waiting.len() - gated,
            gated,
        }
    }

    /// Whether [`Self::pop`] would hand out a pod.
    pub fn has_work(&self) -> bool {
        !self.active.is_empty() || !self.rejected_backoff.is_empty()
    }

    /// A pod that the queue holds, with what the queue knows of it.
    pub fn get(&self, uid: &Str) -> Option<&QueuedPod> {
        let heaps = [&self.active, &self.rejected_backoff, &self.error_backoff];
        heaps.into_iter().find_map(|h| h.get(uid)).or_else(|| self.waiting.get(uid))
    }

    /// Waiting pods with the plugins that rejected them or hold them back.
    pub fn waiting(&self) -> impl Iterator<Item = &QueuedPod> {
        self.waiting.values()
    }

    // --- coming and going ---

    /// A pod that was not known before.
    pub fn add(&mut self, pod: Arc<PodInfo>, profile: usize, now: Timestamp) {
        self.next_sequence += 1;
        self.moving = (Place::New, Cause::Added);
        let entry = QueuedPod::new(pod, profile, now, self.next_sequence);
        self.enter_active(entry, now);
    }

    /// A queued pod's object changed; `events` say in which respects. Unknown pods are added, pods in flight only
    /// take note.
    pub fn update(
        &mut self,
        pod: Arc<PodInfo>,
        profile: usize,
        events: &[ClusterEvent],
        change: &OwnedChange,
        now: Timestamp,
    ) {
        let uid = pod.uid.clone();
        if self.in_flight.holds(&uid) {
            events.iter().for_each(|event| self.in_flight.record(*event, change));
            return;
        }
        let order = self.order();
        if let Some(mut entry) = self.active.remove(&uid, &order) {
            entry.pod = pod;
            self.active.push(uid, entry, &order);
        } else if let Some(mut entry) =
            self.rejected_backoff.remove(&uid, |a, b| after_backoff_before(a, b, &order))
        {
            entry.pod = pod;
            self.rejected_backoff.push(uid, entry, |a, b| after_backoff_before(a, b, &order));
        } else if let Some(mut entry) = self.error_backoff.remove(&uid, backoff::expires_before) {
            entry.pod = pod;
            self.error_backoff.push(uid, entry, backoff::expires_before);
        } else if let Some(entry) = self.waiting.get_mut(&uid) {
            entry.pod = pod;
            let verdict =
                |event: &ClusterEvent| (self.requeue_on(&self.waiting[&uid], *event, change), *event);
            if let Some((how, event)) = events.iter().map(verdict).find(|(how, _)| *how != Requeue::Stay) {
                self.wake(&uid, how, Cause::Event(event), now);
            }
        } else {
            self.add(pod, profile, now);
        }
    }

    /// The pod is gone or bound.
    pub fn delete(&mut self, uid: &Str) {
        let order = self.order();
        self.active.remove(uid, &order);
        self.rejected_backoff.remove(uid, |a, b| after_backoff_before(a, b, &order));
        self.error_backoff.remove(uid, backoff::expires_before);
        self.take_waiting(uid);
    }

    /// Hands out the next pod to be tried.
    pub fn pop(&mut self) -> Option<QueuedPod> {
        let order = self.order();
        let mut entry = self
            .active
            .pop(&order)
            .or_else(|| self.rejected_backoff.pop(|a, b| after_backoff_before(a, b, &order)))?;
        entry.attempts += 1;
        self.handed_out += 1;
        entry.rejectors.clear();
        entry.pending.clear();
        entry.gated_by = None;
        self.in_flight.begin(entry.pod.uid.clone());
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
        now: Timestamp,
    ) {
        let uid = entry.pod.uid.clone();
        let missed = self.in_flight.since(&uid);
        self.in_flight.end(&uid);
        if self.get(&uid).is_some() {
            return;
        }
        entry.since = now;
        entry.backoff_until = None;
        if rejectors.is_empty() && pending.is_empty() {
            entry.consecutive_errors += 1;
        } else {
            entry.rejections += 1;
            entry.consecutive_errors = 0;
        }
        entry.rejectors = rejectors;
        entry.pending = pending;
        let how = if entry.has_rejectors() {
            let answers = missed.iter().map(|(event, change)| self.requeue_on(&entry, *event, change));
            answers.max_by_key(|how| *how as u8).unwrap_or(Requeue::Stay)
        } else {
            Requeue::AfterBackoff
        };
        self.moving = (Place::InFlight, Cause::AttemptFailed);
        self.place(entry, how, now);
    }

    /// Pods are being evicted for this one: PreEnqueue plugins are told so.
    pub fn hold_for_eviction(&mut self, uid: Str) {
        self.held_for_eviction.insert(uid);
    }

    /// No longer. The pod is not woken by this.
    pub fn release_from_eviction(&mut self, uid: &str) {
        self.held_for_eviction.remove(uid);
    }

    // --- events ---

    /// Something happened: wakes the waiting pods that it may help.
    pub fn on_event(&mut self, event: ClusterEvent, change: &OwnedChange, now: Timestamp) {
        self.on_event_for(event, change, now, |_| true);
    }

    /// [`Self::on_event`] for those pods only that `concerns` picks.
    pub fn on_event_for(
        &mut self,
        event: ClusterEvent,
        change: &OwnedChange,
        now: Timestamp,
        concerns: impl Fn(&PodInfo) -> bool,
    ) {
        let Some(listeners) = self.wakers.listeners(event) else { return };
        self.in_flight.record(event, change);
        let mut woken: BTreeSet<(u64, Str)> = BTreeSet::new();
        for plugin in listeners {
            woken.extend(self.by_rejector.get(plugin).into_iter().flatten().cloned());
        }
        for (_, uid) in woken {
            let Some(entry) = self.waiting.get(&uid).filter(|e| concerns(&e.pod)) else { continue };
            let how = self.requeue_on(entry, event, change);
            if how != Requeue::Stay {
                self.wake(&uid, how, Cause::Event(event), now);
            }
        }
    }

    /// Tries the pod at once, whatever it waits for (but for its gates).
    pub fn activate(&mut self, full_name: &str, now: Timestamp) {
        let failed = self.rejected_backoff.iter().chain(self.error_backoff.iter());
        let found = self.waiting.values().chain(failed).find(|e| e.pod.full_name() == full_name);
        let Some(uid) = found.map(|e| e.pod.uid.clone()) else { return };
        let order = self.order();
        if self.waiting.contains_key(&uid) {
            self.wake(&uid, Requeue::Now, Cause::Activated, now);
            return;
        }
        self.moving = (Place::Backoff, Cause::Activated);
        let rejected = self.rejected_backoff.remove(&uid, |a, b| after_backoff_before(a, b, &order));
        if let Some(entry) = rejected.or_else(|| self.error_backoff.remove(&uid, backoff::expires_before)) {
            self.push_active(entry, now);
        }
    }

    // --- time ---

    /// Makes pods active whose backoff is over.
    pub fn flush_backoff(&mut self, now: Timestamp) {
        let order = self.order();
        let over = |entry: Option<&QueuedPod>| entry.is_some_and(|e| !self.backoff.is_backing_off(e, now));
        let mut ready = Vec::new();
        while over(self.rejected_backoff.peek()) {
            ready.extend(self.rejected_backoff.pop(|a, b| after_backoff_before(a, b, &order)));
        }
        while over(self.error_backoff.peek()) {
            ready.extend(self.error_backoff.pop(backoff::expires_before));
        }
        self.moving = (Place::Backoff, Cause::BackoffComplete);
        ready.into_iter().for_each(|entry| self.push_active(entry, now));
    }

    /// Tries pods again that have waited for very long, in case an event was missed.
    pub fn flush_waiting(&mut self, now: Timestamp) {
        let mut stale: Vec<(u64, Str)> = self
            .waiting
            .values()
            .filter(|e| e.gated_by.is_none() && now.since(e.since) > self.max_wait)
            .map(|e| (e.sequence, e.pod.uid.clone()))
            .collect();
        stale.sort();
        for (_, uid) in stale {
            self.wake(&uid, Requeue::AfterBackoff, Cause::Timeout, now);
        }
    }

    /// When the first backoff ends.
    pub fn next_backoff_end(&self) -> Option<Timestamp> {
        let heads = [self.rejected_backoff.peek(), self.error_backoff.peek()];
        heads.into_iter().flatten().map(|e| self.backoff.release(e)).min()
    }

    /// Whether any pod waits for an event (gated ones aside).
    pub fn anyone_waits(&self) -> bool {
        self.waiting.values().any(|e| e.gated_by.is_none())
    }

    // --- inside ---

    fn order(&self) -> impl Fn(&QueuedPod, &QueuedPod) -> bool + use<> {
        let sort = self.profiles[0].clone();
        move |a, b| {
            let (x, y) = (Queued { pod: &a.pod, since: a.since }, Queued { pod: &b.pod, since: b.since });
            sort.less(x, y) || (!sort.less(y, x) && a.sequence < b.sequence)
        }
    }

    fn requeue_on(&self, entry: &QueuedPod, event: ClusterEvent, change: &OwnedChange) -> Requeue {
        if let Some(gate) = entry.gated_by
            && !self.wakers.plugin_hears(entry.profile, gate, event)
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

    fn wake(&mut self, uid: &Str, how: Requeue, cause: Cause, now: Timestamp) {
        if let Some(entry) = self.take_waiting(uid) {
            self.moving = (Place::Unschedulable, cause);
            self.place(entry, how, now);
        }
    }

    fn place(&mut self, mut entry: QueuedPod, how: Requeue, now: Timestamp) {
        match how {
            Requeue::Stay => self.put_waiting(entry),
            Requeue::Now => self.enter_active(entry, now),
            Requeue::AfterBackoff => {
                entry.backoff_until = self.backoff.end(&entry);
                if self.backoff.is_backing_off(&entry, now) {
                    self.enter_backoff(entry);
                } else {
                    self.enter_active(entry, now);
                }
            }
        }
    }

    fn enter_active(&mut self, entry: QueuedPod, now: Timestamp) {
        match self.gate(&entry) {
            Some(gate) => self.put_gated(entry, gate),
            None => self.push_active(entry, now),
        }
    }

    fn push_active(&mut self, mut entry: QueuedPod, now: Timestamp) {
        entry.gated_by = None;
        entry.first_active.get_or_insert(now);
        self.note_move(&entry, Place::Active);
        let order = self.order();
        self.active.push(entry.pod.uid.clone(), entry, order);
    }

    fn enter_backoff(&mut self, mut entry: QueuedPod) {
        if let Some(gate) = self.gate(&entry) {
            return self.put_gated(entry, gate);
        }
        entry.gated_by = None;
        self.note_move(&entry, Place::Backoff);
        let uid = entry.pod.uid.clone();
        if entry.has_rejectors() {
            let order = self.order();
            self.rejected_backoff.push(uid, entry, |a, b| after_backoff_before(a, b, &order));
        } else {
            self.error_backoff.push(uid, entry, backoff::expires_before);
        }
    }

    /// The PreEnqueue plugin that holds the pod back, if any; the one that did last time is asked first.
    fn gate(&self, entry: &QueuedPod) -> Option<&'static str> {
        let profile = &self.profiles[entry.profile];
        let mut gates: Vec<PluginIdx> = profile.at(ExtensionPoint::PreEnqueue).to_vec();
        gates.sort_by_key(|g| Some(profile.plugin(*g).name()) != entry.gated_by);
        let awaits_eviction = self.held_for_eviction.contains(&entry.pod.uid);
        let cx = EnqueueCycle { pod: &entry.pod, awaits_eviction };
        let opens = |gate: &PluginIdx| matches!(profile.plugin(*gate).pre_enqueue(cx), Ok(Verdict::Ok(())));
        gates.into_iter().find(|gate| !opens(gate)).map(|gate| profile.plugin(gate).name())
    }

    fn put_gated(&mut self, mut entry: QueuedPod, gate: &'static str) {
        entry.gated_by = Some(gate);
        if !entry.rejectors.contains(&gate) {
            entry.rejectors.push(gate);
        }
        self.put_waiting(entry);
    }

    fn note_move(&mut self, entry: &QueuedPod, to: Place) {
        let (from, event) = self.moving;
        if let Some(moves) = self.moves.as_mut().filter(|_| from != to) {
            moves.push(Note::Moved { pod: entry.pod.clone(), from, to, event });
        }
    }

    fn put_waiting(&mut self, entry: QueuedPod) {
        self.note_move(&entry, Place::Unschedulable);
        for plugin in entry.all_rejectors() {
            self.by_rejector.entry(plugin).or_default().insert((entry.sequence, entry.pod.uid.clone()));
        }
        self.waiting.insert(entry.pod.uid.clone(), entry);
    }

    fn take_waiting(&mut self, uid: &Str) -> Option<QueuedPod> {
        let entry = self.waiting.remove(uid)?;
        for plugin in entry.all_rejectors() {
            if let Some(pods) = self.by_rejector.get_mut(plugin) {
                pods.remove(&(entry.sequence, uid.clone()));
            }
        }
        Some(entry)
    }
}
