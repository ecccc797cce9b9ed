//! Which of many selectors select a pod, without trying them all.

use std::hash::Hash;

use harbormaster_api::{Labels, Str};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    PodTerm,
    label_map::{Anchor, LabelMap, Place, anchors},
};

/// Selectors by number. Each stands under one label that it names, in each namespace that it names; those that find
/// namespaces by their labels stand in a map for every namespace, those that name no label under nothing.
#[derive(Debug)]
pub(super) struct SelectorMap<Id> {
    namespaces: FxHashMap<Str, LabelMap<Id>>,
    everywhere: LabelMap<Id>,
}

/// By what a selector is found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    /// Which of its terms.
    term: usize,
    /// Which anchor of that term.
    anchor: Option<usize>,
}

impl<Id> Default for SelectorMap<Id> {
    fn default() -> Self {
        Self { namespaces: FxHashMap::default(), everywhere: LabelMap::default() }
    }
}

impl<Id: Copy + Ord + Hash> SelectorMap<Id> {
    /// Adds a selector of pods that match all of some terms, under the label with the fewest selectors.
    pub(super) fn insert(&mut self, all_of: &[PodTerm], id: Id) -> Spot {
        let spot = self.best(all_of);
        let (places, scopes) = places(all_of, spot);
        for scope in scopes {
            let map = match scope {
                None => &mut self.everywhere,
                Some(namespace) => self.namespaces.entry(namespace.clone()).or_default(),
            };
            places.clone().for_each(|place| map.insert(place, id));
        }
        spot
    }

    /// Removes a selector from where [`Self::insert`] put it.
    pub(super) fn remove(&mut self, all_of: &[PodTerm], spot: Spot, id: Id) {
        let (places, scopes) = places(all_of, spot);
        for scope in scopes {
            let Some(namespace) = scope else {
                places.clone().for_each(|place| self.everywhere.remove(place, id));
                continue;
            };
            if let Some(map) = self.namespaces.get_mut(namespace) {
                places.clone().for_each(|place| map.remove(place, id));
                if map.is_empty() {
                    self.namespaces.remove(namespace);
                }
            }
        }
    }

    /// Every selector that may select pods of that namespace with these labels, each once.
    pub(super) fn about(&self, namespace: &Str, labels: &Labels) -> impl Iterator<Item = Id> {
        let here = self.namespaces.get(namespace).into_iter().flat_map(|map| map.about(labels));
        here.chain(self.everywhere.about(labels))
    }

    /// Whether exactly these selectors are in their places.
    pub(super) fn check<'a>(
        &self,
        selectors: impl Iterator<Item = (&'a [PodTerm], Spot, Id)>,
    ) -> Result<(), String> {
        let mut expected = 0;
        for (all_of, spot, id) in selectors {
            let (places, scopes) = places(all_of, spot);
            let places: FxHashSet<Place<'_>> = places.collect();
            for map in scopes.iter().map(|scope| self.map(*scope)) {
                if places.iter().any(|place| !map.is_some_and(|map| map.contains(*place, id))) {
                    return Err(format!("{all_of:?} is not in its places"));
                }
            }
            expected += places.len() * scopes.len();
        }
        let namespaces = self.namespaces.values();
        let taken = self.everywhere.places() + namespaces.clone().map(LabelMap::places).sum::<usize>();
        if taken == expected && !namespaces.clone().any(LabelMap::is_empty) {
            return Ok(());
        }
        Err(format!("selectors stand in {taken} places, not in {expected}"))
    }

    fn best(&self, all_of: &[PodTerm]) -> Spot {
        let anchored = all_of.iter().enumerate().flat_map(|(at, term)| {
            let numbered = anchors(&term.labels).enumerate();
            numbered.map(move |(anchor, found)| (self.crowd(term, found), at, anchor))
        });
        let best = anchored.min_by_key(|(crowd, ..)| *crowd);
        let in_few = || all_of.iter().position(|term| term.namespace_selector.is_none()).unwrap_or(0);
        best.map_or_else(
            || Spot { term: in_few(), anchor: None },
            |(_, term, anchor)| Spot { term, anchor: Some(anchor) },
        )
    }

    fn crowd(&self, term: &PodTerm, anchor: Anchor<'_>) -> usize {
        let in_map = |map: &LabelMap<Id>| anchor.places().map(|place| map.crowd(place)).sum::<usize>();
        scopes(term).into_iter().filter_map(|scope| self.map(scope)).map(in_map).sum()
    }

    fn map(&self, scope: Scope<'_>) -> Option<&LabelMap<Id>> {
        scope.map_or(Some(&self.everywhere), |namespace| self.namespaces.get(namespace))
    }
}

/// A namespace, or all of them.
type Scope<'a> = Option<&'a Str>;

/// In which maps a term stands.
fn scopes(term: &PodTerm) -> Vec<Scope<'_>> {
    match term.namespace_selector {
        Some(_) => vec![None],
        None => term.namespaces.iter().map(Some).collect(),
    }
}

/// Where a selector stands: its places in each of some maps.
fn places(all_of: &[PodTerm], spot: Spot) -> (impl Iterator<Item = Place<'_>> + Clone, Vec<Scope<'_>>) {
    let term = all_of.get(spot.term);
    let anchor = term.and_then(|term| anchors(&term.labels).nth(spot.anchor?));
    let rest = anchor.is_none().then_some(Place::Rest);
    (anchor.into_iter().flat_map(Anchor::places).chain(rest), term.map_or(Vec::new(), scopes))
}
