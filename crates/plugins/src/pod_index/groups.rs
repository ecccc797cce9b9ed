//! Pods that no selector can tell apart, and the selectors that somebody asks about.

use harbormaster_api::{Labels, Str};
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    PodSelector, PodTerm, RowCounts,
    held_terms::{HeldTerms, TermId},
};

/// What selectors look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kin {
    namespace: Str,
    labels: Labels,
    terminating: bool,
}

impl Kin {
    fn of(pod: &PodInfo) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone(),
            terminating: pod.is_terminating(),
        }
    }
}

/// Pods of one kin.
#[derive(Debug, Default)]
struct Group {
    rows: RowCounts,
    /// The watched selectors that match.
    selected_by: Vec<SelectorId>,
    /// The held terms that match, once somebody has asked.
    terms: Option<Vec<TermId>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SelectorId(u32);

/// A selector that is counted.
#[derive(Debug)]
struct Watched {
    selector: PodSelector,
    rows: RowCounts,
    /// When somebody last asked for it.
    asked: u64,
}

/// All groups and selectors.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: FxHashMap<Kin, Group>,
    by_selector: FxHashMap<PodSelector, SelectorId>,
    watched: FxHashMap<SelectorId, Watched>,
    clock: u64,
    next: u32,
    /// How many groups may be kept before those without pods are thrown away.
    sweep_at: usize,
}

/// How many selectors are counted at most; half of them, those least recently asked for, go when there are more.
const SELECTORS: usize = 2048;
/// The least number of groups at which those without pods are thrown away.
const GROUPS: usize = 1024;

impl Groups {
    pub(super) fn pods(&self, selector: &PodSelector) -> Option<&RowCounts> {
        let id = self.by_selector.get(selector)?;
        self.watched.get(id).map(|watched| &watched.rows)
    }

    /// Every selector that is counted.
    pub(super) fn watched(&self) -> impl Iterator<Item = (&PodSelector, &RowCounts)> {
        self.watched.values().map(|watched| (&watched.selector, &watched.rows))
    }

    pub(super) fn terms_about(&self, pod: &PodInfo) -> &[TermId] {
        self.groups.get(&Kin::of(pod)).and_then(|group| group.terms.as_deref()).unwrap_or_default()
    }

    pub(super) fn watch(&mut self, objects: &Objects, selector: &PodSelector) {
        self.clock += 1;
        let known = self.by_selector.get(selector).and_then(|id| self.watched.get_mut(id));
        if let Some(watched) = known {
            watched.asked = self.clock;
            return;
        }
        self.make_room();
        let id = SelectorId(self.next);
        self.next = self.next.wrapping_add(1);
        let mut rows = RowCounts::default();
        for (kin, group) in &mut self.groups {
            if selector.matches(objects, &kin.namespace, &kin.labels, kin.terminating) {
                rows.add_all(&group.rows);
                group.selected_by.push(id);
            }
        }
        self.by_selector.insert(selector.clone(), id);
        self.watched.insert(id, Watched { selector: selector.clone(), rows, asked: self.clock });
    }

    pub(super) fn watch_terms_about(&mut self, objects: &Objects, held: &HeldTerms, pod: &PodInfo) {
        let group = self.group_of(objects, pod);
        if group.terms.is_none() {
            group.terms = Some(matching(objects, held, &Kin::of(pod)));
        }
    }

    pub(super) fn joined(&mut self, objects: &Objects, row: NodeIdx, pod: &PodInfo) {
        let group = self.group_of(objects, pod);
        group.rows.add(row, 1);
        for id in &group.selected_by.clone() {
            if let Some(watched) = self.watched.get_mut(id) {
                watched.rows.add(row, 1);
            }
        }
    }

    pub(super) fn left(&mut self, row: NodeIdx, pod: &PodInfo) {
        let Some(group) = self.groups.get_mut(&Kin::of(pod)) else { return };
        group.rows.subtract(row, 1);
        for id in &group.selected_by {
            if let Some(watched) = self.watched.get_mut(id) {
                watched.rows.subtract(row, 1);
            }
        }
    }

    /// A term is held that was not before.
    pub(super) fn term_appeared(&mut self, objects: &Objects, id: TermId, term: &PodTerm) {
        for (kin, group) in &mut self.groups {
            if let Some(terms) = &mut group.terms
                && term.matches(objects, &kin.namespace, &kin.labels)
            {
                terms.push(id);
            }
        }
    }

    /// Terms are gone; their numbers may be used again.
    pub(super) fn terms_vanished(&mut self, gone: &[TermId]) {
        for terms in self.groups.values_mut().filter_map(|group| group.terms.as_mut()) {
            terms.retain(|id| gone.binary_search(id).is_err());
        }
    }

    /// A namespace has other labels than before: who selects its pods is found anew.
    pub(super) fn namespace_changed(&mut self, objects: &Objects, held: &HeldTerms, namespace: &Str) {
        for (kin, group) in self.groups.iter_mut().filter(|(kin, _)| kin.namespace == *namespace) {
            let mut now = Vec::new();
            for (id, watched) in &mut self.watched {
                let matches = watched.selector.matches(objects, &kin.namespace, &kin.labels, kin.terminating);
                let did = group.selected_by.contains(id);
                if matches && !did {
                    watched.rows.add_all(&group.rows);
                } else if did && !matches {
                    watched.rows.subtract_all(&group.rows);
                }
                now.extend(matches.then_some(*id));
            }
            group.selected_by = now;
            if group.terms.is_some() {
                group.terms = Some(matching(objects, held, kin));
            }
        }
    }

    fn group_of(&mut self, objects: &Objects, pod: &PodInfo) -> &mut Group {
        let kin = Kin::of(pod);
        if !self.groups.contains_key(&kin) {
            self.sweep();
            let matches = |watched: &Watched| {
                watched.selector.matches(objects, &kin.namespace, &kin.labels, kin.terminating)
            };
            let selected_by = self.watched.iter().filter(|(_, w)| matches(w)).map(|(id, _)| *id).collect();
            self.groups.insert(kin.clone(), Group { selected_by, ..Group::default() });
        }
        self.groups.entry(kin).or_default()
    }

    /// Throws groups without pods away when there are many.
    fn sweep(&mut self) {
        if self.groups.len() >= self.sweep_at.max(GROUPS) {
            self.groups.retain(|_, group| !group.rows.is_empty());
            self.sweep_at = self.groups.len() * 2;
        }
    }

    fn make_room(&mut self) {
        if self.watched.len() < SELECTORS {
            return;
        }
        let mut asked: Vec<u64> = self.watched.values().map(|w| w.asked).collect();
        asked.sort_unstable();
        let oldest_kept = asked[asked.len() / 2];
        self.watched.retain(|_, watched| watched.asked >= oldest_kept);
        self.by_selector.retain(|_, id| self.watched.contains_key(id));
        for group in self.groups.values_mut() {
            group.selected_by.retain(|id| self.watched.contains_key(id));
        }
    }
}

fn matching(objects: &Objects, held: &HeldTerms, kin: &Kin) -> Vec<TermId> {
    let matches =
        held.iter().filter(|(_, held)| held.term.pods.matches(objects, &kin.namespace, &kin.labels));
    matches.map(|(id, _)| id).collect()
}
