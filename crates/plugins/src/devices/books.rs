//! An index of all devices: which nodes see them and which are in use.
//!
//! Invariant: after any sequence of changes the index equals a rebuilt one. Devices of assumed allocations are in use,
//! since an index sees objects as plugins do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    Allocation, DeviceClass, DeviceGates, ResourceClaim, ResourceSlice,
    allocator::{AllocationError, Allocator, AllocatorRules, InUse, Solution},
    answers::Answers,
    capacity::Consumed,
    pools::{NodeFacts, NodePool, PoolKey, PoolSlices, Slice, gather},
    results::rank_of,
    selectors::Selectors,
};

/// An index of all devices. See the [module documentation](self).
#[derive(Debug, Default)]
pub struct Devices {
    slices: FxHashMap<Str, Arc<Slice>>,
    pools: FxHashMap<Arc<PoolKey>, Pool>,
    /// Slices that only one node can reach, by node.
    local: FxHashMap<Str, PoolSlices>,
    /// All other slices.
    shared: PoolSlices,
    /// Allocations whose devices are counted in `pools`, by namespace and name of the claim.
    allocations: FxHashMap<(Str, Str), Arc<Allocation>>,
    changes: Changes,
    selectors: Selectors,
    answers: Answers,
}

/// A pool and its devices in use. There may be devices in use without slices.
#[derive(Debug, Default)]
struct Pool {
    slices: PoolSlices,
    in_use: FxHashMap<Str, DeviceUse>,
}

/// Use of one device.
#[derive(Clone, Debug, Default, PartialEq)]
struct DeviceUse {
    /// Number of claims that have the whole device. More than one if schedulers compete.
    claims: u32,
    /// Number of claims that share the device.
    shares: u32,
    /// Amounts that the shares consume.
    consumed: Consumed,
}

/// Numbers of the latest changes. An answer is valid while nothing that it depends on has a higher number.
#[derive(Debug, Default)]
struct Changes {
    latest: u64,
    /// Latest change that concerns all rows.
    all: Change,
    rows: Vec<Change>,
}

/// Numbers of changes.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    /// Change of slices or of the node.
    supply: u64,
    /// Change of the devices in use.
    in_use: u64,
}

impl Changes {
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    fn row(&mut self, row: NodeIdx) -> &mut Change {
        if self.rows.len() <= row.at() {
            self.rows.resize(row.at() + 1, Change::default());
        }
        &mut self.rows[row.at()]
    }

    /// Returns the number of the latest change of what a row sees.
    fn supply(&self, row: NodeIdx) -> u64 {
        let of_row = self.rows.get(row.at()).copied().unwrap_or_default();
        of_row.supply.max(self.all.supply)
    }

    /// Returns the number of the latest change that concerns a row.
    fn latest(&self, row: NodeIdx) -> u64 {
        let of_row = self.rows.get(row.at()).copied().unwrap_or_default();
        of_row.supply.max(of_row.in_use).max(self.all.supply).max(self.all.in_use)
    }
}

/// What to find devices for.
#[derive(Clone, Copy, Debug)]
pub struct DeviceQuery<'a> {
    /// Claims that need devices.
    pub claims: &'a [&'a Custom<ResourceClaim>],
    /// All device classes.
    pub classes: Watched<'a, DeviceClass>,
    /// Feature gates.
    pub gates: DeviceGates,
    /// Maximum number of devices to examine for one node.
    pub max_steps: u64,
}

impl Devices {
    /// Returns the rank of the alternatives that the claims would get on a node.
    ///
    /// # Errors
    /// When there is no solution.
    pub fn fits(&self, query: &DeviceQuery<'_>, node: NodeRef<'_>) -> Result<i64, AllocationError> {
        let latest = self.changes.latest(node.idx());
        let known = self.answers.get(query, node.idx(), latest);
        if let Some(answer) = known {
            return answer.ok_or(AllocationError::NoSolution);
        }
        let answer = self.search(query, node, |_, solution| Ok(rank(query.claims, solution)));
        match &answer {
            Ok(rank) => self.answers.set(query, node.idx(), latest, Some(*rank)),
            Err(AllocationError::NoSolution) => self.answers.set(query, node.idx(), latest, None),
            // The text of an error may name the claim.
            Err(_) => {}
        }
        answer
    }

    /// Returns the allocations that the claims get on a node, in the order of the claims.
    ///
    /// # Errors
    /// When there is no solution.
    pub fn allocate(
        &self,
        query: &DeviceQuery<'_>,
        node: NodeRef<'_>,
    ) -> Result<Vec<Allocation>, AllocationError> {
        self.search(query, node, |allocator, solution| allocator.allocations(solution))
    }

    fn search<T>(
        &self,
        query: &DeviceQuery<'_>,
        node: NodeRef<'_>,
        answer: impl FnOnce(&Allocator<'_, InUseView<'_>>, &Solution) -> Result<T, AllocationError>,
    ) -> Result<T, AllocationError> {
        let Some(object) = node.object() else { return Err(AllocationError::NoSolution) };
        let facts = NodeFacts { name: node.name(), labels: &object.labels };
        let pools = self.pools_of(node.idx(), facts, query.gates)?;
        let allocator = Allocator {
            node: facts,
            pools: &pools,
            in_use: &InUseView { devices: self, gates: query.gates },
            claims: query.claims,
            classes: query.classes,
            selectors: &self.selectors,
            gates: query.gates,
            rules: AllocatorRules::V1_36,
            max_steps: query.max_steps,
        };
        let solution = allocator.run()?;
        answer(&allocator, &solution)
    }

    /// Returns the pools that a node sees.
    fn pools_of(
        &self,
        row: NodeIdx,
        node: NodeFacts<'_>,
        gates: DeviceGates,
    ) -> Result<Arc<[NodePool]>, AllocationError> {
        let supply = self.changes.supply(row);
        if let Some(known) = self.answers.pools(row, supply) {
            return Ok(known);
        }
        let local = self.local.get(node.name).into_iter().flat_map(BTreeMap::values);
        let none = PoolSlices::new();
        let all_of = |key: &PoolKey| self.pools.get(key).map_or(&none, |pool| &pool.slices);
        let pools = gather(local.chain(self.shared.values()), node, gates, all_of);
        let pools = pools.map_err(|why| AllocationError::Fatal(format!("gather pool information: {why}")));
        let pools: Arc<[NodePool]> = pools?.into();
        self.answers.set_pools(row, supply, pools.clone());
        Ok(pools)
    }

    /// Marks a change of everything that concerns a pool: of the rows of the nodes that see it, or of all rows.
    fn touch(&mut self, view: ClusterView<'_>, key: &PoolKey, change: fn(&mut Change) -> &mut u64) {
        let number = self.changes.next();
        let slices = self.pools.get(key).into_iter().flat_map(|pool| pool.slices.values());
        let nodes: Option<BTreeSet<&Str>> = slices.map(|slice| slice.local_to()).collect();
        match nodes {
            Some(nodes) => {
                let rows: Vec<NodeIdx> = nodes.into_iter().filter_map(|name| view.nodes.find(name)).collect();
                rows.into_iter().for_each(|row| *change(self.changes.row(row)) = number);
            }
            None => *change(&mut self.changes.all) = number,
        }
    }

    fn slice_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        let (_, _, slices) = self.watched(view.objects);
        let new = slices.get("", name).map(|slice| Arc::new(Slice::new(slice)));
        if let Some(old) = self.slices.remove(name) {
            self.touch(view, &old.key, |change| &mut change.supply);
            self.remove_slice(&old);
        }
        if let Some(new) = new {
            self.add_slice(&new);
            self.touch(view, &new.key, |change| &mut change.supply);
        }
    }

    fn add_slice(&mut self, slice: &Arc<Slice>) {
        let name = slice.name.clone();
        let of_node = match slice.local_to() {
            Some(node) => self.local.entry(node.clone()).or_default(),
            None => &mut self.shared,
        };
        of_node.insert(name.clone(), slice.clone());
        self.pools.entry(slice.key.clone()).or_default().slices.insert(name.clone(), slice.clone());
        self.slices.insert(name, slice.clone());
    }

    fn remove_slice(&mut self, slice: &Slice) {
        match slice.local_to() {
            Some(node) => {
                if let Some(local) = self.local.get_mut(node) {
                    local.remove(&slice.name);
                    if local.is_empty() {
                        self.local.remove(node);
                    }
                }
            }
            None => drop(self.shared.remove(&slice.name)),
        }
        if let Some(pool) = self.pools.get_mut(&*slice.key) {
            pool.slices.remove(&slice.name);
        }
        self.forget_if_empty(&slice.key);
    }

    fn forget_if_empty(&mut self, key: &PoolKey) {
        if self.pools.get(key).is_some_and(|pool| pool.slices.is_empty() && pool.in_use.is_empty()) {
            self.pools.remove(key);
        }
    }

    fn claim_changed(&mut self, view: ClusterView<'_>, key: (Str, Str)) {
        let (claims, _, _) = self.watched(view.objects);
        let new = claims.get(&key.0, &key.1).and_then(|claim| claim.status.allocation.clone());
        let old = self.allocations.get(&key);
        if old.map(Arc::as_ptr) == new.as_ref().map(Arc::as_ptr) {
            return;
        }
        if let Some(old) = self.allocations.remove(&key) {
            self.count(view, &old, DeviceUse::remove);
        }
        if let Some(new) = new {
            self.count(view, &new, DeviceUse::add);
            self.allocations.insert(key, new);
        }
    }

    /// Adds or removes the devices of an allocation. Devices with admin access do not count.
    fn count(
        &mut self,
        view: ClusterView<'_>,
        allocation: &Allocation,
        change: fn(&mut DeviceUse, &super::claim::DeviceResult),
    ) {
        for result in &allocation.devices.results {
            if result.admin_access == Some(true) {
                continue;
            }
            let key = Arc::new(PoolKey { driver: result.driver.clone(), pool: result.pool.clone() });
            let pool = self.pools.entry(key.clone()).or_default();
            let device = pool.in_use.entry(result.device.clone()).or_default();
            change(device, result);
            if *device == DeviceUse::default() {
                pool.in_use.remove(&result.device);
            }
            self.touch(view, &key, |change| &mut change.in_use);
            self.forget_if_empty(&key);
        }
    }
}

impl DeviceUse {
    fn add(&mut self, result: &super::claim::DeviceResult) {
        if result.share_id.is_none() {
            self.claims += 1;
            return;
        }
        self.shares += 1;
        for (name, amount) in &result.consumed_capacity {
            *self.consumed.entry(name.clone()).or_default() += amount.nanos();
        }
    }

    fn remove(&mut self, result: &super::claim::DeviceResult) {
        if result.share_id.is_none() {
            self.claims = self.claims.saturating_sub(1);
            return;
        }
        self.shares = self.shares.saturating_sub(1);
        for (name, amount) in &result.consumed_capacity {
            *self.consumed.entry(name.clone()).or_default() -= amount.nanos();
        }
        self.consumed.retain(|_, amount| *amount != 0);
    }
}

/// The devices in use, as the feature gates count them.
struct InUseView<'a> {
    devices: &'a Devices,
    gates: DeviceGates,
}

impl InUseView<'_> {
    fn device(&self, pool: &PoolKey, device: &str) -> Option<&DeviceUse> {
        self.devices.pools.get(pool)?.in_use.get(device)
    }
}

impl InUse for InUseView<'_> {
    fn is_allocated(&self, pool: &PoolKey, device: &str) -> bool {
        self.device(pool, device)
            .is_some_and(|device| device.claims > 0 || (device.shares > 0 && !self.gates.consumable_capacity))
    }

    fn consumed(&self, pool: &PoolKey, device: &str) -> Option<&Consumed> {
        let device = self.device(pool, device).filter(|_| self.gates.consumable_capacity)?;
        (!device.consumed.is_empty()).then_some(&device.consumed)
    }
}

/// Returns the sum of the ranks of the alternatives in a solution.
fn rank(claims: &[&Custom<ResourceClaim>], solution: &Solution) -> i64 {
    let claims = claims.iter().zip(&solution.alternatives);
    let ranks = claims.flat_map(|(claim, alternatives)| {
        let requests = claim.spec.devices.requests.iter().zip(alternatives);
        let requests = requests.filter(|(request, _)| !request.first_available.is_empty());
        requests.map(|(_, alternative)| rank_of(*alternative))
    });
    ranks.sum()
}

impl Watches for Devices {
    type Resources = (ResourceClaim, DeviceClass, ResourceSlice);
}

impl Index for Devices {
    fn pod_changed(&mut self, _: ClusterView<'_>, _: NodeIdx, _: &PodInfo, _: &PodInfo) {}

    fn node_changed(&mut self, _: ClusterView<'_>, row: NodeIdx) {
        let number = self.changes.next();
        self.changes.row(row).supply = number;
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        if key.is_of::<ResourceClaim>() {
            self.claim_changed(view, (key.namespace.clone(), key.name.clone()));
        } else if key.is_of::<ResourceSlice>() {
            self.slice_changed(view, &key.name);
        } else if key.is_of::<DeviceClass>() {
            self.changes.all.in_use = self.changes.next();
        }
    }
}
