//! The search itself: decisions about devices and alternatives, which are reverted when they lead nowhere.
//!
//! Decisions are kept in a list rather than on the call stack, because a pod can have any number of claims.

use harbormaster_framework::resource::Custom;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    ResourceClaim,
    allocator::{AllocationError, Allocator, Position, full_name},
    capacity::{self, Consumed, nanos},
    claim::MAX_RESULTS,
    constraint::{Constraint, RequestName},
    counters::Counters,
    plan::{ClaimPlan, Plan},
    pools::{PoolKey, PoolState},
    slice::Device,
};

/// Devices for all claims of a pod.
#[derive(Debug)]
pub(super) struct Solution {
    /// Devices by claim.
    pub(super) devices: Vec<Vec<Chosen>>,
    /// Index of the alternative that was chosen, by claim and request.
    pub(super) alternatives: Vec<Vec<usize>>,
}

/// A device that was chosen for a claim.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) at: Position,
    /// Index of the request in the claim.
    pub(super) request: usize,
    /// Index of the alternative in the request.
    pub(super) alternative: usize,
    /// True if the claim gets only a share of the device.
    pub(super) is_shared: bool,
    /// True if the device has taken counters.
    counts: bool,
}

/// Point that the search has reached.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    claim: usize,
    request: usize,
    alternative: usize,
    /// True if the alternative is chosen already.
    is_chosen: bool,
    /// Number of devices taken for the request so far.
    device: usize,
}

/// Result of the search from a certain place onwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Found,
    NotFound,
    /// Every choice leads to more devices than a claim can have.
    TooMany,
}

/// Next step of the search.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Find devices for everything from this place on, beginning with the device at the position.
    Enter(Place, Position),
    /// Go back to the latest decision.
    Leave(Step),
}

/// A decision that can be revised.
#[derive(Clone, Copy, Debug)]
enum Decision {
    /// All requests of a claim have devices.
    Claim,
    /// An alternative of a request is tried. `end` is the combined result of the alternatives before it.
    Alternative { at: Place, end: Step },
    /// A device was taken. `others` is true if the request can get other devices instead.
    Device { at: Place, device: Position, others: bool },
}

/// State of a search.
pub(super) struct Search<'a, 's> {
    task: &'s Allocator<'a>,
    plans: &'s [ClaimPlan<'a>],
    decisions: Vec<Decision>,
    constraints: Vec<Vec<Constraint<'a>>>,
    solution: Solution,
    taken: Taken,
    /// Devices of which this search has taken shares.
    shared: FxHashMap<Position, Shares>,
    counters: Counters<'a>,
    steps: u64,
}

/// Shares of a device that a search has taken.
#[derive(Debug, Default)]
struct Shares {
    number: usize,
    /// Amounts of all shares.
    amounts: Consumed,
}

/// Devices that were taken and cannot be shared.
#[derive(Debug, Default)]
struct Taken {
    /// Each device with the index of the claim.
    by_claim: FxHashSet<(Position, usize)>,
    /// Number of claims by device: more than one if some have admin access.
    claims: FxHashMap<Position, usize>,
}

impl Taken {
    fn insert(&mut self, device: Position, claim: usize) {
        if self.by_claim.insert((device, claim)) {
            *self.claims.entry(device).or_default() += 1;
        }
    }

    fn remove(&mut self, device: Position, claim: usize) {
        if self.by_claim.remove(&(device, claim)) {
            let claims = self.claims.entry(device).or_default();
            *claims = claims.saturating_sub(1);
        }
    }

    fn is_taken_by(&self, device: Position, claim: usize) -> bool {
        self.by_claim.contains(&(device, claim))
    }

    fn is_taken(&self, device: Position) -> bool {
        self.claims.get(&device).is_some_and(|claims| *claims > 0)
    }
}

impl<'a, 's> Search<'a, 's> {
    pub(super) fn new(task: &'s Allocator<'a>, plans: &'s [ClaimPlan<'a>]) -> Self {
        let alternatives = |claim: &ClaimPlan<'_>| vec![0; claim.requests.len()];
        Self {
            task,
            plans,
            decisions: Vec::new(),
            constraints: plans.iter().map(|claim| claim.constraints.clone()).collect(),
            solution: Solution {
                devices: vec![Vec::new(); plans.len()],
                alternatives: plans.iter().map(alternatives).collect(),
            },
            taken: Taken::default(),
            shared: FxHashMap::default(),
            counters: Counters::new(task.pools, task.gates.rules),
            steps: 0,
        }
    }

    pub(super) fn run(&mut self) -> Result<Step, AllocationError> {
        let mut next = Next::Enter(Place::default(), Position::default());
        loop {
            next = match next {
                Next::Enter(at, start) => self.enter(at, start)?,
                Next::Leave(step) => match self.decisions.pop() {
                    Some(decision) => self.revise(decision, step)?,
                    None => return Ok(step),
                },
            };
        }
    }

    pub(super) fn into_solution(self) -> Solution {
        self.solution
    }

    fn enter(&mut self, at: Place, start: Position) -> Result<Next, AllocationError> {
        self.count_step()?;
        let Some(claim) = self.plans.get(at.claim) else { return Ok(Next::Leave(Step::Found)) };
        let Some(request) = claim.requests.get(at.request) else {
            self.decisions.push(Decision::Claim);
            return Ok(begin(Place { claim: at.claim + 1, ..Place::default() }));
        };
        if request.has_alternatives && !at.is_chosen {
            return Ok(self.try_alternative(at, Step::TooMany));
        }
        let Some(plan) = request.alternatives.get(at.alternative) else {
            return Ok(Next::Leave(Step::NotFound));
        };
        if plan.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Next::Leave(Step::NotFound));
        }
        let missing = plan.count.saturating_sub(at.device);
        if missing == 0 {
            return Ok(begin(Place { claim: at.claim, request: at.request + 1, ..Place::default() }));
        }
        if missing > MAX_RESULTS.saturating_sub(self.solution.devices[at.claim].len()) {
            return Ok(Next::Leave(Step::TooMany));
        }
        match &plan.all {
            Some(all) => {
                let device = all[at.device];
                match self.take(at, plan, device, true)? {
                    true => Ok(self.go_on(at, device, false)),
                    false => Ok(Next::Leave(Step::NotFound)),
                }
            }
            None => self.try_devices(at, plan, start),
        }
    }

    /// Revises a decision after the search that followed it has ended with `step`.
    fn revise(&mut self, decision: Decision, step: Step) -> Result<Next, AllocationError> {
        let next = match (decision, step) {
            // As in kube-scheduler, too many devices for a later claim are not an error: the search tries other choices
            // for the earlier claims.
            (Decision::Claim, Step::TooMany) => Next::Leave(Step::NotFound),
            (Decision::Claim, step) => Next::Leave(step),
            (Decision::Alternative { at, .. }, Step::Found) => {
                self.solution.alternatives[at.claim][at.request] = at.alternative;
                Next::Leave(Step::Found)
            }
            (Decision::Alternative { at, end }, step) => {
                let end = if step == Step::NotFound { Step::NotFound } else { end };
                self.try_alternative(Place { alternative: at.alternative + 1, ..at }, end)
            }
            (Decision::Device { .. }, Step::Found) => Next::Leave(Step::Found),
            (Decision::Device { at, device, others }, step) => {
                let plan = &self.plans[at.claim].requests[at.request].alternatives[at.alternative];
                self.give_back(at, plan, device);
                match step {
                    Step::NotFound if others => {
                        return self.try_devices(at, plan, Position { device: device.device + 1, ..device });
                    }
                    step => Next::Leave(step),
                }
            }
        };
        Ok(next)
    }

    /// Tries the alternative of `at`, if it exists. `end` is the combined result of the alternatives before it.
    fn try_alternative(&mut self, at: Place, end: Step) -> Next {
        if at.alternative >= self.plans[at.claim].requests[at.request].alternatives.len() {
            return Next::Leave(end);
        }
        self.decisions.push(Decision::Alternative { at, end });
        begin(Place { is_chosen: true, ..at })
    }

    /// Tries the devices from `start` on as the next device of a request.
    fn try_devices(&mut self, at: Place, plan: &Plan<'a>, start: Position) -> Result<Next, AllocationError> {
        let claim = self.task.claims[at.claim];
        for pool in start.pool..self.task.pools.len() {
            if self.task.pools[pool].state != PoolState::Usable {
                continue;
            }
            let first = Position { pool, ..Position::default() };
            let mut position = if pool == start.pool { start } else { first };
            while let Some(device) = self.task.device_at(&mut position) {
                position.device += 1;
                self.count_step()?;
                let is_free = match plan.is_admin {
                    true => !self.taken.is_taken_by(device, at.claim),
                    false => !self.is_in_use(device),
                };
                if is_free
                    && self.task.is_selectable(claim, plan, device)?
                    && self.has_free_capacity(claim, plan, device)?
                    && self.take(at, plan, device, false)?
                {
                    return Ok(self.go_on(at, device, true));
                }
            }
        }
        Ok(Next::Leave(Step::NotFound))
    }

    /// Continues with the next device of the request after a device was taken.
    fn go_on(&mut self, at: Place, device: Position, others: bool) -> Next {
        self.decisions.push(Decision::Device { at, device, others });
        let start =
            if others { Position { device: device.device + 1, ..device } } else { Position::default() };
        Next::Enter(Place { device: at.device + 1, ..at }, start)
    }

    fn count_step(&mut self) -> Result<(), AllocationError> {
        self.steps += 1;
        if self.steps > self.task.max_steps { Err(AllocationError::TimedOut) } else { Ok(()) }
    }

    fn is_in_use(&self, at: Position) -> bool {
        let usage = self.task.usage(at);
        usage.is_some_and(|usage| usage.is_exhausted(self.task.device(at), self.task.gates))
            || self.taken.is_taken(at)
    }

    /// Returns true if the device is shared already.
    fn is_shared_already(&self, at: Position) -> bool {
        self.task.usage(at).is_some_and(|usage| usage.is_shared(self.task.gates))
            || self.shared.contains_key(&at)
    }

    fn has_free_capacity(
        &self,
        claim: &Custom<ResourceClaim>,
        plan: &Plan<'_>,
        at: Position,
    ) -> Result<bool, AllocationError> {
        self.task.has_free_capacity(claim, plan, at, self.shared.get(&at).map(|shares| &shares.amounts))
    }

    /// Takes a selectable device for a claim if it is available. If the request must get this device, a constraint
    /// that forbids the device is an error.
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
        let is_unavailable = match plan.is_admin {
            true => !is_shared && self.taken.is_taken_by(position, at.claim),
            false => self.is_in_use(position),
        };
        let consumes = !device.consumes_counters.is_empty();
        if is_unavailable || (consumes && !gates.partitionable_devices) {
            return Ok(false);
        }
        let counts = consumes && !(is_shared && self.is_shared_already(position));
        if counts && !self.counters.take(self.task, position.pool, device) {
            return Ok(false);
        }
        let leaves_traces = gates.rules.rejected_devices_leave_traces;
        let reject = |counters: &mut Counters<'a>| {
            if counts && !leaves_traces {
                counters.give_back(position.pool, device);
            }
            Ok(false)
        };
        let mut taints = self.task.slice(position).taints(position.device);
        if gates.device_taints && !taints.all(|taint| taint.allows(&plan.demand.tolerations)) {
            return reject(&mut self.counters);
        }
        let claim = self.task.claims[at.claim];
        let pool = &self.task.pools[position.pool].key;
        if !self.satisfies_constraints(at.claim, plan.name, pool, device) {
            if must {
                return forbidden(claim, plan.name, &self.task.full_device_name(position));
            }
            return reject(&mut self.counters);
        }
        // Two requests for all devices may want shares of a device that has too little capacity for both.
        if is_shared && !self.has_free_capacity(claim, plan, position)? {
            if !leaves_traces {
                self.remove_from_constraints(at.claim, plan.name);
            }
            return reject(&mut self.counters);
        }
        match is_shared {
            true => {
                let shares = self.shared.entry(position).or_default();
                shares.number += 1;
                for (name, amount) in capacity::amounts(device, plan.demand.capacity.as_ref(), gates.rules) {
                    *shares.amounts.entry(name).or_default() += nanos(&amount);
                }
            }
            false => self.taken.insert(position, at.claim),
        }
        let (request, alternative) = (at.request, at.alternative);
        let chosen = Chosen { at: position, request, alternative, is_shared, counts };
        self.solution.devices[at.claim].push(chosen);
        Ok(true)
    }

    /// Adds the device to all constraints, or returns false and adds it to none.
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

    fn remove_from_constraints(&mut self, claim: usize, name: RequestName<'a>) {
        self.constraints[claim].iter_mut().for_each(|constraint| constraint.remove(name));
    }

    fn give_back(&mut self, at: Place, plan: &Plan<'a>, position: Position) {
        self.remove_from_constraints(at.claim, plan.name);
        let Some(Chosen { is_shared, counts, .. }) = self.solution.devices[at.claim].pop() else { return };
        match is_shared {
            true => self.unshare(plan, position),
            false => self.taken.remove(position, at.claim),
        }
        if counts && !(is_shared && self.task.gates.rules.rejected_devices_leave_traces) {
            self.counters.give_back(position.pool, self.task.device(position));
        }
    }

    /// Gives back a share of a device. As in kube-scheduler, if the rules let devices leave traces, a device without
    /// capacities stays shared, and any other device stays shared until its amounts are zero.
    fn unshare(&mut self, plan: &Plan<'a>, position: Position) {
        let rules = self.task.gates.rules;
        let amounts = capacity::amounts(self.task.device(position), plan.demand.capacity.as_ref(), rules);
        let Some(shares) = self.shared.get_mut(&position) else { return };
        shares.number = shares.number.saturating_sub(1);
        for (name, amount) in &amounts {
            *shares.amounts.entry(name.clone()).or_default() -= nanos(amount);
        }
        let is_unused = match rules.rejected_devices_leave_traces {
            true => !amounts.is_empty() && shares.amounts.values().all(|amount| *amount == 0),
            false => shares.number == 0,
        };
        if is_unused {
            self.shared.remove(&position);
        }
    }
}

/// Enters a place, with all devices to choose from.
fn begin(at: Place) -> Next {
    Next::Enter(at, Position::default())
}

/// Returns the error for a device that a request must get but that a constraint forbids.
fn forbidden<T>(
    claim: &Custom<ResourceClaim>,
    name: RequestName<'_>,
    device: &str,
) -> Result<T, AllocationError> {
    let (claim, request) = (full_name(claim), name.own());
    AllocationError::fatal(format!(
        "claim {claim}, request {request}: cannot add device {device} because a claim constraint would not be satisfied"
    ))
}
