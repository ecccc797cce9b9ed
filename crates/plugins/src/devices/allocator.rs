//! The search for devices: which devices of a node satisfy all claims of a pod.
//!
//! The search tries claims in order, the requests of a claim in order, the alternatives of a request in order, and
//! devices in the order of pools, slices and devices. Within a request it tries combinations, not permutations. The
//! first solution counts, so drivers can influence the choice by the names of pools, slices and devices.
//!
//! Reading order: [`Allocator::run`], `plan` (what each request asks for), [`Allocator::step`] (the search),
//! [`Allocator::take`] (one device).
//!
//! Invariants: the same inputs give the same devices; the depth of the search is at most [`MAX_RESULTS`] devices and
//! a step per request and claim; a device is never taken twice, except with admin access or if it can be shared.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use harbormaster_framework::{
    prelude::Watched,
    resource::{Custom, Metadata},
};
use rustc_hash::FxHashMap;
use thiserror::Error;

use super::{
    DeviceClass, DeviceGates, ResourceClaim, capacity,
    claim::{ALL, DeviceDemand, DeviceRequest, DeviceSelector, EXACT_COUNT, MAX_RESULTS},
    constraint::{Constraint, RequestName},
    pools::{NodeFacts, NodePool, PoolKey, PoolState, Slice},
    selectors::{SelectorError, Selectors},
    slice::Device,
};

/// Failure to find devices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AllocationError {
    /// The node has no suitable set of free devices.
    #[error("cannot allocate all claims")]
    NoSolution,
    /// The node cannot be examined. Other nodes may have devices.
    #[error("{0}")]
    OnNode(String),
    /// The search took too many steps.
    #[error("timed out trying to allocate devices")]
    TimedOut,
    /// A claim, class or slice has an error that also concerns other nodes.
    #[error("{0}")]
    Fatal(String),
}

impl AllocationError {
    fn fatal<T>(text: String) -> Result<T, Self> {
        Err(Self::Fatal(text))
    }
}

/// Differences between the allocators of Kubernetes' versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllocatorRules {
    /// Pools of different drivers with the same name share their counters, as in 1.36.
    pub(super) counters_by_pool_name: bool,
    /// A device that is rejected after its counters were checked keeps them for the rest of the search, as in 1.36.
    pub(super) rejected_devices_keep_counters: bool,
    /// `distinctAttribute` compares only the latest device of each request, as in 1.36.
    pub(super) distinct_by_request: bool,
}

impl AllocatorRules {
    /// Rules of Kubernetes 1.36.
    pub(super) const V1_36: Self =
        Self { counters_by_pool_name: true, rejected_devices_keep_counters: true, distinct_by_request: true };
}

/// Devices that are in use.
pub(super) trait InUse {
    /// Returns true if a claim has the whole device.
    fn is_allocated(&self, pool: &PoolKey, device: &str) -> bool;

    /// Returns the amounts of a shared device that are in use; `None` if there are none.
    fn consumed(&self, pool: &PoolKey, device: &str) -> Option<&capacity::Consumed>;
}

/// Position of a device: the pool, the slice in the pool, and the device in the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position {
    pub(super) pool: usize,
    slice: usize,
    device: usize,
}

const START: Position = Position { pool: 0, slice: 0, device: 0 };

/// Point that the search has reached.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    claim: usize,
    request: usize,
    alternative: usize,
    /// Number of devices that the request has got.
    device: usize,
}

/// Result of a step of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Found,
    NotFound,
    /// Every way leads to more devices than a claim can have.
    TooMany,
}

/// What a request, or one of its alternatives, asks for.
#[derive(Debug)]
struct Plan<'a> {
    name: RequestName<'a>,
    demand: &'a DeviceDemand,
    class: &'a Custom<DeviceClass>,
    /// Number of devices.
    count: usize,
    /// The devices, if the request asks for all that match.
    all: Option<Vec<Position>>,
}

/// A request with its alternatives.
#[derive(Debug)]
struct RequestPlan<'a> {
    alternatives: Vec<Plan<'a>>,
    has_alternatives: bool,
}

/// A device that was chosen for a claim.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) at: Position,
    /// Index of the request in the claim.
    pub(super) request: usize,
    /// Index of the alternative in the request.
    pub(super) alternative: usize,
    /// True if the device is shared with other claims.
    pub(super) is_shared: bool,
}

/// Devices for all claims of a pod.
#[derive(Debug)]
pub(super) struct Solution {
    /// By claim.
    pub(super) devices: Vec<Vec<Chosen>>,
    /// Index of the alternative that was chosen, by claim and request.
    pub(super) alternatives: Vec<Vec<usize>>,
}

/// A search for devices. See the [module documentation](self).
pub(super) struct Allocator<'a, U> {
    pub(super) node: NodeFacts<'a>,
    pub(super) pools: &'a [NodePool],
    pub(super) in_use: &'a U,
    pub(super) claims: &'a [&'a Custom<ResourceClaim>],
    pub(super) classes: Watched<'a, DeviceClass>,
    pub(super) selectors: &'a Selectors,
    pub(super) gates: DeviceGates,
    pub(super) rules: AllocatorRules,
    /// Maximum number of devices to examine.
    pub(super) max_steps: u64,
}

/// State of a search.
struct Search<'a, 's, U> {
    task: &'s Allocator<'a, U>,
    plans: &'s [Vec<RequestPlan<'a>>],
    constraints: Vec<Vec<Constraint<'a>>>,
    solution: Solution,
    /// Devices that were taken, each with the claim. Shared devices are in `shared`.
    taken: Vec<(Position, usize)>,
    /// Amounts that were taken of shared devices.
    shared: Vec<(Position, capacity::Consumed)>,
    counters: Counters<'a>,
    steps: u64,
}

impl<'a, U: InUse> Allocator<'a, U> {
    /// Searches devices for all claims.
    pub(super) fn run(&self) -> Result<Solution, AllocationError> {
        let plans = self.claims.iter().map(|claim| self.plan(claim)).collect::<Result<Vec<_>, _>>()?;
        let constraints = self.claims.iter().map(|claim| self.constraints(claim));
        let alternatives = |requests: &Vec<RequestPlan<'_>>| vec![0; requests.len()];
        let mut search = Search {
            task: self,
            constraints: constraints.collect::<Result<_, _>>()?,
            solution: Solution {
                devices: vec![Vec::new(); self.claims.len()],
                alternatives: plans.iter().map(alternatives).collect(),
            },
            plans: &plans,
            taken: Vec::new(),
            shared: Vec::new(),
            counters: Counters::default(),
            steps: 0,
        };
        match search.step(Place::default(), false, START)? {
            Step::Found => Ok(search.solution),
            // Too many devices for the first request of the first claim, whatever is chosen. kube-scheduler reports
            // this error itself.
            Step::TooMany => AllocationError::fatal("allocation max size exceeded".to_owned()),
            Step::NotFound if self.pools.iter().any(|pool| pool.state == PoolState::Invalid) => {
                Err(AllocationError::OnNode("invalid resource pools were encountered".to_owned()))
            }
            Step::NotFound => Err(AllocationError::NoSolution),
        }
    }

    /// Plans the requests of a claim, and checks that the scheduler can handle them.
    fn plan(&self, claim: &'a Custom<ResourceClaim>) -> Result<Vec<RequestPlan<'a>>, AllocationError> {
        let mut least = 0;
        let mut plans = Vec::with_capacity(claim.spec.devices.requests.len());
        for request in &claim.spec.devices.requests {
            let plan = self.plan_request(claim, request)?;
            least += plan.alternatives.iter().map(|plan| plan.count).min().unwrap_or_default();
            plans.push(plan);
        }
        if least > MAX_RESULTS {
            let claim = full_name(claim);
            return AllocationError::fatal(format!(
                "claim {claim}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            ));
        }
        Ok(plans)
    }

    fn plan_request(
        &self,
        claim: &'a Custom<ResourceClaim>,
        request: &'a DeviceRequest,
    ) -> Result<RequestPlan<'a>, AllocationError> {
        let refuse = |kind: &str, name: &str, gate: &str, what: &str| {
            let claim = full_name(claim);
            AllocationError::fatal(format!(
                "claim {claim}, {kind} {name}: {what}, but the {gate} feature is disabled"
            ))
        };
        let has_alternatives = !request.first_available.is_empty();
        if has_alternatives && !self.gates.prioritized_list {
            return refuse("request", &request.name, "DRAPrioritizedList", "has subrequests");
        }
        if !self.gates.consumable_capacity {
            let (gate, what) = ("DRAConsumableCapacity", "has capacity requests");
            if request.exactly.as_ref().is_some_and(|demand| demand.capacity.is_some()) {
                return refuse("request", &request.name, gate, what);
            }
            if let Some(demand) = request.first_available.iter().find(|demand| demand.capacity.is_some()) {
                return refuse("subrequest", &demand.name, gate, what);
            }
        }
        let name = |alternative| RequestName { request: &request.name, alternative };
        let alternatives = match has_alternatives {
            true => request
                .first_available
                .iter()
                .map(|demand| self.plan_demand(claim, name(Some(&demand.name)), demand))
                .collect::<Result<_, _>>()?,
            false => {
                let exactly = request.exactly.iter();
                exactly.map(|demand| self.plan_demand(claim, name(None), demand)).collect::<Result<_, _>>()?
            }
        };
        Ok(RequestPlan { alternatives, has_alternatives })
    }

    fn plan_demand(
        &self,
        claim: &'a Custom<ResourceClaim>,
        name: RequestName<'a>,
        demand: &'a DeviceDemand,
    ) -> Result<Plan<'a>, AllocationError> {
        let about = || {
            let own = name.alternative.unwrap_or(name.request);
            format!("claim {}, request {own}", full_name(claim))
        };
        if let Some(at) = demand.selectors.iter().position(|selector| selector.cel.is_none()) {
            let about = about();
            return AllocationError::fatal(format!(
                "{about}, selector #{at}: CEL expression empty (unsupported selector type?)"
            ));
        }
        if demand.admin_access.is_some() && !self.gates.admin_access {
            let about = about();
            return AllocationError::fatal(format!(
                "{about}: admin access is requested, but the feature is disabled"
            ));
        }
        let class = &demand.device_class_name;
        if class.is_empty() {
            let about = about();
            return AllocationError::fatal(format!(
                "{about}: missing device class name (unsupported request type?)"
            ));
        }
        let Some(class) = self.classes.get("", class) else {
            let about = about();
            return AllocationError::fatal(format!(
                "{about}: could not retrieve device class {class}: \
                 deviceclass.resource.k8s.io \"{class}\" not found"
            ));
        };
        let mut plan = Plan { name, demand, class, count: 0, all: None };
        match demand.allocation_mode.as_str() {
            EXACT_COUNT => plan.count = usize::try_from(demand.count).unwrap_or_default(),
            ALL => {
                let all = self.all_devices(claim, &plan, about)?;
                plan.count = all.len();
                plan.all = Some(all);
            }
            mode => {
                return AllocationError::fatal(format!("{}: unsupported count mode {mode}", about()));
            }
        }
        Ok(plan)
    }

    /// Returns all devices that match a request.
    fn all_devices(
        &self,
        claim: &'a Custom<ResourceClaim>,
        plan: &Plan<'a>,
        about: impl Fn() -> String,
    ) -> Result<Vec<Position>, AllocationError> {
        let mut all = Vec::new();
        for (at, pool) in self.pools.iter().enumerate() {
            let problem = match pool.state {
                PoolState::Usable => None,
                PoolState::Incomplete => Some("being updated"),
                PoolState::Invalid => Some("invalid"),
            };
            if let Some(problem) = problem {
                let (about, key) = (about(), &pool.key);
                return AllocationError::fatal(format!(
                    "{about}: asks for all devices, but resource pool {key} is currently {problem}"
                ));
            }
            let mut position = Position { pool: at, ..START };
            while let Some(found) = self.device_at(&mut position) {
                if self.is_selectable(claim, plan, found)? && self.has_capacity(plan, found, |_| 0) {
                    all.push(found);
                }
                position.device += 1;
            }
        }
        Ok(all)
    }

    /// Returns the position of the next device in the pool of `position`, which moves there.
    fn device_at(&self, position: &mut Position) -> Option<Position> {
        let pool = &self.pools[position.pool];
        while let Some(slice) = pool.slices.get(position.slice) {
            if position.device < slice.spec.devices.len() {
                return Some(*position);
            }
            (position.slice, position.device) = (position.slice + 1, 0);
        }
        None
    }

    fn slice(&self, at: Position) -> &'a Slice {
        &self.pools[at.pool].slices[at.slice]
    }

    pub(super) fn device(&self, at: Position) -> &'a Device {
        &self.slice(at).spec.devices[at.device]
    }

    pub(super) fn slice_of(&self, at: Position) -> &'a Slice {
        self.slice(at)
    }

    fn constraints(&self, claim: &'a Custom<ResourceClaim>) -> Result<Vec<Constraint<'a>>, AllocationError> {
        let specs = claim.spec.devices.constraints.iter().enumerate();
        let constraint = |(at, spec)| {
            Constraint::new(spec, self.rules.distinct_by_request).ok_or_else(|| {
                let claim = full_name(claim);
                AllocationError::Fatal(format!(
                    "claim {claim}, constraint #{at}: empty constraint (unsupported constraint type?)"
                ))
            })
        };
        specs.map(constraint).collect()
    }

    /// Returns true if the device matches the selectors of the class and the request, and the node can reach it.
    fn is_selectable(
        &self,
        claim: &Custom<ResourceClaim>,
        plan: &Plan<'_>,
        at: Position,
    ) -> Result<bool, AllocationError> {
        let (slice, device) = (self.slice(at), self.device(at));
        let waits = device.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty());
        if waits && !self.gates.binding_conditions {
            return Ok(false);
        }
        let of_class = self.matches(slice, at.device, &plan.class.selectors);
        let of_class = of_class.map_err(|(selector, error)| {
            let class = &plan.class.metadata.name;
            AllocationError::Fatal(format!("class {class}: selector #{selector}: {error}"))
        });
        if !of_class? {
            return Ok(false);
        }
        let of_request = self.matches(slice, at.device, &plan.demand.selectors);
        let of_request = of_request.map_err(|(selector, error)| {
            let claim = full_name(claim);
            AllocationError::Fatal(format!("claim {claim}: selector #{selector}: {error}"))
        });
        if !of_request? {
            return Ok(false);
        }
        match slice.spec.nodes.per_device {
            Some(true) => slice.device_matches(at.device, self.node).map_err(AllocationError::Fatal),
            _ => Ok(true),
        }
    }

    /// Returns true if the device matches all selectors. An error comes with the index of the selector.
    fn matches(
        &self,
        slice: &Slice,
        device: usize,
        selectors: &[DeviceSelector],
    ) -> Result<bool, (usize, SelectorError)> {
        for (at, selector) in selectors.iter().enumerate() {
            let Some(cel) = &selector.cel else { continue };
            if !self
                .selectors
                .matches(&cel.expression, self.gates, slice, device)
                .map_err(|error| (at, error))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the device has the capacity that the request asks for. `taken` returns the amounts that this
    /// search has already taken.
    fn has_capacity(&self, plan: &Plan<'_>, at: Position, taken: impl Fn(&str) -> i128) -> bool {
        if !self.gates.consumable_capacity {
            return true;
        }
        let device = self.device(at);
        let in_use = self.in_use.consumed(&self.pools[at.pool].key, &device.name);
        capacity::suffices(device, plan.demand.capacity.as_ref(), |name| {
            let in_use = in_use.and_then(|in_use| in_use.get(name)).copied().unwrap_or_default();
            in_use.saturating_add(taken(name))
        })
    }
}

impl<'a, U: InUse> Search<'a, '_, U> {
    /// Finds devices for everything from `at` on.
    ///
    /// `in_alternative` is true if the alternative of the request is chosen already. `start` is the position of the
    /// first device to consider.
    fn step(&mut self, at: Place, in_alternative: bool, start: Position) -> Result<Step, AllocationError> {
        let Some(requests) = self.plans.get(at.claim) else { return Ok(Step::Found) };
        let Some(request) = requests.get(at.request) else {
            let next = Place { claim: at.claim + 1, ..Place::default() };
            return Ok(match self.step(next, false, START)? {
                // Another choice for an earlier claim may leave fewer devices to allocate here.
                Step::TooMany => Step::NotFound,
                step => step,
            });
        };
        if request.has_alternatives && !in_alternative {
            return self.try_alternatives(at, request.alternatives.len());
        }
        let Some(plan) = request.alternatives.get(at.alternative) else { return Ok(Step::NotFound) };
        if plan.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Step::NotFound);
        }
        if at.device >= plan.count {
            let next = Place { claim: at.claim, request: at.request + 1, ..Place::default() };
            return self.step(next, false, START);
        }
        if self.solution.devices[at.claim].len() + plan.count - at.device > MAX_RESULTS {
            return Ok(Step::TooMany);
        }
        match &plan.all {
            Some(all) => {
                let device = all[at.device];
                if !self.take(at, plan, device, true)? {
                    return Ok(Step::NotFound);
                }
                self.go_on(at, plan, in_alternative, device, START)
            }
            None => self.try_devices(at, plan, in_alternative, start),
        }
    }

    fn try_alternatives(&mut self, at: Place, alternatives: usize) -> Result<Step, AllocationError> {
        let mut end = Step::TooMany;
        for alternative in 0..alternatives {
            match self.step(Place { alternative, ..at }, true, START)? {
                Step::Found => {
                    self.solution.alternatives[at.claim][at.request] = alternative;
                    return Ok(Step::Found);
                }
                Step::NotFound => end = Step::NotFound,
                Step::TooMany => {}
            }
        }
        Ok(end)
    }

    /// Tries all devices from `start` on as the next device of a request.
    fn try_devices(
        &mut self,
        at: Place,
        plan: &Plan<'a>,
        in_alternative: bool,
        start: Position,
    ) -> Result<Step, AllocationError> {
        let claim = self.task.claims[at.claim];
        let is_admin = plan.demand.admin_access == Some(true);
        for pool in start.pool..self.task.pools.len() {
            if self.task.pools[pool].state != PoolState::Usable {
                continue;
            }
            let mut position = if pool == start.pool { start } else { Position { pool, ..START } };
            while let Some(device) = self.task.device_at(&mut position) {
                position.device += 1;
                self.count_step()?;
                let is_free = match is_admin {
                    true => !self.is_taken_by(device, at.claim),
                    false => !self.is_in_use(device),
                };
                if !is_free
                    || !self.task.is_selectable(claim, plan, device)?
                    || !self.has_capacity(plan, device)
                    || !self.take(at, plan, device, false)?
                {
                    continue;
                }
                let next = Position { device: device.device + 1, ..device };
                match self.go_on(at, plan, in_alternative, device, next)? {
                    Step::NotFound => {}
                    end => return Ok(end),
                }
            }
        }
        Ok(Step::NotFound)
    }

    /// Goes on to the next device of the request, after one was taken. Gives the device back if that fails.
    fn go_on(
        &mut self,
        at: Place,
        plan: &Plan<'a>,
        in_alternative: bool,
        device: Position,
        start: Position,
    ) -> Result<Step, AllocationError> {
        let end = self.step(Place { device: at.device + 1, ..at }, in_alternative, start)?;
        if end != Step::Found {
            self.give_back(at, plan, device);
        }
        Ok(end)
    }

    fn count_step(&mut self) -> Result<(), AllocationError> {
        self.steps += 1;
        if self.steps > self.task.max_steps { Err(AllocationError::TimedOut) } else { Ok(()) }
    }

    fn is_taken_by(&self, device: Position, claim: usize) -> bool {
        self.taken.contains(&(device, claim))
    }

    fn is_in_use(&self, at: Position) -> bool {
        let device = self.task.device(at);
        self.task.in_use.is_allocated(&self.task.pools[at.pool].key, &device.name)
            || self.taken.iter().any(|(taken, _)| *taken == at)
    }

    fn has_capacity(&self, plan: &Plan<'_>, device: Position) -> bool {
        self.task.has_capacity(plan, device, |name| {
            let shares = self.shared.iter().filter(|(shared, _)| *shared == device);
            shares.filter_map(|(_, amounts)| amounts.get(name)).sum()
        })
    }

    /// Takes a device for a claim if it is available. The device is selectable. If it must be taken, a constraint that
    /// forbids this is an error.
    fn take(
        &mut self,
        at: Place,
        plan: &Plan<'a>,
        position: Position,
        must: bool,
    ) -> Result<bool, AllocationError> {
        let gates = self.task.gates;
        let device = self.task.device(position);
        let is_shared = gates.consumable_capacity && device.allow_multiple_allocations;
        let is_admin = plan.demand.admin_access == Some(true);
        if is_admin && !is_shared && self.is_taken_by(position, at.claim) {
            return Ok(false);
        }
        if !is_admin && self.is_in_use(position) {
            return Ok(false);
        }
        let consumes = !device.consumes_counters.is_empty();
        if consumes && !gates.partitionable_devices {
            return Ok(false);
        }
        let pool = &self.task.pools[position.pool];
        let counts = consumes && !(is_shared && self.is_partly_in_use(position));
        if counts && !self.counters.take(self.task, pool, device) {
            return Ok(false);
        }
        if gates.device_taints && !device.taints.iter().all(|taint| taint.allows(&plan.demand.tolerations)) {
            self.reject(pool, device, counts);
            return Ok(false);
        }
        if !self.satisfies_constraints(at.claim, plan.name, &pool.key, device) {
            if must {
                let claim = full_name(self.task.claims[at.claim]);
                let request = plan.name.alternative.unwrap_or(plan.name.request);
                return AllocationError::fatal(format!(
                    "claim {claim}, request {request}: cannot add device {}/{} because a claim constraint would \
                     not be satisfied",
                    pool.key, device.name
                ));
            }
            self.reject(pool, device, counts);
            return Ok(false);
        }
        // Two requests for all devices may share a device that has too little capacity for both. As in
        // kube-scheduler, the constraints then remember the device.
        if is_shared && !self.has_capacity(plan, position) {
            self.reject(pool, device, counts);
            return Ok(false);
        }
        match is_shared {
            true => {
                let amounts = capacity::amounts(device, plan.demand.capacity.as_ref());
                let amounts = amounts.into_iter().map(|(name, amount)| (name, amount.nanos()));
                self.shared.push((position, amounts.collect()));
            }
            false => self.taken.push((position, at.claim)),
        }
        self.solution.devices[at.claim].push(Chosen {
            at: position,
            request: at.request,
            alternative: at.alternative,
            is_shared,
        });
        Ok(true)
    }

    /// Gives the counters of a rejected device back, where the rules say so.
    fn reject(&mut self, pool: &NodePool, device: &'a Device, counts: bool) {
        if counts && !self.task.rules.rejected_devices_keep_counters {
            self.counters.give_back(self.task.rules, &pool.key, device);
        }
    }

    fn is_partly_in_use(&self, at: Position) -> bool {
        let device = self.task.device(at);
        self.task.in_use.consumed(&self.task.pools[at.pool].key, &device.name).is_some()
            || self.shared.iter().any(|(shared, _)| *shared == at)
    }

    /// Adds the device to all constraints, or to none.
    fn satisfies_constraints(
        &mut self,
        claim: usize,
        name: RequestName<'a>,
        pool: &PoolKey,
        device: &'a Device,
    ) -> bool {
        let constraints = &mut self.constraints[claim];
        let refusing = constraints.iter_mut().position(|it| !it.add(name, &pool.driver, device));
        if let Some(refusing) = refusing {
            constraints[..refusing].iter_mut().for_each(|constraint| constraint.remove(name));
        }
        refusing.is_none()
    }

    fn give_back(&mut self, at: Place, plan: &Plan<'a>, position: Position) {
        self.constraints[at.claim].iter_mut().for_each(|constraint| constraint.remove(plan.name));
        let Some(Chosen { is_shared, .. }) = self.solution.devices[at.claim].pop() else { return };
        if is_shared {
            // The latest share is the one to give back; the counters of a shared device stay taken, as upstream.
            let share = self.shared.iter().rposition(|(shared, _)| *shared == position);
            share.map(|at| self.shared.remove(at));
            if !self.task.rules.rejected_devices_keep_counters && !self.is_partly_in_use(position) {
                let device = self.task.device(position);
                self.counters.give_back(self.task.rules, &self.task.pools[position.pool].key, device);
            }
            return;
        }
        self.taken.retain(|taken| *taken != (position, at.claim));
        let device = self.task.device(position);
        if self.task.gates.partitionable_devices && !device.consumes_counters.is_empty() {
            self.counters.give_back(self.task.rules, &self.task.pools[position.pool].key, device);
        }
    }
}

/// Amounts by counter set and counter, in units of 10⁻⁹.
type Amounts<'a> = BTreeMap<(&'a str, &'a str), i128>;

/// Counters of partitionable devices (KEP-4815).
#[derive(Debug, Default)]
struct Counters<'a> {
    /// Amounts that are free, by pool. Computed when a device of the pool is first considered.
    free: FxHashMap<PoolKey, Amounts<'a>>,
    /// Amounts that this search has taken, by pool.
    taken: FxHashMap<PoolKey, Amounts<'a>>,
}

impl<'a> Counters<'a> {
    /// Takes the counters that a device consumes, or returns false if there are not enough.
    fn take<U: InUse>(&mut self, task: &Allocator<'a, U>, pool: &'a NodePool, device: &'a Device) -> bool {
        let key = key(task.rules, &pool.key);
        if !self.free.contains_key(&key) {
            self.free.insert(key.clone(), free(task, pool));
        }
        let taken = self.taken.entry(key.clone()).or_default();
        for (counter, amount) in consumed(device) {
            *taken.entry(counter).or_default() += amount;
        }
        let free = &self.free[&key];
        let suffices =
            free.iter().all(|(counter, free)| *free >= taken.get(counter).copied().unwrap_or_default());
        if !suffices {
            self.give_back(task.rules, &pool.key, device);
        }
        suffices
    }

    fn give_back(&mut self, rules: AllocatorRules, pool: &PoolKey, device: &'a Device) {
        let taken = self.taken.entry(key(rules, pool)).or_default();
        for (counter, amount) in consumed(device) {
            *taken.entry(counter).or_default() -= amount;
        }
    }
}

/// Returns the key under which the counters of a pool are found.
fn key(rules: AllocatorRules, pool: &PoolKey) -> PoolKey {
    match rules.counters_by_pool_name {
        true => PoolKey { driver: Str::default(), pool: pool.pool.clone() },
        false => pool.clone(),
    }
}

/// Returns the counters of a pool without those that allocated devices consume. The amounts may be negative.
fn free<'a, U: InUse>(task: &Allocator<'a, U>, pool: &'a NodePool) -> Amounts<'a> {
    let mut free = Amounts::new();
    for set in pool.counters.values() {
        let counters = set.counters.iter();
        free.extend(counters.map(|(name, counter)| ((&*set.name, &**name), counter.value.nanos())));
    }
    let devices = pool.slices.iter().chain(&pool.elsewhere).flat_map(|slice| &slice.spec.devices);
    for device in devices.filter(|device| !device.consumes_counters.is_empty()) {
        if task.in_use.is_allocated(&pool.key, &device.name) {
            for (counter, amount) in consumed(device) {
                free.entry(counter).and_modify(|free| *free -= amount);
            }
        }
    }
    free
}

fn consumed(device: &Device) -> impl Iterator<Item = ((&str, &str), i128)> {
    device.consumes_counters.iter().flat_map(|set| {
        let counters = set.counters.iter();
        counters.map(|(name, counter)| ((&*set.counter_set, &**name), counter.value.nanos()))
    })
}

/// Returns the name of a claim as error messages print it.
pub(super) fn full_name(claim: &Custom<ResourceClaim>) -> String {
    let Metadata { namespace, name, .. } = &claim.metadata;
    format!("{namespace}/{name}")
}
