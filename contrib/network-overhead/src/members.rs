//! Where the pods of each application run.

use std::collections::BTreeMap;

use harbormaster::{api::Str, prelude::*};

use crate::objects::{group_of, workload_of};

/// Number of pods by row, for one workload of one application.
type Rows = BTreeMap<NodeIdx, usize>;

/// Pods with nodes, by AppGroup and by selector of the workload. Pods of all namespaces count.
#[derive(Debug, Default, PartialEq)]
pub struct Members(BTreeMap<Str, BTreeMap<Str, Rows>>);

impl Members {
    /// Rows of the pods of one workload.
    pub(crate) fn of(&self, group: &str, selector: &str) -> impl Iterator<Item = (NodeIdx, usize)> + '_ {
        let rows = self.0.get(group).and_then(|workloads| workloads.get(selector));
        rows.into_iter().flatten().map(|(row, count)| (*row, *count))
    }
}

impl Index for Members {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let Some(group) = group_of(&pod.labels) else { return };
        let workloads = self.0.entry(group.clone()).or_default();
        let rows = workloads.entry(workload_of(&pod.labels).into()).or_default();
        *rows.entry(row).or_default() += 1;
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let Some(group) = group_of(&pod.labels) else { return };
        let Some(workloads) = self.0.get_mut(group) else { return };
        let selector = workload_of(&pod.labels);
        if let Some(rows) = workloads.get_mut(selector) {
            if let Some(count) = rows.get_mut(&row) {
                *count -= 1;
                if *count == 0 {
                    rows.remove(&row);
                }
            }
            if rows.is_empty() {
                workloads.remove(selector);
            }
        }
        if workloads.is_empty() {
            self.0.remove(group);
        }
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        if old.labels != new.labels {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }
}
