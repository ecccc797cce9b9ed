//! Pools of devices as one node sees them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::{Labels, Str, selector::ParsedNodeSelector};
use harbormaster_framework::resource::Custom;

use super::{
    gates::DeviceGates,
    memo::SelectorMemo,
    slice::{CounterConsumption, CounterSet, Device, ResourcePool, ResourceSlice},
    taint::DeviceTaint,
    taint_rule::{RuleTaints, TaintRules},
};

/// Driver and name of a pool.
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
    /// Node selectors of the devices, if each device has its own nodes.
    device_selectors: Vec<Option<ParsedNodeSelector>>,
    /// True if some device consumes counters.
    pub(super) consumes_counters: bool,
    /// True if some device names compatibility groups, which are not supported.
    has_groups: bool,
    /// Taints that rules add to the devices.
    rule_taints: RuleTaints,
    /// Results of CEL selectors. A changed slice is replaced by a new `Slice`, so results never become stale.
    pub(super) memo: SelectorMemo,
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.spec == other.spec && self.rule_taints == other.rule_taints
    }
}

/// Name and labels of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeFacts<'a> {
    pub(super) name: &'a str,
    pub(super) labels: &'a Labels,
}

impl Slice {
    pub(super) fn new(slice: &Custom<ResourceSlice>, rules: &TaintRules) -> Self {
        let spec = slice.object.clone();
        let key = PoolKey { driver: spec.driver.clone(), pool: spec.pool.name.clone() };
        let parsed = |device: &Arc<Device>| device.node_selector.as_ref().map(ParsedNodeSelector::new);
        let consumed = || slice.devices.iter().flat_map(|device| &device.consumes_counters);
        Self {
            name: slice.metadata.name.clone(),
            rule_taints: rules.taints(&key, spec.devices.iter().map(|device| &**device)),
            key: Arc::new(key),
            selector: spec.nodes.node_selector.as_ref().map(ParsedNodeSelector::new),
            device_selectors: spec.devices.iter().map(parsed).collect(),
            consumes_counters: consumed().next().is_some(),
            has_groups: consumed().any(|consumed| !consumed.compatibility_groups.is_empty()),
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

    /// Taints of the device with this index.
    pub(super) fn taints(&self, device: usize) -> impl Iterator<Item = &DeviceTaint> {
        self.spec.devices[device].taints.iter().chain(self.rule_taints.get(&device).into_iter().flatten())
    }

    /// Returns true if the scheduler must not use the slice.
    fn is_ignored(&self, gates: DeviceGates) -> bool {
        let has_partitions = self.spec.nodes.per_device.is_some() || !self.spec.shared_counters.is_empty();
        has_partitions && !gates.partitionable_devices
            || self.has_groups && gates.rules.knows_unsupported_fields
    }

    /// Returns true if the node must consider the slice: it contains counters, or devices that the node may reach.
    fn is_relevant(&self, node: NodeFacts<'_>, gates: DeviceGates) -> Result<bool, String> {
        let nodes = &self.spec.nodes;
        let node_name = nodes.node_name.as_deref().unwrap_or_default();
        if !self.spec.shared_counters.is_empty() && gates.counters_reach_all_nodes() {
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

    /// Returns the positions of the devices that the node can reach, whatever the state of their pool.
    pub(super) fn reachable(&self, node: NodeFacts<'_>) -> Result<Vec<usize>, String> {
        let nodes = &self.spec.nodes;
        let all = 0..self.spec.devices.len();
        if nodes.per_device == Some(true) {
            let mut reachable = Vec::new();
            for at in all {
                if self.device_matches(at, node)? {
                    reachable.push(at);
                }
            }
            return Ok(reachable);
        }
        let name = nodes.node_name.as_deref().unwrap_or_default();
        let is_reachable = matches(node, name, nodes.all_nodes, self.selector.as_ref())?;
        Ok(if is_reachable { all.collect() } else { Vec::new() })
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
    /// Slices with counters, or with devices that consume counters.
    partitioned: SlicesByName,
    /// Number of slices that several nodes may reach.
    shared: usize,
}

impl PoolSlices {
    pub(super) fn insert(&mut self, slice: &Arc<Slice>) {
        self.remove(&slice.name);
        *self.generations.entry(slice.spec.pool.generation).or_default() += 1;
        self.shared += usize::from(slice.local_to().is_none());
        if slice.consumes_counters || !slice.spec.shared_counters.is_empty() {
            self.partitioned.insert(slice.name.clone(), slice.clone());
        }
        self.by_name.insert(slice.name.clone(), slice.clone());
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(slice) = self.by_name.remove(name) else { return };
        self.partitioned.remove(name);
        self.shared -= usize::from(slice.local_to().is_none());
        if let Some(count) = self.generations.get_mut(&slice.spec.pool.generation) {
            *count -= 1;
            if *count == 0 {
                self.generations.remove(&slice.spec.pool.generation);
            }
        }
    }

    /// Returns the device of this name in the newest generation that has it.
    pub(super) fn device(&self, name: &str) -> Option<&Device> {
        let newest_first = |slice: &&Arc<Slice>| Reverse(slice.spec.pool.generation);
        let slices = self.by_name.values().filter(|slice| slice.has_device(name));
        let newest = slices.min_by_key(newest_first)?;
        newest.spec.devices.iter().find(|device| *device.name == *name).map(|device| &**device)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.by_name.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns true if allocating a device of one slice may affect devices of other slices.
    pub(super) fn has_counters(&self) -> bool {
        !self.partitioned.is_empty()
    }

    /// Returns true if several nodes may reach some slice.
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
    /// True if some devices have their own nodes, so that nodes that see the same slices may reach different devices.
    pub(super) has_nodes_per_device: bool,
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

/// Returns the slices that a node sees, by pool, without older generations. `slices` contains every slice that may be
/// relevant to the node.
pub(super) fn visible<'a>(
    slices: impl Iterator<Item = &'a Arc<Slice>>,
    node: NodeFacts<'_>,
    gates: DeviceGates,
) -> Result<BTreeMap<Arc<PoolKey>, Vec<Arc<Slice>>>, String> {
    let mut visible: BTreeMap<Arc<PoolKey>, Vec<Arc<Slice>>> = BTreeMap::new();
    for slice in slices {
        if slice.is_ignored(gates) || !slice.is_relevant(node, gates)? {
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
        let mut unseen: Vec<Arc<Slice>> = Vec::new();
        if !is_complete(slices.len()) {
            if all.generations.last_key_value().is_some_and(|(newest, _)| *newest > generation) {
                return None;
            }
            let current = |slice: &&Arc<Slice>| slice.spec.pool.generation == generation;
            let unsupported = |slice: &&Arc<Slice>| slice.has_groups && gates.rules.knows_unsupported_fields;
            let usable = all.generations.get(&generation).copied().unwrap_or_default();
            let usable = usable - all.partitioned.values().filter(current).filter(unsupported).count();
            if !is_complete(usable) {
                return Some(Self::empty(key, PoolState::Incomplete));
            }
            let seen: BTreeSet<&Str> = slices.iter().map(|slice| &slice.name).collect();
            let current = all.partitioned.values().filter(current).filter(|slice| !unsupported(slice));
            unseen = current.filter(|slice| !seen.contains(&slice.name)).cloned().collect();
        }
        slices.sort_by(|a, b| a.name.cmp(&b.name));
        let has_counters =
            |slice: &Arc<Slice>| gates.partitionable_devices && !slice.spec.shared_counters.is_empty();
        let (mut counting, slices): (Vec<_>, Vec<_>) = slices.into_iter().partition(has_counters);
        let (unseen_counting, elsewhere): (Vec<_>, Vec<_>) = unseen.into_iter().partition(has_counters);
        counting.extend(unseen_counting);
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
        Self {
            key,
            state,
            slices,
            elsewhere,
            counters,
            has_binding_conditions: false,
            has_nodes_per_device: false,
        }
    }

    /// Records whether some devices have binding conditions or their own nodes.
    fn checked(mut self) -> Self {
        let mut slices = self.slices.iter();
        self.has_nodes_per_device = slices.any(|slice| slice.spec.nodes.per_device == Some(true));
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
