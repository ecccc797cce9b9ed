//! The selectors in use, with the number of pods that they select on each row.

use std::sync::Arc;

use harbormaster_api::Namespace;
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    PodSelector, RowCounts,
    groups::Groups,
    selector_map::{MapPosition, SelectorMap},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SelectorId(u64);

/// A watched selector with its counts.
#[derive(Debug)]
struct WatchedSelector {
    selector: Arc<PodSelector>,
    position: MapPosition,
    rows: RowCounts,
    /// Value of [`Selectors::clock`] at the last use. The clock counts uses.
    last_used: u64,
}

/// All watched selectors.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    by_selector: FxHashMap<Arc<PodSelector>, SelectorId>,
    watched: FxHashMap<SelectorId, WatchedSelector>,
    by_labels: SelectorMap<SelectorId>,
    clock: u64,
}

/// Maximum number of watched selectors. If there are more, the least recently used half is dropped.
const SELECTORS: usize = 2048;

impl Selectors {
    pub(super) fn pods(&self, selector: &PodSelector) -> Option<&RowCounts> {
        let id = self.by_selector.get(selector)?;
        self.watched.get(id).map(|watched| &watched.rows)
    }

    /// Checks that a lookup by label finds all watched selectors and nothing else.
    pub(super) fn check(&self) -> Result<(), String> {
        let known = self.by_selector.iter().filter_map(|(selector, id)| {
            Some((selector.all_of.as_slice(), self.watched.get(id)?.position, *id))
        });
        if known.clone().count() != self.watched.len() {
            return Err(format!(
                "{} selectors are watched, but the map by selector contains {} of them",
                self.watched.len(),
                known.count()
            ));
        }
        self.by_labels.check(known)
    }

    /// Returns all watched selectors with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PodSelector, &RowCounts)> {
        self.watched.values().map(|watched| (&*watched.selector, &watched.rows))
    }

    pub(super) fn watch(&mut self, groups: &Groups, selector: &PodSelector) {
        self.clock += 1;
        let known = self.by_selector.get(selector).and_then(|id| self.watched.get_mut(id));
        if let Some(watched) = known {
            watched.last_used = self.clock;
            return;
        }
        self.make_room();
        let (id, selector) = (SelectorId(self.clock), Arc::new(selector.clone()));
        let position = self.by_labels.insert(&selector.all_of, id);
        let rows = groups.count(&selector);
        self.by_selector.insert(selector.clone(), id);
        self.watched.insert(id, WatchedSelector { selector, position, rows, last_used: self.clock });
    }

    pub(super) fn joined(&mut self, namespace: &Namespace, row: NodeIdx, pod: &PodInfo) {
        self.of_pod(namespace, pod, |rows| rows.add(row, 1));
    }

    pub(super) fn left(&mut self, namespace: &Namespace, row: NodeIdx, pod: &PodInfo) {
        self.of_pod(namespace, pod, |rows| rows.subtract(row, 1));
    }

    /// Updates the counts after a namespace's labels changed.
    pub(super) fn namespace_changed(&mut self, groups: &Groups, was: &Namespace, is: &Namespace) {
        for watched in self.watched.values_mut() {
            let selector = &watched.selector;
            match (selector.has_namespace(was), selector.has_namespace(is)) {
                (false, true) => watched.rows.add_all(&groups.count_in(&is.name, selector)),
                (true, false) => watched.rows.subtract_all(&groups.count_in(&is.name, selector)),
                _ => {}
            }
        }
    }

    fn of_pod(&mut self, namespace: &Namespace, pod: &PodInfo, change: impl Fn(&mut RowCounts)) {
        for id in self.by_labels.candidates_for(&namespace.name, &pod.labels) {
            if let Some(watched) = self.watched.get_mut(&id)
                && watched.selector.matches(namespace, &pod.labels, pod.is_terminating())
            {
                change(&mut watched.rows);
            }
        }
    }

    fn make_room(&mut self) {
        if self.watched.len() < SELECTORS {
            return;
        }
        let mut last_used: Vec<u64> = self.watched.values().map(|w| w.last_used).collect();
        last_used.sort_unstable();
        let oldest_kept = last_used[last_used.len() / 2];
        for (id, gone) in self.watched.extract_if(|_, watched| watched.last_used < oldest_kept) {
            self.by_selector.remove(&gone.selector);
            self.by_labels.remove(&gone.selector.all_of, gone.position, id);
        }
    }
}
