//! Lookup of the selectors that match a pod, without trying all selectors.

use std::hash::Hash;

use harbormaster_api::{Labels, Str};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    PodTerm,
    label_map::{Anchor, LabelMap, LabelSlot, anchors},
};

/// Selectors by ID. Each selector is filed under one label that it requires, in each namespace that it names. Selectors
/// with a namespace selector are in a map for all namespaces; selectors that require no label are in
/// [`LabelSlot::Rest`].
#[derive(Debug)]
pub(super) struct SelectorMap<Id> {
    namespaces: FxHashMap<Str, LabelMap<Id>>,
    everywhere: LabelMap<Id>,
}

/// Position of a selector in the map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MapPosition {
    /// Index of the term.
    term: usize,
    /// Index of the anchor in the term; `None` if the selector requires no label.
    anchor: Option<usize>,
}

impl<Id> Default for SelectorMap<Id> {
    fn default() -> Self {
        Self { namespaces: FxHashMap::default(), everywhere: LabelMap::default() }
    }
}

impl<Id: Copy + Ord + Hash> SelectorMap<Id> {
    /// Adds a selector of pods that match all terms. Files it under one of the labels that it requires: the one with
    /// the fewest selectors.
    pub(super) fn insert(&mut self, all_of: &[PodTerm], id: Id) -> MapPosition {
        let position = self.best(all_of);
        let (slots, scopes) = slots(all_of, position);
        for scope in scopes {
            let map = match scope {
                None => &mut self.everywhere,
                Some(namespace) => self.namespaces.entry(namespace.clone()).or_default(),
            };
            slots.clone().for_each(|slot| map.insert(slot, id));
        }
        position
    }

    /// Removes a selector from the position that [`Self::insert`] returned.
    pub(super) fn remove(&mut self, all_of: &[PodTerm], position: MapPosition, id: Id) {
        let (slots, scopes) = slots(all_of, position);
        for scope in scopes {
            let Some(namespace) = scope else {
                slots.clone().for_each(|slot| self.everywhere.remove(slot, id));
                continue;
            };
            if let Some(map) = self.namespaces.get_mut(namespace) {
                slots.clone().for_each(|slot| map.remove(slot, id));
                if map.is_empty() {
                    self.namespaces.remove(namespace);
                }
            }
        }
    }

    /// Returns every selector that may select pods of the namespace with these labels. Lists each selector once.
    pub(super) fn candidates_for(&self, namespace: &Str, labels: &Labels) -> impl Iterator<Item = Id> {
        let here = self.namespaces.get(namespace).into_iter().flat_map(|map| map.candidates_for(labels));
        here.chain(self.everywhere.candidates_for(labels))
    }

    /// Checks that the map contains exactly these selectors.
    pub(super) fn check<'a>(
        &self,
        selectors: impl Iterator<Item = (&'a [PodTerm], MapPosition, Id)>,
    ) -> Result<(), String> {
        let mut expected = 0;
        for (all_of, position, id) in selectors {
            let (slots, scopes) = slots(all_of, position);
            let slots: FxHashSet<LabelSlot<'_>> = slots.collect();
            for map in scopes.iter().map(|scope| self.map(*scope)) {
                if slots.iter().any(|slot| !map.is_some_and(|map| map.contains(*slot, id))) {
                    return Err(format!("{all_of:?} is not in all of its slots"));
                }
            }
            expected += slots.len() * scopes.len();
        }
        let namespaces = self.namespaces.values();
        let taken = self.everywhere.slots() + namespaces.clone().map(LabelMap::slots).sum::<usize>();
        if taken == expected && !namespaces.clone().any(LabelMap::is_empty) {
            return Ok(());
        }
        Err(format!("selectors are in {taken} slots, expected {expected}"))
    }

    fn best(&self, all_of: &[PodTerm]) -> MapPosition {
        let anchored = all_of.iter().enumerate().flat_map(|(at, term)| {
            let numbered = anchors(&term.labels).enumerate();
            numbered.map(move |(anchor, found)| (self.slot_len(term, found), at, anchor))
        });
        let best = anchored.min_by_key(|(slot_len, ..)| *slot_len);
        let in_few = || all_of.iter().position(|term| term.namespace_selector.is_none()).unwrap_or(0);
        best.map_or_else(
            || MapPosition { term: in_few(), anchor: None },
            |(_, term, anchor)| MapPosition { term, anchor: Some(anchor) },
        )
    }

    fn slot_len(&self, term: &PodTerm, anchor: Anchor<'_>) -> usize {
        let in_map = |map: &LabelMap<Id>| anchor.slots().map(|slot| map.slot_len(slot)).sum::<usize>();
        scopes(term).into_iter().filter_map(|scope| self.map(scope)).map(in_map).sum()
    }

    fn map(&self, scope: Scope<'_>) -> Option<&LabelMap<Id>> {
        scope.map_or(Some(&self.everywhere), |namespace| self.namespaces.get(namespace))
    }
}

/// A namespace, or `None` for all namespaces.
type Scope<'a> = Option<&'a Str>;

/// Returns the maps that contain a term.
fn scopes(term: &PodTerm) -> Vec<Scope<'_>> {
    match term.namespace_selector {
        Some(_) => vec![None],
        None => term.namespaces.iter().map(Some).collect(),
    }
}

/// Returns a selector's slots and the maps that contain them.
fn slots(
    all_of: &[PodTerm],
    position: MapPosition,
) -> (impl Iterator<Item = LabelSlot<'_>> + Clone, Vec<Scope<'_>>) {
    let term = all_of.get(position.term);
    let anchor = term.and_then(|term| anchors(&term.labels).nth(position.anchor?));
    let rest = anchor.is_none().then_some(LabelSlot::Rest);
    (anchor.into_iter().flat_map(Anchor::slots).chain(rest), term.map_or(Vec::new(), scopes))
}
