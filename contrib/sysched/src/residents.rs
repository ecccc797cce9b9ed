//! The profiles that the pods on each node name.

use std::collections::BTreeMap;

use harbormaster::prelude::*;

use crate::profile::{Name, named_by};

/// Profiles that a pod names, sorted.
pub type Named = Vec<Name>;

/// Number of pods by row and by the profiles that they name, and the same for all rows together.
#[derive(Debug, Default, PartialEq)]
pub struct Residents {
    by_row: BTreeMap<NodeIdx, BTreeMap<Named, usize>>,
    all: BTreeMap<Named, usize>,
}

impl Residents {
    /// Profiles of the pods on a row, each with the number of pods.
    pub(crate) fn on(&self, row: NodeIdx) -> impl Iterator<Item = (&Named, usize)> {
        self.by_row.get(&row).into_iter().flatten().map(|(named, count)| (named, *count))
    }

    /// Profiles of all pods.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Named> {
        self.all.keys()
    }
}

fn named(pod: &PodInfo) -> Named {
    named_by(pod).into_iter().collect()
}

fn remove(counts: &mut BTreeMap<Named, usize>, named: &Named) {
    if let Some(count) = counts.get_mut(named) {
        *count -= 1;
        if *count == 0 {
            counts.remove(named);
        }
    }
}

impl Index for Residents {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let named = named(pod);
        *self.all.entry(named.clone()).or_default() += 1;
        *self.by_row.entry(row).or_default().entry(named).or_default() += 1;
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let named = named(pod);
        remove(&mut self.all, &named);
        if let Some(counts) = self.by_row.get_mut(&row) {
            remove(counts, &named);
            if counts.is_empty() {
                self.by_row.remove(&row);
            }
        }
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        if old.annotations != new.annotations || old.spec.seccomp_profiles != new.spec.seccomp_profiles {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }
}
