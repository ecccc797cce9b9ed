//! An index of all devices: which nodes see them and which are in use.
//!
//! An answer for a row is computed again when one of these changes: a class, the row's node, a pool as the row sees it
//! (also through a rule that taints devices of the pool), or the claims on a device that the row sees. If several nodes
//! may reach a device, a claim on it concerns all rows that see its pool; so does every claim on a pool whose devices
//! share counters.
//!
//! Invariant: after any sequence of changes the index equals a rebuilt one. Devices of assumed allocations are in use,
//! since an index sees the same objects as plugins.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use harbormaster_api::{Labels, Str};
use harbormaster_framework::{index::Contradiction, prelude::*, row_log::RowLog, table::NodeTable};
use rustc_hash::FxHashMap;

use super::{
    Allocation, DeviceClass, DeviceGates, DeviceTaintRule, ResourceClaim, ResourceSlice,
    allocator::{AllocationError, Allocator, matches},
    answers::{Answers, RowPools},
    claim::DeviceResult,
    conflicts::Conflicts,
    extended::{ExtendedClaims, ExtendedResources},
    pools::{NodeFacts, NodePool, PoolKey, PoolSlices, Slice, SlicesByName, sort, visible},
    results::rank_of,
    search::Solution,
    selectors::Selectors,
    taint_rule::TaintRules,
    usage::{DeviceUsage, PoolUsage},
};

/// An index of all devices: which nodes see them and which are in use.
#[derive(Debug, Default)]
pub struct Devices {
    slices: FxHashMap<Str, Arc<Slice>>,
    pools: FxHashMap<Arc<PoolKey>, Pool>,
    /// Slices that only one node can reach, by node.
    local: FxHashMap<Str, SlicesByName>,
    /// All other slices.
    shared: SlicesByName,
    /// Allocations whose devices are counted in `pools`, by namespace and name of the claim.
    allocations: FxHashMap<(Str, Str), Arc<Allocation>>,
    conflicts: Conflicts,
    rules: TaintRules,
    extended: ExtendedResources,
    extended_claims: ExtendedClaims,
    /// Names and labels of the nodes, by row.
    nodes: Vec<Option<(Str, Labels)>>,
    changes: Changes,
    selectors: Selectors,
    answers: Answers,
}

impl PartialEq for Devices {
    /// Compares everything that decisions depend on.
    fn eq(&self, other: &Self) -> bool {
        let nodes =
            |devices: &Self| devices.nodes.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.slices == other.slices
            && self.pools == other.pools
            && self.local == other.local
            && self.shared == other.shared
            && self.allocations == other.allocations
            && self.conflicts == other.conflicts
            && self.rules == other.rules
            && self.extended == other.extended
            && self.extended_claims == other.extended_claims
            && self.nodes[..nodes(self)] == other.nodes[..nodes(other)]
    }
}

/// A pool and its devices in use. Devices may be in use even if their slices are gone.
#[derive(Debug, Default)]
struct Pool {
    slices: PoolSlices,
    usage: PoolUsage,
    /// Number of the latest change in the use of devices that several nodes may reach.
    usage_change: Arc<AtomicU64>,
    /// The pool as the most recently evaluated node saw it. Nodes that share a pool often see the same slices.
    latest_view: Mutex<Option<PoolView>>,
}

impl PartialEq for Pool {
    fn eq(&self, other: &Self) -> bool {
        self.slices == other.slices && self.usage == other.usage
    }
}

/// A pool as seen by nodes that see the same slices.
#[derive(Debug)]
struct PoolView {
    gates: DeviceGates,
    seen: Vec<Arc<Slice>>,
    pool: Option<Arc<NodePool>>,
}

impl Pool {
    /// Returns the pool as seen by a node that sees these slices.
    fn view(&self, key: Arc<PoolKey>, seen: Vec<Arc<Slice>>, gates: DeviceGates) -> Option<Arc<NodePool>> {
        if !self.slices.is_shared() {
            return NodePool::new(key, seen, &self.slices, gates).map(Arc::new);
        }
        let mut latest = self.latest_view.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &PoolView| {
            let pairs = known.seen.iter().zip(&seen);
            known.gates == gates
                && known.seen.len() == seen.len()
                && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if let Some(known) = latest.as_ref().filter(|known| is_same(known)) {
            return known.pool.clone();
        }
        let pool = NodePool::new(key, seen.clone(), &self.slices, gates).map(Arc::new);
        *latest = Some(PoolView { gates, seen, pool: pool.clone() });
        pool
    }
}

/// Numbers of the latest changes. An answer is valid while nothing that it depends on has a higher number.
#[derive(Debug, Default)]
struct Changes {
    latest: u64,
    /// Latest changes that concern all rows.
    all: Change,
    rows: Vec<Change>,
    /// Rows for which an answer or [`Devices::count_of_class`] may have changed.
    log: RowLog,
}

/// Numbers of the latest changes that concern a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Latest change to slices or to the node.
    pub(super) supply: u64,
    /// Latest change to classes, or to the use of devices that only one node can reach.
    pub(super) usage: u64,
}

impl Changes {
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    /// Returns the numbers of the latest changes that concern a row, to be changed.
    fn row(&mut self, row: NodeIdx) -> &mut Change {
        if self.rows.len() <= row.at() {
            self.rows.resize(row.at() + 1, Change::default());
        }
        self.log.push(row);
        self.log.trim(self.rows.len());
        &mut self.rows[row.at()]
    }

    /// Returns the numbers of the latest changes that concern all rows, to be changed.
    fn all(&mut self) -> &mut Change {
        self.log.push_all();
        &mut self.all
    }

    /// Returns the numbers of the latest changes that concern a row.
    fn of(&self, row: NodeIdx) -> Change {
        let Change { supply, usage } = self.rows.get(row.at()).copied().unwrap_or_default();
        Change { supply: supply.max(self.all.supply), usage: usage.max(self.all.usage) }
    }
}

/// Claims that need devices, with the classes, gates and limit of the search.
#[derive(Clone, Copy, Debug)]
pub struct DeviceQuery<'a> {
    /// Claims that need devices.
    pub claims: &'a [&'a Custom<ResourceClaim>],
    /// All device classes.
    pub classes: Watched<'a, DeviceClass>,
    /// Feature gates.
    pub gates: DeviceGates,
    /// Maximum number of steps for one node. A step examines a device or makes a decision.
    pub max_steps: u64,
}

impl Devices {
    /// Returns the sum of the ranks of the alternatives that the claims would get on a node.
    ///
    /// # Errors
    /// If there is no solution, or for another reason of [`AllocationError`].
    pub fn fits(&self, query: &DeviceQuery<'_>, node: NodeRef<'_>) -> Result<i64, AllocationError> {
        if let Some(answer) = self.answers.get(query, node.idx(), self.changes.of(node.idx())) {
            return answer;
        }
        let (facts, pools) = self.pools_of(node, query.gates)?;
        let change = self.changes.latest;
        let answer = self.answers.common(query, &pools, change).unwrap_or_else(|| {
            let allocator = self.allocator(query, facts, &pools);
            let solution = allocator.run()?;
            allocator.check_nodes(&solution)?;
            Ok(rank(query.claims, &solution))
        });
        self.answers.set(query, node.idx(), &pools, change, &answer);
        answer
    }

    /// Calls `take` with the error of [`Self::fits`] for each of these rows where there is one, in any order, until
    /// `take` returns an error. While nothing changes, rows where the claims fit cost almost nothing.
    ///
    /// # Errors
    /// The error of `take`.
    pub fn each_unfit<'n, E>(
        &self,
        query: &DeviceQuery<'_>,
        nodes: &'n NodeTable,
        rows: &NodeSet,
        mut take: impl FnMut(NodeRef<'n>, AllocationError) -> Result<(), E>,
    ) -> Result<(), E> {
        let log = &self.changes.log;
        let unknown = self.answers.take_unfit(query, log, rows, |row, error| take(nodes.node(row), error))?;
        for node in unknown.iter().map(|row| nodes.node(row)) {
            if let Err(error) = self.fits(query, node) {
                take(node, error)?;
            }
        }
        Ok(())
    }

    /// Returns the allocations that the claims get on a node, in the order of the claims.
    ///
    /// # Errors
    /// If there is no solution, or for another reason of [`AllocationError`].
    pub fn allocate(
        &self,
        query: &DeviceQuery<'_>,
        node: NodeRef<'_>,
    ) -> Result<Vec<Allocation>, AllocationError> {
        let (facts, pools) = self.pools_of(node, query.gates)?;
        let allocator = self.allocator(query, facts, &pools);
        allocator.allocations(&allocator.run()?)
    }

    /// Returns the name of the device class that provides an extended resource. Unlike in kube-scheduler, the answer
    /// does not depend on the order of events.
    pub fn class_of_extended_resource(&self, resource: &str) -> Option<&Str> {
        self.extended.class(resource)
    }

    /// Returns the namespace and name of the claim that the scheduler created for the extended resources of the pod
    /// with this UID.
    pub fn extended_claim_of(&self, pod: &str) -> Option<(&Str, &Str)> {
        self.extended_claims.of(pod).map(|(namespace, name)| (namespace, name))
    }

    /// Rows for which [`Self::count_of_class`] may have changed.
    pub fn changed_rows(&self) -> &RowLog {
        &self.changes.log
    }

    /// Returns the number of devices of a class that a node can reach, and how many of them are in use. The states of
    /// the pools do not matter. Both numbers are zero if a selector of the class, or a node selector, fails.
    pub fn count_of_class(&self, class: &DeviceClass, gates: DeviceGates, node: NodeRef<'_>) -> (i64, i64) {
        let Some(object) = node.object() else { return (0, 0) };
        let facts = NodeFacts { name: node.name(), labels: &object.labels };
        let expressions = class.selectors.iter().filter_map(|selector| selector.cel.as_ref());
        let selectors: Vec<_> =
            expressions.map(|cel| self.selectors.compiled(&cel.expression, gates)).collect();
        let local = self.local.get(node.name()).into_iter().flat_map(SlicesByName::values);
        let (mut all, mut used) = (0, 0);
        for slice in local.chain(self.shared.values()) {
            let Ok(devices) = slice.reachable(facts) else { return (0, 0) };
            let usage = self.pools.get(&slice.key).map(|pool| &pool.usage);
            for device in devices {
                match matches(&selectors, slice, device) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(_) => return (0, 0),
                }
                all += 1;
                let name = &slice.spec.devices[device].name;
                used += i64::from(usage.is_some_and(|usage| usage.contains_key(name)));
            }
        }
        (all, used)
    }

    /// Number of the latest change to the devices that a row sees.
    #[cfg(test)]
    pub(super) fn supply_of(&self, row: NodeIdx) -> u64 {
        self.changes.of(row).supply
    }

    fn allocator<'a>(
        &'a self,
        query: &DeviceQuery<'a>,
        node: NodeFacts<'a>,
        pools: &'a [Arc<NodePool>],
    ) -> Allocator<'a> {
        let usage = pools.iter().map(|pool| self.pools.get(&pool.key).map(|pool| &pool.usage));
        Allocator {
            node,
            pools,
            usage: usage.map(|usage| usage.filter(|usage| !usage.is_empty())).collect(),
            claims: query.claims,
            classes: query.classes,
            selectors: &self.selectors,
            gates: query.gates,
            max_steps: query.max_steps,
        }
    }

    /// Returns the pools that a node sees.
    fn pools_of<'a>(
        &self,
        node: NodeRef<'a>,
        gates: DeviceGates,
    ) -> Result<(NodeFacts<'a>, Arc<[Arc<NodePool>]>), AllocationError> {
        let Some(object) = node.object() else { return Err(AllocationError::NoSolution) };
        let (row, node) = (node.idx(), NodeFacts { name: node.name(), labels: &object.labels });
        if let Some(known) = self.answers.pools(gates, row, self.changes.of(row).supply) {
            return Ok((node, known));
        }
        let local = self.local.get(node.name).into_iter().flat_map(SlicesByName::values);
        let slices = visible(local.chain(self.shared.values()), node, gates);
        let slices = slices.map_err(|why| AllocationError::Fatal(format!("gather pool information: {why}")));
        let (mut pools, mut shared) = (Vec::new(), Vec::new());
        for (key, slices) in slices? {
            let Some(pool) = self.pools.get(&key) else { continue };
            if pool.slices.is_shared() {
                shared.push(pool.usage_change.clone());
            }
            pools.extend(pool.view(key, slices, gates));
        }
        sort(&mut pools);
        let pools: Arc<[_]> = pools.into();
        let known = RowPools { pools: pools.clone(), shared: shared.into(), change: self.changes.latest };
        self.answers.set_pools(gates, row, known);
        Ok((node, pools))
    }

    fn slice_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        let (_, _, slices, _) = self.watched(view.objects);
        let new = slices.get("", name).map(|slice| Arc::new(Slice::new(slice, &self.rules)));
        let old = self.slices.get(name).cloned();
        if old == new {
            return;
        }
        let is_local = |slice: &Slice, pool: &PoolSlices| slice.local_to().is_some() && !pool.has_counters();
        // A slice that only one node can reach does not affect other nodes that see a part of its pool, unless the pool
        // becomes complete or incomplete, or the devices share counters.
        let narrow = match (&old, &new) {
            (Some(old), Some(new)) => {
                let is_same_part = old.key == new.key && old.spec.pool == new.spec.pool;
                let pool = self.pools.get(&old.key).map(|pool| &pool.slices);
                let consumes_counters = old.consumes_counters || new.consumes_counters;
                is_same_part
                    && !consumes_counters
                    && pool.is_some_and(|pool| is_local(old, pool) && is_local(new, pool))
            }
            _ => false,
        };
        if let Some(old) = old {
            self.supply_changed(view, &old, narrow);
            self.remove_slice(&old);
        }
        if let Some(new) = new {
            self.add_slice(&new);
            self.supply_changed(view, &new, narrow);
        }
    }

    /// Replaces the slices with devices to which the rule adds a taint, or did so until now.
    fn rule_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        let (_, _, _, rules) = self.watched(view.objects);
        for rule in self.rules.set(name, rules.get("", name).map(|rule| &rule.object)) {
            let pools = self.pools.iter().filter(|(key, _)| rule.concerns(key));
            let slices = pools.flat_map(|(_, pool)| pool.slices.iter()).map(|slice| slice.name.clone());
            for slice in slices.collect::<Vec<_>>() {
                self.slice_changed(view, &slice);
            }
        }
    }

    /// Marks the rows that a changed slice concerns: if `narrow`, only the row of the slice's node; otherwise all rows
    /// that may see a part of the slice's pool.
    fn supply_changed(&mut self, view: ClusterView<'_>, slice: &Slice, narrow: bool) {
        let number = self.changes.next();
        let Some(pool) = self.pools.get_mut(&slice.key) else { return };
        *pool.latest_view.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let mut mark = |node: Option<&Str>| match node {
            Some(node) => {
                if let Some(row) = view.nodes.find(node) {
                    self.changes.row(row).supply = number;
                }
            }
            None => self.changes.all().supply = number,
        };
        match narrow {
            true => mark(slice.local_to()),
            false if pool.slices.is_shared() => mark(None),
            false => pool.slices.iter().for_each(|slice| mark(slice.local_to())),
        }
    }

    fn add_slice(&mut self, slice: &Arc<Slice>) {
        let name = slice.name.clone();
        let of_node = match slice.local_to() {
            Some(node) => self.local.entry(node.clone()).or_default(),
            None => &mut self.shared,
        };
        of_node.insert(name.clone(), slice.clone());
        self.pools.entry(slice.key.clone()).or_default().slices.insert(slice);
        self.slices.insert(name, slice.clone());
        self.find_conflicts(slice);
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
        self.slices.remove(&slice.name);
        self.find_conflicts(slice);
        self.forget_if_empty(&slice.key);
    }

    fn forget_if_empty(&mut self, key: &PoolKey) {
        if self.pools.get(key).is_some_and(|pool| pool.slices.is_empty() && pool.usage.is_empty()) {
            self.pools.remove(key);
        }
    }

    fn claim_changed(&mut self, view: ClusterView<'_>, key: (Str, Str)) {
        let (claims, ..) = self.watched(view.objects);
        let claim = claims.get(&key.0, &key.1);
        self.extended_claims.set(&key, claim);
        let new = claim.and_then(|claim| claim.status.allocation.clone());
        if self.allocations.get(&key) == new.as_ref() {
            return;
        }
        if let Some(old) = self.allocations.remove(&key) {
            self.count(view, &old, DeviceUsage::remove);
        }
        if let Some(new) = new {
            self.allocations.insert(key, new.clone());
            self.count(view, &new, DeviceUsage::add);
        }
    }

    /// Adds or removes the devices of an allocation. Devices with admin access do not count.
    fn count(
        &mut self,
        view: ClusterView<'_>,
        allocation: &Allocation,
        change: fn(&mut DeviceUsage, &DeviceResult),
    ) {
        for result in &allocation.devices.results {
            if result.admin_access == Some(true) {
                continue;
            }
            let key = PoolKey { driver: result.driver.clone(), pool: result.pool.clone() };
            if !self.pools.contains_key(&key) {
                self.pools.insert(Arc::new(key.clone()), Pool::default());
            }
            let Some(pool) = self.pools.get_mut(&key) else { continue };
            let device = pool.usage.entry(result.device.clone()).or_default();
            change(device, result);
            if device.is_none() {
                pool.usage.remove(&result.device);
            }
            self.usage_changed(view, &key, &result.device);
            self.find_conflict(&key, &result.device);
            self.forget_if_empty(&key);
        }
    }

    /// Finds out which devices of a slice, which has come or gone, are in conflict.
    fn find_conflicts(&mut self, slice: &Slice) {
        if self.pools.get(&slice.key).is_none_or(|pool| pool.usage.is_empty()) {
            return;
        }
        slice.spec.devices.iter().for_each(|device| self.find_conflict(&slice.key, &device.name));
    }

    /// Finds out whether a device belongs to several claims that cannot share it.
    fn find_conflict(&mut self, key: &PoolKey, device: &Str) {
        let pool = self.pools.get(key);
        let is_contradictory = pool.is_some_and(|pool| {
            let usage = pool.usage.get(device);
            usage.is_some_and(|usage| usage.is_contradictory(|| pool.slices.device(device)))
        });
        if !is_contradictory {
            return self.conflicts.remove(key, device);
        }
        let is_it = |result: &DeviceResult| {
            result.admin_access != Some(true)
                && (&result.driver, &result.pool, &result.device) == (&key.driver, &key.pool, device)
        };
        let has_it = |allocation: &Allocation| allocation.devices.results.iter().any(is_it);
        let claims = self.allocations.iter().filter(|(_, allocation)| has_it(allocation));
        self.conflicts.set(key, device, claims.map(|(claim, _)| claim));
    }

    /// Marks the rows that a change in the use of a device concerns.
    fn usage_changed(&mut self, view: ClusterView<'_>, key: &PoolKey, device: &str) {
        let number = self.changes.next();
        let Some(pool) = self.pools.get(key) else { return };
        for slice in pool.slices.iter() {
            if !pool.slices.has_counters() && !slice.has_device(device) {
                continue;
            }
            match slice.local_to() {
                Some(node) => {
                    if let Some(row) = view.nodes.find(node) {
                        self.changes.row(row).usage = number;
                    }
                }
                None => {
                    pool.usage_change.store(number, Ordering::Relaxed);
                    self.changes.log.push_all();
                }
            }
        }
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
    type Resources = (ResourceClaim, DeviceClass, ResourceSlice, DeviceTaintRule);
}

impl Index for Devices {
    fn pod_changed(&mut self, _: ClusterView<'_>, _: NodeIdx, _: &PodInfo, _: &PodInfo) {}

    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        let node = view.nodes.node(row);
        let new = node.object().map(|object| (node.name().clone(), object.labels.clone()));
        if self.nodes.len() <= row.at() {
            self.nodes.resize(row.at() + 1, None);
        }
        if self.nodes[row.at()] == new {
            return;
        }
        if new.is_none() {
            self.answers.forget(row);
        }
        self.nodes[row.at()] = new;
        let number = self.changes.next();
        self.changes.row(row).supply = number;
    }

    fn contradictions(&self) -> Vec<&Contradiction> {
        self.conflicts.all()
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        if key.is_of::<ResourceClaim>() {
            self.claim_changed(view, (key.namespace.clone(), key.name.clone()));
        } else if key.is_of::<ResourceSlice>() {
            self.slice_changed(view, &key.name);
        } else if key.is_of::<DeviceClass>() {
            let (_, classes, ..) = self.watched(view.objects);
            self.extended.set(&key.name, classes.get("", &key.name).map(|class| &class.object));
            let number = self.changes.next();
            self.changes.all().usage = number;
        } else if key.is_of::<DeviceTaintRule>() {
            self.rule_changed(view, &key.name);
        }
    }
}
