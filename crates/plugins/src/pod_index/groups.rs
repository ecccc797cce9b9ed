//! Pods that no selector can tell apart, found by their labels.

use harbormaster_api::{Labels, Namespace, Str};
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    PodSelector, RowCounts,
    label_map::{LabelMap, Place, anchors},
};

/// What selectors look at, beside the labels of the namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    namespace: Str,
    labels: Labels,
    terminating: bool,
}

impl GroupKey {
    fn of(pod: &PodInfo) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone(),
            terminating: pod.is_terminating(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct GroupId(u32);

#[derive(Debug)]
struct Group {
    key: GroupKey,
    rows: RowCounts,
}

/// The groups of a namespace.
#[derive(Debug)]
struct Residents {
    /// The namespace as selectors saw it when they counted its pods.
    namespace: Namespace,
    /// Every group stands under each of its labels, and under nothing.
    groups: LabelMap<GroupId>,
}

/// All groups that have pods.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: FxHashMap<GroupKey, GroupId>,
    groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    namespaces: FxHashMap<Str, Residents>,
}

impl Groups {
    /// A pod is on `row`: the namespace as selectors are to see it.
    pub(super) fn joined(&mut self, objects: &Objects, row: NodeIdx, pod: &PodInfo) -> &Namespace {
        let key = GroupKey::of(pod);
        let residents = self.namespaces.entry(key.namespace.clone()).or_insert_with(|| Residents {
            namespace: now(objects, &key.namespace),
            groups: LabelMap::default(),
        });
        let known = self.by_key.get(&key).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.free.pop().unwrap_or_else(|| {
                self.groups.push(None);
                GroupId(self.groups.len() as u32 - 1)
            });
            places(&key.labels).for_each(|place| residents.groups.insert(place, id));
            self.by_key.insert(key.clone(), id);
            id
        });
        let group =
            self.groups[id.0 as usize].get_or_insert_with(|| Group { key, rows: RowCounts::default() });
        group.rows.add(row, 1);
        &residents.namespace
    }

    /// A pod is on `row` no more: the namespace as selectors saw it.
    pub(super) fn left(&mut self, row: NodeIdx, pod: &PodInfo) -> Option<Namespace> {
        let residents = self.namespaces.get_mut(&pod.namespace)?;
        let namespace = residents.namespace.clone();
        let key = GroupKey::of(pod);
        let id = *self.by_key.get(&key)?;
        let group = self.groups[id.0 as usize].as_mut()?;
        group.rows.subtract(row, 1);
        if group.rows.is_empty() {
            self.groups[id.0 as usize] = None;
            self.free.push(id);
            self.by_key.remove(&key);
            places(&key.labels).for_each(|place| residents.groups.remove(place, id));
            if residents.groups.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
        Some(namespace)
    }

    /// On which rows how many pods match.
    pub(super) fn count(&self, selector: &PodSelector) -> RowCounts {
        let mut rows = RowCounts::default();
        let named = selector.all_of.iter().find(|term| term.namespace_selector.is_none());
        let mut look = |residents: &Residents| {
            if selector.has_namespace(&residents.namespace) {
                self.matching(residents, selector).for_each(|group| rows.add_all(&group.rows));
            }
        };
        match named {
            Some(term) => term.namespaces.iter().filter_map(|name| self.namespaces.get(name)).for_each(look),
            None => self.namespaces.values().for_each(&mut look),
        }
        rows
    }

    /// On which rows how many pods of one namespace match, whether or not the selector is for that namespace.
    pub(super) fn count_in(&self, namespace: &str, selector: &PodSelector) -> RowCounts {
        let mut rows = RowCounts::default();
        if let Some(residents) = self.namespaces.get(namespace) {
            self.matching(residents, selector).for_each(|group| rows.add_all(&group.rows));
        }
        rows
    }

    /// A namespace may have other labels than before: the namespace as it was and as it is, if it has pods and they do.
    pub(super) fn namespace_changed(
        &mut self,
        objects: &Objects,
        name: &Str,
    ) -> Option<(Namespace, Namespace)> {
        let residents = self.namespaces.get_mut(name)?;
        let now = now(objects, name);
        if residents.namespace.labels == now.labels {
            return None;
        }
        Some((std::mem::replace(&mut residents.namespace, now.clone()), now))
    }

    /// Looks at the groups under the label with the fewest of them.
    fn matching<'a>(
        &'a self,
        residents: &Residents,
        selector: &'a PodSelector,
    ) -> impl Iterator<Item = &'a Group> {
        let all = selector.all_of.iter().flat_map(|term| anchors(&term.labels));
        let best = all.min_by_key(|anchor| residents.groups.count(*anchor));
        let found = residents.groups.under(best).into_iter();
        let groups = found.filter_map(|id| self.groups[id.0 as usize].as_ref());
        groups.filter(|group| selector.matches_labels(&group.key.labels, group.key.terminating))
    }

    /// Whether exactly these pods are in groups, and exactly these groups are found by labels.
    pub(super) fn check<'a>(
        &self,
        objects: &Objects,
        pods: impl Iterator<Item = (NodeIdx, &'a PodInfo)>,
    ) -> Result<(), String> {
        let mut anew = Groups::default();
        for (row, pod) in pods {
            anew.joined(objects, row, pod);
        }
        if self.by_key.len() != anew.by_key.len() {
            return Err(format!("{} groups are kept, there are {}", self.by_key.len(), anew.by_key.len()));
        }
        for (key, id) in &self.by_key {
            let (kept, counted) = (self.rows(key), anew.rows(key));
            if kept != counted {
                return Err(format!("{key:?}: kept {kept:?}, counted {counted:?}"));
            }
            let groups = self.namespaces.get(&key.namespace).map(|residents| &residents.groups);
            let stands = |place| groups.is_some_and(|groups| groups.contains(place, *id));
            if !places(&key.labels).all(stands) {
                return Err(format!("{key:?} is not in its places"));
            }
        }
        let all = |of: &Groups| {
            let each = of.namespaces.values();
            each.map(|residents| (residents.namespace.clone(), residents.groups.places())).collect::<Vec<_>>()
        };
        let (kept, expected) = (all(self), all(&anew));
        let same = kept.len() == expected.len() && kept.iter().all(|of_one| expected.contains(of_one));
        if same { Ok(()) } else { Err(format!("namespaces: kept {kept:?}, expected {expected:?}")) }
    }

    /// How many groups there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.iter().flatten().count()
    }

    fn rows(&self, key: &GroupKey) -> Option<&RowCounts> {
        self.groups[self.by_key.get(key)?.0 as usize].as_ref().map(|group| &group.rows)
    }
}

/// Where a group with these labels stands.
fn places(labels: &Labels) -> impl Iterator<Item = Place<'_>> {
    labels.iter().map(|(key, value)| Place::Value(key, value)).chain([Place::Rest])
}

/// A namespace as it is; one without an object has no labels.
fn now(objects: &Objects, name: &Str) -> Namespace {
    Namespace { name: name.clone(), labels: objects.namespace_labels(name).cloned().unwrap_or_default() }
}
