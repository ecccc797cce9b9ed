//! Units of eviction: a pod, or all pods of a group that is disrupted as a whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_framework::{
    group::{GroupId, PodGroup},
    prelude::*,
    table::NodeTable,
};

use super::EvictionTerms;

/// Pods that are evicted together.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// The pods, with the rows of their nodes.
    pub(super) pods: Vec<(NodeIdx, Arc<PodInfo>)>,
    pub(super) priority: i32,
    /// True if the pods belong to a group.
    pub(super) is_grouped: bool,
    /// Number of pods whose eviction violates a disruption budget.
    pub(super) violations: usize,
    /// Position among the units that were collected together.
    pub(super) at: usize,
    /// Position among them in the order of importance, once they have been sorted.
    pub(super) rank: usize,
}

/// Groups that are disrupted as a whole, as far as they have been met.
pub(super) type Wholes = BTreeMap<GroupId, Unit>;

/// Nodes with their pods, and the groups of these pods.
pub(super) trait Population {
    fn nodes(&self) -> &NodeTable;

    fn group(&self, id: &GroupId) -> Option<&PodGroup>;

    /// Returns the members of a group that are on nodes, in node order.
    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)>;

    /// Returns the pod's group if its object exists.
    fn group_of(&self, pod: &PodInfo) -> Option<&PodGroup> {
        pod.group().and_then(|id| self.group(id))
    }

    /// Returns the priority that counts if the pod is a victim: its group's, if the group has one.
    fn priority_of(&self, pod: &PodInfo) -> i32 {
        self.group_of(pod).and_then(|group| group.priority).unwrap_or_else(|| pod.priority())
    }
}

impl Population for dyn WhatIf + '_ {
    fn nodes(&self) -> &NodeTable {
        WhatIf::nodes(self)
    }

    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        WhatIf::group(self, id)
    }

    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        WhatIf::members_on_nodes(self, id)
    }
}

impl Population for dyn GroupWhatIf + '_ {
    fn nodes(&self) -> &NodeTable {
        GroupWhatIf::nodes(self)
    }

    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        GroupWhatIf::group(self, id)
    }

    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        GroupWhatIf::members_on_nodes(self, id)
    }
}

impl Unit {
    /// A pod that is evicted alone.
    fn of_pod<P: Population + ?Sized>(row: NodeIdx, pod: &Arc<PodInfo>, there: &P) -> Self {
        // A group without a priority of its own does not raise its members above other pods.
        let has_rank = there.group_of(pod).is_none_or(|group| group.priority.is_some());
        Self {
            pods: vec![(row, pod.clone())],
            priority: there.priority_of(pod),
            is_grouped: pod.group().is_some() && has_rank,
            violations: 0,
            at: 0,
            rank: 0,
        }
    }

    /// The pods of a group that is disrupted as a whole.
    fn of_group<P: Population + ?Sized>(id: &GroupId, there: &P) -> Self {
        let pods = there.members_on_nodes(id);
        match pods.first() {
            Some((row, pod)) => Self { pods: pods.clone(), ..Self::of_pod(*row, pod, there) },
            None => Self { pods, priority: 0, is_grouped: true, violations: 0, at: 0, rank: 0 },
        }
    }
}

/// Returns the units with a pod on one of the rows that may be evicted, in the order of their first such pods. Adds the
/// groups that it meets to `wholes`.
pub(super) fn units_on<P: Population + ?Sized>(
    rows: impl Iterator<Item = NodeIdx>,
    terms: &impl EvictionTerms,
    there: &P,
    wholes: &mut Wholes,
) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut seen: BTreeSet<GroupId> = BTreeSet::new();
    for row in rows {
        let pods = there.nodes().node(row).pods().iter();
        for pod in pods.filter(|pod| there.priority_of(pod) < terms.ceiling() && !terms.spares(pod)) {
            let at = units.len();
            let is_whole = |group: &&PodGroup| {
                group.disruption == Disruption::All || (terms.takes_whole_gangs() && group.is_gang())
            };
            match there.group_of(pod).filter(is_whole).map(|group| &group.id) {
                None => units.push(Unit { at, ..Unit::of_pod(row, pod, there) }),
                Some(id) if seen.insert(id.clone()) => {
                    let unit = wholes.entry(id.clone()).or_insert_with_key(|id| Unit::of_group(id, there));
                    // The terms may ask for the members of gangs that have priorities of their own.
                    let may_go =
                        |pod: &PodInfo| there.priority_of(pod) < terms.ceiling() && !terms.spares(pod);
                    if !terms.takes_whole_gangs() || unit.pods.iter().all(|(_, pod)| may_go(pod)) {
                        units.push(Unit { at, ..unit.clone() });
                    }
                }
                Some(_) => {}
            }
        }
    }
    units
}

#[cfg(test)]
pub(super) mod tests {
    use harbormaster_testkit::{PodBuilder, cluster, node};

    use super::{super::ByPriority, *};

    struct Alone<'a>(&'a NodeTable);

    impl Population for Alone<'_> {
        fn nodes(&self) -> &NodeTable {
            self.0
        }

        fn group(&self, _: &GroupId) -> Option<&PodGroup> {
            None
        }

        fn members_on_nodes(&self, _: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
            Vec::new()
        }
    }

    /// Returns a unit for each pod. All pods are on the same node.
    pub(in super::super) fn singles(pods: impl IntoIterator<Item = PodBuilder>) -> Vec<Unit> {
        let cluster = cluster([node("n")], pods.into_iter().map(|pod| pod.on("n")));
        units_on(
            cluster.nodes().live().iter(),
            &ByPriority(i32::MAX),
            &Alone(cluster.nodes()),
            &mut Wholes::new(),
        )
    }

    /// Names of the units' pods.
    pub(in super::super) fn names(units: &[Unit]) -> Vec<String> {
        units.iter().flat_map(|unit| &unit.pods).map(|(_, pod)| pod.name.to_string()).collect()
    }
}
