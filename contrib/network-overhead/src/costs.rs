//! Costs between the place of a pod and the places of the pods that it depends on.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster::{
    api::{Str, node},
    prelude::*,
};

use crate::members::Workload;

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

    /// Like [`Self::between`], or `None` if it is not known where the other node is.
    fn between_known(&self, from: &Place, to: &Place) -> Option<Option<i64>> {
        (!to.is_unknown()).then(|| self.between(from, to))
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

/// Pods that a pod depends on, as seen from each place.
#[derive(Debug, Default)]
pub(crate) struct Partners {
    /// By position of the place, as if none of the pods were on the same node.
    by_place: Vec<FromPlace>,
    /// Number of these pods by row. Rows past the end have none.
    beside: Vec<u32>,
}

/// Dependencies of a pod on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead {
    pub(crate) satisfied: usize,
    pub(crate) violated: usize,
    pub(crate) cost: i64,
}

/// Dependencies of a pod at one place.
#[derive(Clone, Copy, Debug, Default)]
struct FromPlace {
    overhead: Overhead,
    /// True if the place is not known.
    is_unknown: bool,
}

impl Partners {
    /// Partners as seen from these places.
    pub(crate) fn new(places: &[Place]) -> Self {
        let from = |place: &Place| FromPlace { is_unknown: place.is_unknown(), ..FromPlace::default() };
        Self { by_place: places.iter().map(from).collect(), beside: Vec::new() }
    }

    /// Adds the pods of a workload.
    pub(crate) fn add(&mut self, workload: &Workload, max_cost: i64, places: &[Place], tables: &Tables) {
        for (here, from) in places.iter().zip(&mut self.by_place) {
            for (there, pods) in &workload.by_place {
                from.overhead.add(
                    tables.between_known(here, &places[*there]),
                    &places[*there] == here,
                    max_cost,
                    *pods,
                );
            }
        }
        if self.beside.len() < workload.by_row.len() {
            self.beside.resize(workload.by_row.len(), 0);
        }
        self.beside.iter_mut().zip(&workload.by_row).for_each(|(sum, pods)| *sum += pods);
    }

    /// Returns what it would mean for the pod to run on a node at the place with this position.
    pub(crate) fn overhead(&self, row: NodeIdx, place: Option<usize>) -> Overhead {
        let Some(from) = place.and_then(|place| self.by_place.get(place)) else { return Overhead::default() };
        let mut overhead = from.overhead;
        let beside = self.beside.get(row.at()).copied().unwrap_or(0) as usize;
        // Pods on the same node cost nothing, and satisfy the dependency even if the place is not known.
        if beside > 0 && from.is_unknown {
            overhead.violated = overhead.violated.saturating_sub(beside);
            overhead.satisfied += beside;
        }
        let each = if from.is_unknown { LARGEST } else { SAME_ZONE };
        let saved = i64::try_from(beside).unwrap_or(i64::MAX).saturating_mul(each);
        overhead.cost = overhead.cost.saturating_sub(saved);
        overhead
    }
}

impl Overhead {
    /// Adds pods at another place or at the same one. `None`: the place is not known. `Some(None)`: the cost is not known.
    fn add(&mut self, known: Option<Option<i64>>, is_here: bool, max_cost: i64, pods: usize) {
        match known {
            // Within a zone, any dependency is satisfied.
            Some(Some(cost)) if cost <= max_cost || is_here => self.satisfied += pods,
            // A node without a place violates the dependency.
            Some(Some(_)) | None => self.violated += pods,
            // An unknown cost does not.
            Some(None) => {}
        }
        let pods = i64::try_from(pods).unwrap_or(i64::MAX);
        let cost = known.flatten().unwrap_or(LARGEST);
        self.cost = self.cost.saturating_add(cost.saturating_mul(pods));
    }
}

/// The partners of a pod; `None` if all nodes are equally good.
pub(crate) type Shared = Option<Arc<Partners>>;
