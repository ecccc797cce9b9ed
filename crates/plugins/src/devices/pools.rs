//! Pools of devices as one node sees them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::{Labels, Str, selector::ParsedNodeSelector};
use harbormaster_framework::resource::Custom;

use super::{
    gates::DeviceGates,
    memo::SelectorMemo,
    slice::{CounterConsumption, CounterSet, Device, ResourceSlice},
};

/// Driver and name of a pool. Ordered as the allocator visits pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PoolKey {
    pub(super) driver: Str,
    pub(super) pool: Str,
}

impl std::fmt::Display for PoolKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// A slice with its node selectors parsed.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) name: Str,
    pub(super) key: Arc<PoolKey>,
    pub(super) spec: ResourceSlice,
    selector: Option<ParsedNodeSelector>,
    /// Selectors of the devices, if each device has its own nodes.
    device_selectors: Vec<Option<ParsedNodeSelector>>,
    /// Results of CEL selectors. A changed slice becomes a new one, so results never get stale.
    pub(super) memo: SelectorMemo,
}

/// Name and labels of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeFacts<'a> {
    pub(super) name: &'a str,
    pub(super) labels: &'a Labels,
}

impl Slice {
    pub(super) fn new(slice: &Custom<ResourceSlice>) -> Self {
        let spec = slice.object.clone();
        let parsed = |device: &Arc<Device>| device.node_selector.as_ref().map(ParsedNodeSelector::new);
        Self {
            name: slice.metadata.name.clone(),
            key: Arc::new(PoolKey { driver: spec.driver.clone(), pool: spec.pool.name.clone() }),
            selector: spec.nodes.node_selector.as_ref().map(ParsedNodeSelector::new),
            device_selectors: spec.devices.iter().map(parsed).collect(),
            memo: SelectorMemo::new(spec.devices.len()),
            spec,
        }
    }

    /// Returns the only node that can reach the slice; `None` if there may be several. Counters belong to the whole
    /// pool, so a slice with counters is never local.
    pub(super) fn local_to(&self) -> Option<&Str> {
        let name = self.spec.nodes.node_name.as_ref().filter(|name| !name.is_empty());
        name.filter(|_| self.spec.shared_counters.is_empty())
    }

    /// Returns true if the slice matters for the node.
    fn is_relevant(&self, node: NodeFacts<'_>) -> Result<bool, String> {
        let nodes = &self.spec.nodes;
        let node_name = nodes.node_name.as_deref().unwrap_or_default();
        if !self.spec.shared_counters.is_empty() {
            return Ok(true);
        }
        if !node_name.is_empty() || nodes.all_nodes || self.selector.is_some() {
            let matched = matches(node, node_name, nodes.all_nodes, self.selector.as_ref());
            return matched
                .map_err(|why| format!("failed to perform node selection for slice {}: {why}", self.name));
        }
        if nodes.per_device != Some(true) {
            return Ok(false);
        }
        for (at, device) in self.spec.devices.iter().enumerate() {
            let matched = self.device_matches(at, node).map_err(|why| {
                let name = &self.name;
                format!("failed to perform node selection for device {} in slice {name}: {why}", device.name)
            });
            if matched? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the node can reach a device that has its own nodes.
    pub(super) fn device_matches(&self, at: usize, node: NodeFacts<'_>) -> Result<bool, String> {
        let device = &self.spec.devices[at];
        let name = device.node_name.as_deref().unwrap_or_default();
        matches(node, name, device.all_nodes, self.device_selectors[at].as_ref())
    }
}

fn matches(
    node: NodeFacts<'_>,
    name: &str,
    all_nodes: bool,
    selector: Option<&ParsedNodeSelector>,
) -> Result<bool, String> {
    if !name.is_empty() {
        return Ok(name == node.name);
    }
    if all_nodes {
        return Ok(true);
    }
    let Some(selector) = selector else { return Ok(false) };
    match selector.error() {
        Some(why) => Err(format!("failed to parse node selector: {why}")),
        None => Ok(selector.matches(node.labels, node.name)),
    }
}

/// All slices of a pool, of every generation, by name.
pub(super) type PoolSlices = BTreeMap<Str, Arc<Slice>>;

/// A pool as one node sees it.
#[derive(Debug)]
pub(super) struct NodePool {
    pub(super) key: Arc<PoolKey>,
    pub(super) state: PoolState,
    /// Slices with devices that the node may reach, by name. Empty unless the pool is usable.
    pub(super) slices: Vec<Arc<Slice>>,
    /// Other slices of the pool, whose devices consume the same counters.
    pub(super) elsewhere: Vec<Arc<Slice>>,
    /// Counters of the pool, by name of the set.
    pub(super) counters: BTreeMap<Str, CounterSet>,
}

/// State of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    /// Devices can be allocated.
    Usable,
    /// Some slices are missing.
    Incomplete,
    /// The slices contradict each other.
    Invalid,
}

/// Returns the pools that a node sees, in the order in which the allocator visits them: by driver and pool, pools with
/// binding conditions last. `slices` are all slices that may matter for the node, and `pools` all slices of all pools.
pub(super) fn gather<'a>(
    slices: impl Iterator<Item = &'a Arc<Slice>>,
    node: NodeFacts<'_>,
    gates: DeviceGates,
    all_of: impl Fn(&PoolKey) -> &'a PoolSlices,
) -> Result<Vec<NodePool>, String> {
    let mut visible: BTreeMap<Arc<PoolKey>, Vec<Arc<Slice>>> = BTreeMap::new();
    for slice in slices {
        let partitions = slice.spec.nodes.per_device.is_some() || !slice.spec.shared_counters.is_empty();
        if (partitions && !gates.partitionable_devices) || !slice.is_relevant(node)? {
            continue;
        }
        let generation = slice.spec.pool.generation;
        let known = visible.entry(slice.key.clone()).or_default();
        match known.first().map(|first| first.spec.pool.generation) {
            Some(newer) if newer > generation => continue,
            Some(older) if older < generation => known.clear(),
            _ => {}
        }
        known.push(slice.clone());
    }
    let pools = visible.into_iter().filter_map(|(key, slices)| {
        let all = all_of(&key);
        NodePool::of(key, slices, all, gates)
    });
    let (last, mut first): (Vec<_>, Vec<_>) = pools.partition(NodePool::has_binding_conditions);
    first.extend(last);
    Ok(first)
}

impl NodePool {
    /// Creates the pool from the slices that the node sees. Returns `None` if they are obsolete.
    fn of(
        key: Arc<PoolKey>,
        mut slices: Vec<Arc<Slice>>,
        all: &PoolSlices,
        gates: DeviceGates,
    ) -> Option<Self> {
        let first = slices.first()?.spec.pool.clone();
        let count = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
        let mut elsewhere: Vec<Arc<Slice>> = Vec::new();
        if count(slices.len()) != first.resource_slice_count {
            if all.values().any(|slice| slice.spec.pool.generation > first.generation) {
                return None;
            }
            let current = all.values().filter(|slice| slice.spec.pool.generation == first.generation);
            elsewhere = current.cloned().collect();
            if count(elsewhere.len()) != first.resource_slice_count {
                return Some(Self::empty(key, PoolState::Incomplete));
            }
            elsewhere.retain(|slice| slices.iter().all(|seen| seen.name != slice.name));
        }
        slices.sort_by(|a, b| a.name.cmp(&b.name));
        let (counting, slices): (Vec<_>, Vec<_>) = match gates.partitionable_devices {
            true => slices.into_iter().partition(|slice| !slice.spec.shared_counters.is_empty()),
            false => (Vec::new(), slices),
        };
        let invalid = |key| Some(Self::empty(key, PoolState::Invalid));
        if !are_unique(slices.iter().flat_map(|slice| &slice.spec.devices).map(|device| &device.name)) {
            return invalid(key);
        }
        if !gates.partitionable_devices {
            let (elsewhere, counters) = Default::default();
            return Some(Self { key, state: PoolState::Usable, slices, elsewhere, counters });
        }
        let sets = counting.iter().flat_map(|slice| &slice.spec.shared_counters);
        if !are_unique(sets.clone().map(|set| &set.name)) {
            return invalid(key);
        }
        let counters: BTreeMap<_, _> = sets.map(|set| (set.name.clone(), set.clone())).collect();
        let devices = counting.iter().chain(&slices).chain(&elsewhere).flat_map(|slice| &slice.spec.devices);
        let mut consumed = devices.flat_map(|device| &device.consumes_counters);
        if !consumed.all(|consumed| are_known(consumed, &counters)) {
            return invalid(key);
        }
        Some(Self { key, state: PoolState::Usable, slices, elsewhere, counters })
    }

    fn empty(key: Arc<PoolKey>, state: PoolState) -> Self {
        let (slices, elsewhere, counters) = Default::default();
        Self { key, state, slices, elsewhere, counters }
    }

    fn has_binding_conditions(&self) -> bool {
        let mut devices = self.slices.iter().flat_map(|slice| &slice.spec.devices);
        devices.any(|device| device.binding_conditions.is_some())
    }
}

fn are_unique<'a>(mut names: impl Iterator<Item = &'a Str>) -> bool {
    let mut seen = BTreeSet::new();
    names.all(|name| seen.insert(name))
}

/// Returns true if the consumed counters exist.
fn are_known(consumed: &CounterConsumption, sets: &BTreeMap<Str, CounterSet>) -> bool {
    let set = sets.get(&consumed.counter_set);
    set.is_some_and(|set| consumed.counters.keys().all(|name| set.counters.contains_key(name)))
}
