//! Claims in the form that the search needs.

use std::sync::Arc;

use harbormaster_framework::resource::Custom;

use super::{
    DeviceClass, ResourceClaim,
    allocator::{AllocationError, Allocator, Position, full_name},
    claim::{ALL, DeviceDemand, DeviceRequest, DeviceSelector, EXACT_COUNT, MAX_RESULTS},
    constraint::{Constraint, RequestName},
    pools::PoolState,
    selectors::Expression,
};

/// Devices that a claim asks for.
#[derive(Debug)]
pub(super) struct ClaimPlan<'a> {
    pub(super) requests: Vec<RequestPlan<'a>>,
    pub(super) constraints: Vec<Constraint<'a>>,
}

/// A request with its alternatives.
#[derive(Debug)]
pub(super) struct RequestPlan<'a> {
    pub(super) alternatives: Vec<Plan<'a>>,
    pub(super) has_alternatives: bool,
}

/// Devices that a request, or one of its alternatives, asks for.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) name: RequestName<'a>,
    pub(super) demand: &'a DeviceDemand,
    pub(super) is_admin: bool,
    pub(super) class: &'a Custom<DeviceClass>,
    /// Selectors of the class.
    pub(super) class_selectors: Vec<Arc<Expression>>,
    /// Selectors of the request.
    pub(super) selectors: Vec<Arc<Expression>>,
    /// Number of devices.
    pub(super) count: usize,
    /// The devices, if the request asks for all that match.
    pub(super) all: Option<Vec<Position>>,
}

impl<'a> Allocator<'a> {
    /// Prepares a claim for the search, and checks that the scheduler supports the claim.
    pub(super) fn plan(&self, claim: &'a Custom<ResourceClaim>) -> Result<ClaimPlan<'a>, AllocationError> {
        let mut least: usize = 0;
        let detailed = self.gates.rules.detailed_errors;
        let mut requests = Vec::with_capacity(claim.spec.devices.requests.len());
        for request in &claim.spec.devices.requests {
            let plan = self.plan_request(claim, request)?;
            let alternatives = plan.alternatives.iter().map(|plan| plan.count);
            let more = alternatives.min().unwrap_or_default();
            if detailed && more > MAX_RESULTS - least {
                let (claim, request) = (full_name(claim), &request.name);
                return AllocationError::fatal(format!(
                    "claim {claim}, request {request}: adding {more} devices exceeds the claim limit of \
                     {MAX_RESULTS}, with {least} already accounted for"
                ));
            }
            least = least.saturating_add(more);
            requests.push(plan);
        }
        if least > MAX_RESULTS {
            let claim = full_name(claim);
            return AllocationError::fatal(format!(
                "claim {claim}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            ));
        }
        Ok(ClaimPlan { requests, constraints: self.constraints(claim)? })
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
        if !self.gates.consumable_capacity && !self.gates.are_stable() {
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
            let own = name.own();
            format!("claim {}, request {own}", full_name(claim))
        };
        if self.gates.rules.knows_unsupported_fields && !demand.derived_attributes.is_empty() {
            let about = about();
            return AllocationError::fatal(format!(
                "{about}: cannot handle request with derived attributes, the feature is disabled"
            ));
        }
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
        let compiled = |selectors: &[DeviceSelector]| {
            let expressions = selectors.iter().filter_map(|selector| selector.cel.as_ref());
            expressions.map(|cel| self.selectors.compiled(&cel.expression, self.gates)).collect()
        };
        let mut plan = Plan {
            name,
            demand,
            is_admin: demand.admin_access == Some(true),
            class,
            class_selectors: compiled(&class.selectors),
            selectors: compiled(&demand.selectors),
            count: 0,
            all: None,
        };
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

    /// Returns all devices that match a request and have the capacity for it.
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
            let mut position = Position { pool: at, ..Position::default() };
            while let Some(found) = self.device_at(&mut position) {
                if self.is_selectable(claim, plan, found)? && self.may_have_capacity(claim, plan, found)? {
                    all.push(found);
                }
                position.device += 1;
            }
        }
        Ok(all)
    }

    fn constraints(&self, claim: &'a Custom<ResourceClaim>) -> Result<Vec<Constraint<'a>>, AllocationError> {
        let specs = claim.spec.devices.constraints.iter().enumerate();
        let constraint = |(at, spec)| {
            let known = Constraint::new(spec, self.gates);
            let known = known.filter(|known| !known.is_distinct() || !self.gates.are_stable());
            known.ok_or_else(|| {
                let claim = full_name(claim);
                AllocationError::Fatal(format!(
                    "claim {claim}, constraint #{at}: empty constraint (unsupported constraint type?)"
                ))
            })
        };
        specs.map(constraint).collect()
    }
}
