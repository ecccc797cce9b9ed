//! The parts of the queue. Keeps count of the groups in each of them, because nobody else can without visiting them all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    extender::ExtenderSet, guard::PointError, objects::Objects, plugin::TurnCycle, pod::PodInfo,
    profile::Profile,
};
use rustc_hash::FxHashMap;

use super::{
    Backoff, Entity, GroupLength, GroupLengths, QueueLengths, QueueState,
    lanes::Lanes,
    orders::{ByArrival, ByExpiry, BySort},
};
use crate::heap::IndexedHeap;

/// The active, the backoff and the unschedulable part.
#[derive(Debug)]
pub(super) struct Parts {
    active: Lanes,
    /// Active elements that were next while their extenders were occupied, by these extenders. They are next again when
    /// the extenders are free. Never empty.
    parked: BTreeMap<ExtenderSet, Lanes>,
    profile: Arc<Profile>,
    rejected_backoff: IndexedHeap<Str, Entity, ByExpiry<BySort>>,
    error_backoff: IndexedHeap<Str, Entity, ByExpiry<ByArrival>>,
    unschedulable: FxHashMap<Str, Entity>,
    by_rejector: FxHashMap<&'static str, BTreeSet<(u64, Str)>>,
    /// Unschedulable elements that are retried at a certain time.
    timed: BTreeSet<(Timestamp, Str)>,
    /// Number of gated elements.
    gated: usize,
    groups: GroupLengths,
}

impl GroupLength {
    /// Counts an element that enters or leaves a part, if it is a group.
    fn count(&mut self, entity: &Entity, enters: bool) {
        let Some(members) = entity.members() else { return };
        let change = |number: usize, by: usize| if enters { number + by } else { number - by };
        (self.groups, self.members) = (change(self.groups, 1), change(self.members, members));
    }

    /// Number of pods if groups count as one of these elements each.
    fn pods_of(self, elements: usize) -> usize {
        elements - self.groups + self.members
    }
}

impl Parts {
    /// Creates empty parts in the order of a profile's QueueSort plugin.
    pub(super) fn new(profile: &Arc<Profile>) -> Self {
        Self {
            active: Lanes::new(profile),
            parked: BTreeMap::new(),
            profile: profile.clone(),
            rejected_backoff: IndexedHeap::new(ByExpiry(BySort::new(profile.clone()))),
            error_backoff: IndexedHeap::new(ByExpiry(ByArrival)),
            unschedulable: FxHashMap::default(),
            by_rejector: FxHashMap::default(),
            timed: BTreeSet::new(),
            gated: 0,
            groups: GroupLengths::default(),
        }
    }

    // --- reading ---

    /// Numbers of pods and groups. Nothing is incomplete here.
    pub(super) fn lengths(&self) -> QueueLengths {
        let groups = self.groups;
        let backoff = self.rejected_backoff.len() + self.error_backoff.len();
        QueueLengths {
            active: groups.active.pods_of(self.all_active().map(Lanes::len).sum()),
            backoff: groups.backoff.pods_of(backoff),
            unschedulable: groups.unschedulable.pods_of(self.unschedulable.len() - self.gated),
            gated: groups.gated.pods_of(self.gated),
            incomplete: 0,
            groups,
        }
    }

    pub(super) fn get(&self, key: &Str) -> Option<&Entity> {
        let backoff = || self.rejected_backoff.get(key).or_else(|| self.error_backoff.get(key));
        self.get_active(key).or_else(backoff).or_else(|| self.unschedulable.get(key))
    }

    fn get_active(&self, key: &Str) -> Option<&Entity> {
        self.all_active().find_map(|lanes| lanes.get(key))
    }

    fn all_active(&self) -> impl Iterator<Item = &Lanes> {
        std::iter::once(&self.active).chain(self.parked.values())
    }

    /// Returns the part that contains an element.
    pub(super) fn state_of(&self, key: &Str) -> Option<QueueState> {
        let is_in = |part: Option<&Entity>, state| part.map(|_| state);
        let backoff = || self.rejected_backoff.get(key).or_else(|| self.error_backoff.get(key));
        is_in(self.get_active(key), QueueState::Active)
            .or_else(|| is_in(backoff(), QueueState::Backoff))
            .or_else(|| is_in(self.unschedulable.get(key), QueueState::Unschedulable))
    }

    pub(super) fn active(&self) -> impl Iterator<Item = &Entity> {
        self.all_active().flat_map(Lanes::iter)
    }

    pub(super) fn backing_off(&self) -> impl Iterator<Item = &Entity> {
        self.rejected_backoff.iter().chain(self.error_backoff.iter())
    }

    pub(super) fn unschedulable(&self) -> impl Iterator<Item = &Entity> {
        self.unschedulable.values()
    }

    pub(super) fn get_unschedulable(&self, key: &Str) -> Option<&Entity> {
        self.unschedulable.get(key)
    }

    /// Number of elements that wait for an event, and the number of gated ones among them.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.unschedulable.len(), self.gated)
    }

    /// Plugins that some elements wait for, each with the positions and keys of these elements.
    pub(super) fn by_rejector(&self) -> impl Iterator<Item = (&'static str, &BTreeSet<(u64, Str)>)> {
        self.by_rejector.iter().filter(|(_, waiting)| !waiting.is_empty()).map(|(plugin, all)| (*plugin, all))
    }

    /// Returns true if the events of every plugin that an element waits for can find it.
    pub(super) fn is_listed(&self, entity: &Entity) -> bool {
        let entry = (entity.sequence, entity.key().clone());
        entity
            .all_rejectors()
            .all(|plugin| self.by_rejector.get(plugin).is_some_and(|all| all.contains(&entry)))
    }

    /// Removes an element from the lists of the plugins that it waits for, as a bug might.
    #[cfg(test)]
    pub(super) fn unlist(&mut self, key: &Str) {
        self.by_rejector.values_mut().for_each(|all| all.retain(|(_, waiting)| waiting != key));
    }

    /// Returns true if [`Self::pop_active`] would return something after [`Self::unpark`].
    pub(super) fn has_active(&self, occupied: ExtenderSet) -> bool {
        !self.active.is_empty() || self.parked.keys().any(|extenders| !extenders.intersects(occupied))
    }

    /// Returns true if [`Self::pop_early`] would return something.
    pub(super) fn has_early(&self) -> bool {
        !self.rejected_backoff.is_empty()
    }

    /// Time at which the first backoff ends.
    pub(super) fn next_backoff_end(&self, backoff: &Backoff) -> Option<Timestamp> {
        let heads = [self.rejected_backoff.peek(), self.error_backoff.peek()];
        heads.into_iter().flatten().map(|entity| backoff.release(entity)).min()
    }

    /// Earliest time at which an unschedulable element is retried.
    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        self.timed.first().map(|(time, _)| *time)
    }

    // --- panics of the QueueSort plugin ---

    pub(super) fn has_panic(&self) -> bool {
        let has_failed = |lanes: &Lanes| lanes.has_failure() || lanes.order().has_panic();
        self.all_active().any(has_failed) || self.rejected_backoff.order().0.has_panic()
    }

    /// Takes the panic of ordering active elements.
    pub(super) fn take_active_panic(&self) -> Option<PointError> {
        self.active.order().take_panic()
    }

    pub(super) fn take_panics(&self) -> impl Iterator<Item = PointError> {
        let backoff = self.rejected_backoff.order().0.take_panic();
        let active = self.all_active().flat_map(|lanes| [lanes.order().take_panic(), lanes.take_failure()]);
        active.chain([backoff]).flatten()
    }

    // --- adding ---

    pub(super) fn add_active(&mut self, mut entity: Entity, objects: &Objects) {
        self.active.order().rank(&mut entity, objects);
        self.groups.active.count(&entity, true);
        self.active.push(entity.key().clone(), entity);
    }

    /// Sets an active element aside while extenders that it needs are occupied.
    pub(super) fn park(&mut self, entity: Entity, extenders: ExtenderSet) {
        self.groups.active.count(&entity, true);
        let lanes = self.parked.entry(extenders).or_insert_with(|| Lanes::new(&self.profile));
        lanes.push(entity.key().clone(), entity);
    }

    /// Lets the first of the elements that were set aside for the same extenders be next again, if their extenders are
    /// free. The others would only be set aside again.
    pub(super) fn unpark(&mut self, occupied: ExtenderSet, cx: TurnCycle<'_>) {
        let free = self.parked.iter_mut().filter(|(extenders, _)| !extenders.intersects(occupied));
        for entity in free.filter_map(|(_, lanes)| lanes.pop(cx)) {
            self.active.push(entity.key().clone(), entity);
        }
        self.parked.retain(|_, lanes| !lanes.is_empty());
    }

    /// Adds an element to one of the two heaps. Groups never leave their backoff early: an attempt may cost much.
    pub(super) fn add_backoff(&mut self, mut entity: Entity, objects: &Objects) {
        self.groups.backoff.count(&entity, true);
        let key = entity.key().clone();
        match &entity {
            Entity::Pod(entry) if entry.has_rejectors() => {
                self.rejected_backoff.order().0.rank(&mut entity, objects);
                self.rejected_backoff.push(key, entity);
            }
            _ => self.error_backoff.push(key, entity),
        }
    }

    pub(super) fn add_unschedulable(&mut self, entity: Entity) {
        let key = entity.key().clone();
        for plugin in entity.all_rejectors() {
            self.by_rejector.entry(plugin).or_default().insert((entity.sequence, key.clone()));
        }
        self.timed.extend(entity.retry_at.map(|time| (time, key.clone())));
        self.gated += usize::from(entity.gated_by.is_some());
        self.waiting_groups(&entity).count(&entity, true);
        self.unschedulable.insert(key, entity);
    }

    fn waiting_groups(&mut self, entity: &Entity) -> &mut GroupLength {
        if entity.gated_by.is_some() { &mut self.groups.gated } else { &mut self.groups.unschedulable }
    }

    // --- changing ---

    /// Replaces a pod by its newer version. Returns the part that it is in; `None` if it is in none.
    pub(super) fn replace(&mut self, key: &Str, pod: &Arc<PodInfo>, objects: &Objects) -> Option<QueueState> {
        if let Some(entity) = self.unschedulable.get_mut(key) {
            entity.replace(pod.clone());
            return Some(QueueState::Unschedulable);
        }
        let (state, mut entity) = self.take(key)?;
        entity.replace(pod.clone());
        match state {
            QueueState::Active => self.add_active(entity, objects),
            _ => self.add_backoff(entity, objects),
        }
        Some(state)
    }

    /// Ranks all elements anew that the QueueSort plugin orders.
    pub(super) fn rank_all(&mut self, objects: &Objects) {
        self.active.rank_all(objects);
        self.parked.values_mut().for_each(|lanes| lanes.rank_all(objects));
        self.rejected_backoff.change_all(|order, entity| order.0.rank(entity, objects));
    }

    /// Notes that a waiting element is retried because it has waited too long.
    pub(super) fn flushed(&mut self, key: &Str, now: Timestamp) {
        if let Some(entity) = self.unschedulable.get_mut(key) {
            entity.flushed = Some(now);
        }
    }

    // --- taking ---

    /// Takes an element out of its part.
    pub(super) fn take(&mut self, key: &Str) -> Option<(QueueState, Entity)> {
        if let Some(entity) = self.active.remove(key).or_else(|| self.take_parked(key)) {
            self.groups.active.count(&entity, false);
            return Some((QueueState::Active, entity));
        }
        if let Some(entity) = self.take_backoff(key) {
            return Some((QueueState::Backoff, entity));
        }
        Some((QueueState::Unschedulable, self.take_unschedulable(key)?))
    }

    fn take_parked(&mut self, key: &Str) -> Option<Entity> {
        let entity = self.parked.values_mut().find_map(|lanes| lanes.remove(key))?;
        self.parked.retain(|_, lanes| !lanes.is_empty());
        Some(entity)
    }

    pub(super) fn take_backoff(&mut self, key: &Str) -> Option<Entity> {
        let entity = self.rejected_backoff.remove(key).or_else(|| self.error_backoff.remove(key))?;
        self.groups.backoff.count(&entity, false);
        Some(entity)
    }

    pub(super) fn take_unschedulable(&mut self, key: &Str) -> Option<Entity> {
        let entity = self.unschedulable.remove(key)?;
        if let Some(time) = entity.retry_at {
            self.timed.remove(&(time, key.clone()));
        }
        self.gated -= usize::from(entity.gated_by.is_some());
        self.waiting_groups(&entity).count(&entity, false);
        for plugin in entity.all_rejectors() {
            if let Some(waiting) = self.by_rejector.get_mut(plugin) {
                waiting.remove(&(entity.sequence, key.clone()));
            }
        }
        Some(entity)
    }

    /// Takes the first active element.
    pub(super) fn pop_active(&mut self, cx: TurnCycle<'_>) -> Option<Entity> {
        let entity = self.active.pop(cx)?;
        self.groups.active.count(&entity, false);
        Some(entity)
    }

    /// Takes the first element that may leave its backoff early.
    pub(super) fn pop_early(&mut self) -> Option<Entity> {
        let entity = self.rejected_backoff.pop()?;
        self.groups.backoff.count(&entity, false);
        Some(entity)
    }

    /// Takes the elements whose backoff is over.
    pub(super) fn take_expired(&mut self, backoff: &Backoff, now: Timestamp) -> Vec<Entity> {
        let is_over =
            |entity: Option<&Entity>| entity.is_some_and(|entity| !backoff.is_backing_off(entity, now));
        let mut expired = Vec::new();
        while is_over(self.rejected_backoff.peek()) {
            expired.extend(self.rejected_backoff.pop());
        }
        while is_over(self.error_backoff.peek()) {
            expired.extend(self.error_backoff.pop());
        }
        expired.iter().for_each(|entity| self.groups.backoff.count(entity, false));
        expired
    }

    /// Keys of the unschedulable elements that are retried now, in order of arrival. Their times are forgotten.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Str> {
        let mut due = BTreeSet::new();
        while self.next_retry().is_some_and(|time| time <= now) {
            let Some((_, key)) = self.timed.pop_first() else { break };
            if let Some(entity) = self.unschedulable.get_mut(&key) {
                entity.retry_at = None;
                due.insert((entity.sequence, key));
            }
        }
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// All elements in order of arrival, with the parts that they are in.
    pub(super) fn into_all(self) -> Vec<(QueueState, Entity)> {
        let Self { active, parked, mut rejected_backoff, mut error_backoff, unschedulable, .. } = self;
        let mut all: Vec<(QueueState, Entity)> = Vec::new();
        let active = std::iter::once(active).chain(parked.into_values()).flat_map(Lanes::into_all);
        all.extend(active.map(|entity| (QueueState::Active, entity)));
        let backoff = std::iter::from_fn(|| rejected_backoff.pop().or_else(|| error_backoff.pop()));
        all.extend(backoff.map(|entity| (QueueState::Backoff, entity)));
        all.extend(unschedulable.into_values().map(|entity| (QueueState::Unschedulable, entity)));
        all.sort_by_key(|(_, entity)| entity.sequence);
        all
    }
}
