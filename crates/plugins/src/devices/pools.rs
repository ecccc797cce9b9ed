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
    slice::{CounterConsumption, CounterSet, Device, ResourcePool, ResourceSlice},
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
    /// True if some device consumes counters.
    pub(super) consumes_counters: bool,
    /// Results of CEL selectors. A changed slice becomes a new one, so results never get stale.
    pub(super) memo: SelectorMemo,
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.spec == other.spec
    }
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
            consumes_counters: spec.devices.iter().any(|device| !device.consumes_counters.is_empty()),
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

    /// Returns true if the slice has a device of this name.
    pub(super) fn has_device(&self, name: &str) -> bool {
        self.spec.devices.iter().any(|device| *device.name == *name)
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

/// Slices by name.
pub(super) type SlicesByName = BTreeMap<Str, Arc<Slice>>;

/// All slices of a pool, of every generation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PoolSlices {
    by_name: SlicesByName,
    /// Number of slices by generation.
    generations: BTreeMap<i64, usize>,
    /// Slices with devices that consume counters.
    consumers: SlicesByName,
    /// Number of slices that several nodes may reach.
    shared: usize,
}

impl PoolSlices {
    pub(super) fn insert(&mut self, slice: &Arc<Slice>) {
        self.remove(&slice.name);
        *self.generations.entry(slice.spec.pool.generation).or_default() += 1;
        self.shared += usize::from(slice.local_to().is_none());
        if slice.consumes_counters {
            self.consumers.insert(slice.name.clone(), slice.clone());
        }
        self.by_name.insert(slice.name.clone(), slice.clone());
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(slice) = self.by_name.remove(name) else { return };
        self.consumers.remove(name);
        self.shared -= usize::from(slice.local_to().is_none());
        if let Some(count) = self.generations.get_mut(&slice.spec.pool.generation) {
            *count -= 1;
            if *count == 0 {
                self.generations.remove(&slice.spec.pool.generation);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.by_name.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns true if the devices of one slice matter for the others.
    pub(super) fn has_counters(&self) -> bool {
        !self.consumers.is_empty()
    }

    /// Returns true if several nodes may reach some slices.
    pub(super) fn is_shared(&self) -> bool {
        self.shared > 0
    }
}

/// A pool as one node sees it.
#[derive(Debug)]
pub(super) struct NodePool {
    pub(super) key: Arc<PoolKey>,
    pub(super) state: PoolState,
    /// Slices with devices that the node may reach, by name. Empty unless the pool is usable.
    pub(super) slices: Vec<Arc<Slice>>,
    /// Other slices of the pool with devices that consume the same counters.
    pub(super) elsewhere: Vec<Arc<Slice>>,
    /// Counters of the pool, by name of the set.
    pub(super) counters: BTreeMap<Str, CounterSet>,
    /// True if some device has binding conditions.
    has_binding_conditions: bool,
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

/// Returns the slices that a node sees, by pool. `slices` are all that may matter for the node.
pub(super) fn visible<'a>(
    slices: impl Iterator<Item = &'a Arc<Slice>>,
    node: NodeFacts<'_>,
    gates: DeviceGates,
) -> Result<BTreeMap<Arc<PoolKey>, Vec<Arc<Slice>>>, String> {
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
    Ok(visible)
}

/// Sorts the pools of a node in the order in which the allocator visits them: by driver and pool, pools with binding
/// conditions last.
pub(super) fn sort(pools: &mut [Arc<NodePool>]) {
    pools.sort_by(|a, b| a.has_binding_conditions.cmp(&b.has_binding_conditions).then(a.key.cmp(&b.key)));
}

impl NodePool {
    /// Creates the pool from the slices that the node sees. Returns `None` if they are obsolete.
    pub(super) fn new(
        key: Arc<PoolKey>,
        mut slices: Vec<Arc<Slice>>,
        all: &PoolSlices,
        gates: DeviceGates,
    ) -> Option<Self> {
        let ResourcePool { generation, resource_slice_count, .. } = slices.first()?.spec.pool;
        let is_complete = |count: usize| i64::try_from(count) == Ok(resource_slice_count);
        let mut elsewhere: Vec<Arc<Slice>> = Vec::new();
        if !is_complete(slices.len()) {
            if all.generations.last_key_value().is_some_and(|(newest, _)| *newest > generation) {
                return None;
            }
            if !is_complete(all.generations.get(&generation).copied().unwrap_or_default()) {
                return Some(Self::empty(key, PoolState::Incomplete));
            }
            let seen: BTreeSet<&Str> = slices.iter().map(|slice| &slice.name).collect();
            let current = all.consumers.values().filter(|slice| slice.spec.pool.generation == generation);
            elsewhere = current.filter(|slice| !seen.contains(&slice.name)).cloned().collect();
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
            return Some(Self { slices, ..Self::empty(key, PoolState::Usable) }.checked());
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
        Some(Self { slices, elsewhere, counters, ..Self::empty(key, PoolState::Usable) }.checked())
    }

    fn empty(key: Arc<PoolKey>, state: PoolState) -> Self {
        let (slices, elsewhere, counters) = Default::default();
        Self { key, state, slices, elsewhere, counters, has_binding_conditions: false }
    }

    /// Looks for binding conditions.
    fn checked(mut self) -> Self {
        let mut devices = self.slices.iter().flat_map(|slice| &slice.spec.devices);
        self.has_binding_conditions = devices.any(|device| device.binding_conditions.is_some());
        self
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
