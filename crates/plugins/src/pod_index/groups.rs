//! Groups of pods that no selector can distinguish. Groups are found by their labels.

use harbormaster_api::{Labels, Namespace, Str};
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    PodSelector, RowCounts,
    label_map::{LabelMap, LabelSlot, anchors},
};

/// Properties of a pod that selectors depend on, except for the labels of its namespace.
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
struct NamespaceGroups {
    /// The namespace, with the labels that it had when its pods were counted.
    namespace: Namespace,
    /// The groups, each filed under all of its labels and in [`LabelSlot::Rest`].
    groups: LabelMap<GroupId>,
}

/// All groups that have pods.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: FxHashMap<GroupKey, GroupId>,
    groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    namespaces: FxHashMap<Str, NamespaceGroups>,
}

impl Groups {
    /// Adds a pod on `row`. Returns the pod's namespace, with the labels that the index uses for it.
    pub(super) fn joined(&mut self, objects: &Objects, row: NodeIdx, pod: &PodInfo) -> &Namespace {
        let key = GroupKey::of(pod);
        let in_namespace = self.namespaces.entry(key.namespace.clone()).or_insert_with(|| NamespaceGroups {
            namespace: current(objects, &key.namespace),
            groups: LabelMap::default(),
        });
        let known = self.by_key.get(&key).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.free.pop().unwrap_or_else(|| {
                self.groups.push(None);
                GroupId(self.groups.len() as u32 - 1)
            });
            slots(&key.labels).for_each(|slot| in_namespace.groups.insert(slot, id));
            self.by_key.insert(key.clone(), id);
            id
        });
        let group =
            self.groups[id.0 as usize].get_or_insert_with(|| Group { key, rows: RowCounts::default() });
        group.rows.add(row, 1);
        &in_namespace.namespace
    }

    /// Removes a pod from `row`. Returns the pod's namespace, with the labels that the index uses for it.
    pub(super) fn left(&mut self, row: NodeIdx, pod: &PodInfo) -> Option<Namespace> {
        let in_namespace = self.namespaces.get_mut(&pod.namespace)?;
        let namespace = in_namespace.namespace.clone();
        let key = GroupKey::of(pod);
        let id = *self.by_key.get(&key)?;
        let group = self.groups[id.0 as usize].as_mut()?;
        group.rows.subtract(row, 1);
        if group.rows.is_empty() {
            self.groups[id.0 as usize] = None;
            self.free.push(id);
            self.by_key.remove(&key);
            slots(&key.labels).for_each(|slot| in_namespace.groups.remove(slot, id));
            if in_namespace.groups.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
        Some(namespace)
    }

    /// Returns the number of matching pods by row.
    pub(super) fn count(&self, selector: &PodSelector) -> RowCounts {
        let mut rows = RowCounts::default();
        let named = selector.all_of.iter().find(|term| term.namespace_selector.is_none());
        let mut look = |in_namespace: &NamespaceGroups| {
            if selector.has_namespace(&in_namespace.namespace) {
                self.matching(in_namespace, selector).for_each(|group| rows.add_all(&group.rows));
            }
        };
        match named {
            Some(term) => term.namespaces.iter().filter_map(|name| self.namespaces.get(name)).for_each(look),
            None => self.namespaces.values().for_each(&mut look),
        }
        rows
    }

    /// Returns the number of matching pods of one namespace by row, whether or not the selector applies to that
    /// namespace.
    pub(super) fn count_in(&self, namespace: &str, selector: &PodSelector) -> RowCounts {
        let mut rows = RowCounts::default();
        if let Some(in_namespace) = self.namespaces.get(namespace) {
            self.matching(in_namespace, selector).for_each(|group| rows.add_all(&group.rows));
        }
        rows
    }

    /// Updates a namespace's labels. Returns the namespace before and after, if it has pods and its labels changed.
    pub(super) fn namespace_changed(
        &mut self,
        objects: &Objects,
        name: &Str,
    ) -> Option<(Namespace, Namespace)> {
        let in_namespace = self.namespaces.get_mut(name)?;
        let current = current(objects, name);
        if in_namespace.namespace.labels == current.labels {
            return None;
        }
        Some((std::mem::replace(&mut in_namespace.namespace, current.clone()), current))
    }

    /// Returns the matching groups. Visits only the groups under one label: of the labels that the selector requires,
    /// the one with the fewest groups.
    fn matching<'a>(
        &'a self,
        in_namespace: &NamespaceGroups,
        selector: &'a PodSelector,
    ) -> impl Iterator<Item = &'a Group> {
        let all = selector.all_of.iter().flat_map(|term| anchors(&term.labels));
        let best = all.min_by_key(|anchor| in_namespace.groups.count(*anchor));
        let found = in_namespace.groups.under_anchor(best).into_iter();
        let groups = found.filter_map(|id| self.groups[id.0 as usize].as_ref());
        groups.filter(|group| selector.matches_labels(&group.key.labels, group.key.terminating))
    }

    /// Checks that the groups contain exactly these pods and are found by their labels.
    pub(super) fn check<'a>(
        &self,
        objects: &Objects,
        pods: impl Iterator<Item = (NodeIdx, &'a PodInfo)>,
    ) -> Result<(), String> {
        let mut rebuilt = Groups::default();
        for (row, pod) in pods {
            rebuilt.joined(objects, row, pod);
        }
        if self.by_key.len() != rebuilt.by_key.len() {
            return Err(format!(
                "the index has {} groups, the cluster {}",
                self.by_key.len(),
                rebuilt.by_key.len()
            ));
        }
        for (key, id) in &self.by_key {
            let (kept, counted) = (self.rows(key), rebuilt.rows(key));
            if kept != counted {
                return Err(format!("{key:?}: recorded {kept:?}, counted {counted:?}"));
            }
            let groups = self.namespaces.get(&key.namespace).map(|in_namespace| &in_namespace.groups);
            let is_filed = |slot| groups.is_some_and(|groups| groups.contains(slot, *id));
            if !slots(&key.labels).all(is_filed) {
                return Err(format!("{key:?} is not in all of its slots"));
            }
        }
        let all = |of: &Groups| {
            let each = of.namespaces.values();
            each.map(|in_namespace| (in_namespace.namespace.clone(), in_namespace.groups.slots()))
                .collect::<Vec<_>>()
        };
        let (kept, expected) = (all(self), all(&rebuilt));
        let same = kept.len() == expected.len() && kept.iter().all(|of_one| expected.contains(of_one));
        if same { Ok(()) } else { Err(format!("namespaces: recorded {kept:?}, expected {expected:?}")) }
    }

    /// Returns the number of groups.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.iter().flatten().count()
    }

    fn rows(&self, key: &GroupKey) -> Option<&RowCounts> {
        self.groups[self.by_key.get(key)?.0 as usize].as_ref().map(|group| &group.rows)
    }
}

/// Returns the slots in which a group with these labels is filed.
fn slots(labels: &Labels) -> impl Iterator<Item = LabelSlot<'_>> {
    labels.iter().map(|(key, value)| LabelSlot::Value(key, value)).chain([LabelSlot::Rest])
}

/// Returns a namespace with its current labels. A namespace without an object has no labels.
fn current(objects: &Objects, name: &Str) -> Namespace {
    Namespace { name: name.clone(), labels: objects.namespace_labels(name).cloned().unwrap_or_default() }
}
