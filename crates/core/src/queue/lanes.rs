//! The active elements: one heap or, if namespaces take turns, one heap for each namespace.
//!
//! Invariant: if namespaces take turns, no heap is empty. The only heap without turns stays, so that a queue that often
//! becomes empty does not allocate a heap for each pod.

use std::{cell::RefCell, cmp::Ordering, collections::BTreeMap, sync::Arc};

use harbormaster_api::Str;
use harbormaster_framework::{
    guard::PointError,
    objects::Objects,
    plugin::{Turn, TurnCycle},
    profile::Profile,
};
use rustc_hash::FxHashMap;

use super::{Entity, orders::BySort};
use crate::heap::{IndexedHeap, Order};

type Heap = IndexedHeap<Str, Entity, Arc<BySort>>;

/// Active elements in the order of the QueueSort plugin.
#[derive(Debug)]
pub(super) struct Lanes {
    order: Arc<BySort>,
    takes_turns: bool,
    /// By namespace; without turns, one heap without a name.
    heaps: BTreeMap<Str, Heap>,
    /// The namespace of each element; empty without turns.
    lanes: FxHashMap<Str, Str>,
    /// The latest failure of [`BySort::turn`] that was not taken.
    failure: RefCell<Option<PointError>>,
}

impl Lanes {
    /// Creates an empty part in the order of a profile's QueueSort plugin.
    pub(super) fn new(profile: &Arc<Profile>) -> Self {
        let order = Arc::new(BySort::new(profile.clone()));
        Self {
            takes_turns: order.takes_turns(),
            order,
            heaps: BTreeMap::new(),
            lanes: FxHashMap::default(),
            failure: RefCell::default(),
        }
    }

    pub(super) fn order(&self) -> &BySort {
        &self.order
    }

    /// Returns true if determining a turn has failed since the failure was last taken.
    pub(super) fn has_failure(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(super) fn take_failure(&self) -> Option<PointError> {
        self.failure.take()
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.heaps.values().map(IndexedHeap::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heaps.values().all(IndexedHeap::is_empty)
    }

    pub(super) fn get(&self, key: &Str) -> Option<&Entity> {
        self.heaps.get(&self.lane_of(key)?)?.get(key)
    }

    /// All elements in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entity> {
        self.heaps.values().flat_map(IndexedHeap::iter)
    }

    /// Returns the name of the heap that would contain the element.
    fn lane_of(&self, key: &Str) -> Option<Str> {
        if self.takes_turns { self.lanes.get(key).cloned() } else { Some(Str::default()) }
    }

    /// Adds an element that is not there yet.
    pub(super) fn push(&mut self, key: Str, entity: Entity) {
        let mut lane = Str::default();
        if let (true, Some(first)) = (self.takes_turns, entity.pods().first()) {
            lane = first.pod.namespace.clone();
            self.lanes.insert(key.clone(), lane.clone());
        }
        let heap = self.heaps.entry(lane).or_insert_with(|| IndexedHeap::new(self.order.clone()));
        heap.push(key, entity);
    }

    /// Takes the element with the given key.
    pub(super) fn remove(&mut self, key: &Str) -> Option<Entity> {
        let lane = self.lane_of(key)?;
        let entity = self.heaps.get_mut(&lane)?.remove(key)?;
        self.has_left(key, &lane);
        Some(entity)
    }

    /// Takes the first element.
    pub(super) fn pop(&mut self, cx: TurnCycle<'_>) -> Option<Entity> {
        let lane = self.first_lane(cx)?.clone();
        let entity = self.heaps.get_mut(&lane)?.pop()?;
        self.has_left(entity.key(), &lane);
        Some(entity)
    }

    /// Forgets the namespace of an element that has left its heap, and the heap if it was the last one.
    fn has_left(&mut self, key: &Str, lane: &Str) {
        if self.takes_turns {
            self.lanes.remove(key);
            if self.heaps.get(lane).is_some_and(IndexedHeap::is_empty) {
                self.heaps.remove(lane);
            }
        }
    }

    /// The name of the heap whose turn it is.
    fn first_lane(&self, cx: TurnCycle<'_>) -> Option<&Str> {
        let mut best: Option<(Turn, &Entity, &Str)> = None;
        for (lane, heap) in &self.heaps {
            let Some(head) = heap.peek() else { continue };
            let turn = self.turn(lane, cx);
            let is_before = best.is_none_or(|(known, first, _)| match turn.cmp(&known) {
                Ordering::Equal => self.order.before(head, first),
                unequal => unequal.is_lt(),
            });
            if is_before {
                best = Some((turn, head, lane));
            }
        }
        best.map(|(_, _, lane)| lane)
    }

    fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> Turn {
        // Most plugins have no turns, and there is nothing to compare.
        if !self.takes_turns {
            return Turn::default();
        }
        self.order.turn(namespace, cx).unwrap_or_else(|failure| {
            self.failure.replace(Some(failure));
            [i64::MAX; 8]
        })
    }

    /// Ranks all elements anew.
    pub(super) fn rank_all(&mut self, objects: &Objects) {
        for heap in self.heaps.values_mut() {
            heap.change_all(|order, entity| order.rank(entity, objects));
        }
    }

    /// All elements in no particular order.
    pub(super) fn into_all(self) -> impl Iterator<Item = Entity> {
        self.heaps.into_values().flat_map(|mut heap| std::iter::from_fn(move || heap.pop()))
    }
}
