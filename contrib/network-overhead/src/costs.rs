//! Costs between the place of a pod and the places of the pods that it depends on.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster::{
    api::{Str, node},
    prelude::*,
};

use crate::objects::{Level, NetworkTopology};

/// Cost of a place that is not known, or whose cost is not known.
const LARGEST: i64 = 100;
/// Cost within a zone.
const SAME_ZONE: i64 = 1;

/// Region and zone of a node; empty if the node has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    region: Str,
    zone: Str,
}

impl Place {
    pub(crate) fn of(node: NodeRef<'_>) -> Self {
        let label = |key: &str| node.labels().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
        Self { region: label(node::LABEL_REGION), zone: label(node::LABEL_ZONE) }
    }

    fn is_unknown(&self) -> bool {
        self.region.is_empty() && self.zone.is_empty()
    }
}

/// Costs by origin and destination.
type Table = BTreeMap<Str, BTreeMap<Str, i64>>;

/// Costs between regions and between zones.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    regions: Table,
    zones: Table,
}

impl Tables {
    /// Reads the weights of the given name.
    pub(crate) fn of(topology: &NetworkTopology, weights: &str) -> Self {
        let mut tables = Self::default();
        for weights in topology.spec.weights.iter().filter(|known| known.name == *weights) {
            for Level { topology_key, origin_list } in &weights.topology_list {
                let table = match topology_key.as_str() {
                    node::LABEL_REGION => &mut tables.regions,
                    node::LABEL_ZONE => &mut tables.zones,
                    _ => continue,
                };
                for origin in origin_list {
                    let costs = table.entry(origin.origin.clone()).or_default();
                    costs.extend(
                        origin.cost_list.iter().map(|cost| (cost.destination.clone(), cost.network_cost)),
                    );
                }
            }
        }
        tables
    }

    /// Returns the cost between two nodes at these places, or `None` if it is not known.
    fn between(&self, from: &Place, to: &Place) -> Option<i64> {
        if from.region != to.region {
            return self.regions.get(&from.region)?.get(&to.region).copied();
        }
        if from.zone == to.zone {
            return Some(SAME_ZONE);
        }
        self.zones.get(&from.zone)?.get(&to.zone).copied()
    }
}

/// Pods that a pod depends on.
#[derive(Debug, Default)]
pub(crate) struct Partners {
    pub(crate) tables: Tables,
    /// Number of pods by the largest acceptable cost and the place.
    pub(crate) elsewhere: BTreeMap<(i64, Place), usize>,
    /// The same pods by row, to tell those that are on the same node.
    pub(crate) by_row: BTreeMap<NodeIdx, BTreeMap<i64, usize>>,
}

/// Dependencies of a pod on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead {
    pub(crate) satisfied: usize,
    pub(crate) violated: usize,
    pub(crate) cost: i64,
}

impl Partners {
    /// Adds pods on a node.
    pub(crate) fn add(&mut self, node: NodeRef<'_>, max_cost: i64, pods: usize) {
        *self.elsewhere.entry((max_cost, Place::of(node))).or_default() += pods;
        *self.by_row.entry(node.idx()).or_default().entry(max_cost).or_default() += pods;
    }

    /// Returns what it would mean for the pod to run on the node.
    pub(crate) fn overhead(&self, node: NodeRef<'_>) -> Overhead {
        let (here, same_node) = (Place::of(node), self.by_row.get(&node.idx()));
        let mut overhead = Overhead::default();
        for ((max_cost, place), pods) in &self.elsewhere {
            let beside = same_node.filter(|_| *place == here).and_then(|by_cost| by_cost.get(max_cost));
            let beside = beside.copied().unwrap_or(0);
            // Pods on the same node cost nothing.
            overhead.satisfied += beside;
            let others = pods.saturating_sub(beside);
            let known = if place.is_unknown() { None } else { self.tables.between(&here, place) };
            match known {
                // Within a zone, any dependency is satisfied.
                Some(cost) if cost <= *max_cost || *place == here => overhead.satisfied += others,
                Some(_) => overhead.violated += others,
                // A node without a place violates the dependency; an unknown cost does not.
                None if place.is_unknown() => overhead.violated += others,
                None => {}
            }
            let others = i64::try_from(others).unwrap_or(i64::MAX);
            overhead.cost = overhead.cost.saturating_add(known.unwrap_or(LARGEST).saturating_mul(others));
        }
        overhead
    }
}

/// The partners of a pod; `None` if all nodes are equally good.
pub(crate) type Shared = Option<Arc<Partners>>;
