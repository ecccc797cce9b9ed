//! Where the pods of each application run.

use std::collections::BTreeMap;

use harbormaster::{api::Str, prelude::*};

use crate::{
    costs::Place,
    objects::{group_of, workload_of},
};

/// Stands for the place of a row that has had no node and no pods.
const UNSEEN: usize = usize::MAX;

/// Pods with nodes, by AppGroup and by selector of the workload, and the places of all nodes. Pods of all namespaces
/// count.
#[derive(Debug, Default)]
pub struct Members {
    workloads: BTreeMap<Str, BTreeMap<Str, Workload>>,
    /// All places that nodes have or had.
    places: Vec<Place>,
    /// Position of the place of each row.
    by_row: Vec<usize>,
}

/// The pods of one workload.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    pods: usize,
    /// Number of pods by row. Rows past the end have none.
    pub(crate) by_row: Vec<u32>,
    /// Number of pods by position of the place.
    pub(crate) by_place: BTreeMap<usize, usize>,
}

/// Places may have other positions.
impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        let keys = |all: &Self| -> Vec<(Str, Str)> {
            let of_group = |(group, workloads): (&Str, &BTreeMap<Str, Workload>)| -> Vec<(Str, Str)> {
                workloads.keys().map(|selector| (group.clone(), selector.clone())).collect()
            };
            all.workloads.iter().flat_map(of_group).collect()
        };
        let counts = |all: &Self, (group, selector): &(Str, Str)| -> Vec<(usize, u32, Option<Place>)> {
            let pods = all.of(group, selector).map(|workload| workload.by_row.as_slice()).unwrap_or_default();
            let there = pods.iter().enumerate().filter(|(_, pods)| **pods > 0);
            there.map(|(row, pods)| (row, *pods, all.place_of(NodeIdx::from(row)))).collect()
        };
        let by_place = |all: &Self, (group, selector): &(Str, Str)| -> BTreeMap<Place, usize> {
            let pods = all.of(group, selector).map(|workload| workload.by_place.clone()).unwrap_or_default();
            pods.into_iter().map(|(at, pods)| (all.places[at].clone(), pods)).collect()
        };
        let all = keys(self);
        all == keys(other)
            && all.iter().all(|key| counts(self, key) == counts(other, key))
            && all.iter().all(|key| by_place(self, key) == by_place(other, key))
    }
}

impl Members {
    /// Pods of one workload, if there are any.
    pub(crate) fn of(&self, group: &str, selector: &str) -> Option<&Workload> {
        self.workloads.get(group)?.get(selector)
    }

    /// All places.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Position of the place of a row.
    pub(crate) fn position_of(&self, row: NodeIdx) -> Option<usize> {
        self.by_row.get(row.at()).copied().filter(|position| *position != UNSEEN)
    }

    fn place_of(&self, row: NodeIdx) -> Option<Place> {
        Some(self.places[self.position_of(row)?].clone())
    }

    /// Sets the place of a row. Returns its earlier position and the new one.
    fn set_place(&mut self, row: NodeIdx, place: &Place) -> (usize, usize) {
        let position = self.places.iter().position(|known| known == place).unwrap_or_else(|| {
            self.places.push(place.clone());
            self.places.len() - 1
        });
        if self.by_row.len() <= row.at() {
            self.by_row.resize(row.at() + 1, UNSEEN);
        }
        (std::mem::replace(&mut self.by_row[row.at()], position), position)
    }

    /// Position of the place of a row whose pods change.
    fn placed(&mut self, view: ClusterView<'_>, row: NodeIdx) -> usize {
        match self.position_of(row) {
            Some(position) => position,
            None => self.set_place(row, &Place::of(view.nodes.node(row))).1,
        }
    }
}

impl Workload {
    fn join(&mut self, row: NodeIdx, place: usize) {
        if self.by_row.len() <= row.at() {
            self.by_row.resize(row.at() + 1, 0);
        }
        self.by_row[row.at()] += 1;
        *self.by_place.entry(place).or_default() += 1;
        self.pods += 1;
    }

    fn leave(&mut self, row: NodeIdx, place: usize) {
        if let Some(pods) = self.by_row.get_mut(row.at()) {
            *pods = pods.saturating_sub(1);
        }
        self.take(place, 1);
        self.pods = self.pods.saturating_sub(1);
    }

    fn take(&mut self, place: usize, pods: usize) {
        if let Some(known) = self.by_place.get_mut(&place) {
            *known = known.saturating_sub(pods);
            if *known == 0 {
                self.by_place.remove(&place);
            }
        }
    }

    /// The row has moved to another place.
    fn moved(&mut self, row: NodeIdx, (from, to): (usize, usize)) {
        let pods = self.by_row.get(row.at()).copied().unwrap_or(0) as usize;
        if pods > 0 {
            self.take(from, pods);
            *self.by_place.entry(to).or_default() += pods;
        }
    }
}

impl Index for Members {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let Some(group) = group_of(&pod.labels) else { return };
        let place = self.placed(view, row);
        let workloads = self.workloads.entry(group.clone()).or_default();
        workloads.entry(workload_of(&pod.labels).into()).or_default().join(row, place);
    }

    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let Some(group) = group_of(&pod.labels) else { return };
        let place = self.placed(view, row);
        let Some(workloads) = self.workloads.get_mut(group) else { return };
        let selector = workload_of(&pod.labels);
        if let Some(workload) = workloads.get_mut(selector) {
            workload.leave(row, place);
            if workload.pods == 0 {
                workloads.remove(selector);
            }
        }
        if workloads.is_empty() {
            self.workloads.remove(group);
        }
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        if old.labels != new.labels {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }

    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        let place = Place::of(view.nodes.node(row));
        let change = self.set_place(row, &place);
        if change.0 != change.1 {
            let workloads = self.workloads.values_mut().flat_map(BTreeMap::values_mut);
            workloads.for_each(|workload| workload.moved(row, change));
        }
    }
}
