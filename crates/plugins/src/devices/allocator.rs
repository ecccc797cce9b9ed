//! The search for devices: which devices of a node satisfy all claims of a pod.
//!
//! The search tries claims in order, the requests of a claim in order, the alternatives of a request in order, and
//! devices in the order of pools, slices and devices. Within a request it tries combinations, not permutations. The
//! first solution counts, so drivers can influence the choice through the names of pools and slices, and through the
//! order of the devices in a slice.
//!
//! Reading order: [`Allocator::run`], `plan` (what each request asks for), `search`.
//!
//! Invariants: the same inputs give the same devices; a device is never taken twice, except with admin access or if it
//! can be shared.

use std::sync::Arc;

use harbormaster_framework::{
    prelude::Watched,
    resource::{Custom, Metadata},
};
use thiserror::Error;

use super::{
    DeviceClass, DeviceGates, ResourceClaim, capacity,
    plan::Plan,
    pools::{NodeFacts, NodePool, PoolState, Slice},
    search::{Search, Solution, Step},
    selectors::{Expression, SelectorError, Selectors},
    slice::Device,
    usage::{DeviceUsage, PoolUsage},
};

/// Failure to find devices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AllocationError {
    /// The node has no suitable set of free devices.
    #[error("cannot allocate all claims")]
    NoSolution,
    /// The node has no suitable set of free devices, and the slices of some of its pools contradict each other.
    #[error("invalid resource pools were encountered")]
    InvalidPools,
    /// The search took too many steps.
    #[error("timed out trying to allocate devices")]
    TimedOut,
    /// An error that fails the whole attempt, such as a selector that cannot be evaluated.
    #[error("{0}")]
    Fatal(String),
}

impl AllocationError {
    pub(super) fn fatal<T>(text: String) -> Result<T, Self> {
        Err(Self::Fatal(text))
    }
}

/// Position of a device: the pool, the slice in the pool, and the device in the slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position {
    pub(super) pool: usize,
    pub(super) slice: usize,
    pub(super) device: usize,
}

/// A search for devices. See the [module documentation](self).
pub(super) struct Allocator<'a> {
    pub(super) node: NodeFacts<'a>,
    pub(super) pools: &'a [Arc<NodePool>],
    /// Devices in use, by pool.
    pub(super) usage: Vec<Option<&'a PoolUsage>>,
    pub(super) claims: &'a [&'a Custom<ResourceClaim>],
    pub(super) classes: Watched<'a, DeviceClass>,
    pub(super) selectors: &'a Selectors,
    pub(super) gates: DeviceGates,
    /// Maximum number of steps. A step examines a device or makes a decision.
    pub(super) max_steps: u64,
}

impl<'a> Allocator<'a> {
    /// Searches for devices for all claims.
    pub(super) fn run(&self) -> Result<Solution, AllocationError> {
        let plans = self.claims.iter().map(|claim| self.plan(claim)).collect::<Result<Vec<_>, _>>()?;
        let mut search = Search::new(self, &plans);
        match search.run()? {
            Step::Found => Ok(search.into_solution()),
            // Every combination of alternatives gives the first claim too many devices. kube-scheduler's allocator also
            // reports this as an error.
            Step::TooMany => AllocationError::fatal("allocation max size exceeded".to_owned()),
            Step::NotFound if self.pools.iter().any(|pool| pool.state == PoolState::Invalid) => {
                Err(AllocationError::InvalidPools)
            }
            Step::NotFound => Err(AllocationError::NoSolution),
        }
    }

    /// Returns the position of the first device at or after `position` in its pool, and moves `position` there.
    pub(super) fn device_at(&self, position: &mut Position) -> Option<Position> {
        let pool = &self.pools[position.pool];
        while let Some(slice) = pool.slices.get(position.slice) {
            if position.device < slice.spec.devices.len() {
                return Some(*position);
            }
            (position.slice, position.device) = (position.slice + 1, 0);
        }
        None
    }

    pub(super) fn slice(&self, at: Position) -> &'a Slice {
        &self.pools[at.pool].slices[at.slice]
    }

    pub(super) fn device(&self, at: Position) -> &'a Device {
        &self.slice(at).spec.devices[at.device]
    }

    /// Returns the use of the device by allocated claims; `None` if there is none.
    pub(super) fn usage(&self, at: Position) -> Option<&'a DeviceUsage> {
        self.usage[at.pool]?.get(&self.device(at).name)
    }

    /// Returns true if the device matches the selectors of the class and the request, the node can reach it, and the
    /// scheduler supports its binding conditions.
    pub(super) fn is_selectable(
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
        let of_class = matches(&plan.class_selectors, slice, at.device);
        let of_class = of_class.map_err(|(selector, error)| {
            let class = &plan.class.metadata.name;
            self.selector_error(&format!("class {class}"), selector, at, &error)
        });
        if !of_class? {
            return Ok(false);
        }
        let of_request = matches(&plan.selectors, slice, at.device);
        let of_request = of_request.map_err(|(selector, error)| {
            self.selector_error(&format!("claim {}", full_name(claim)), selector, at, &error)
        });
        if !of_request? {
            return Ok(false);
        }
        match slice.spec.nodes.per_device {
            Some(true) => slice.device_matches(at.device, self.node).map_err(AllocationError::Fatal),
            _ => Ok(true),
        }
    }

    /// Returns the error of a selector of the claim or class that `of` names.
    fn selector_error(
        &self,
        of: &str,
        selector: usize,
        at: Position,
        error: &SelectorError,
    ) -> AllocationError {
        AllocationError::Fatal(match error {
            SelectorError::Runtime(why) if self.gates.rules.detailed_errors => {
                let (device, why) = (self.full_device_name(at), why.to_string());
                let hint = if why.contains("no such key:") { HINT } else { "" };
                format!("{of}: selector #{selector} on device {device}: CEL runtime error: {why}{hint}")
            }
            error => format!("{of}: selector #{selector}: {error}"),
        })
    }

    /// Returns the name of a device as error messages print it.
    pub(super) fn full_device_name(&self, at: Position) -> String {
        format!("{}/{}", self.pools[at.pool].key, self.device(at).name)
    }

    /// Returns true if the device has the capacity that the request asks for, or if the gate `DRAConsumableCapacity` is
    /// off. `taken` contains the amounts that this search has already taken.
    pub(super) fn has_free_capacity(
        &self,
        claim: &Custom<ResourceClaim>,
        plan: &Plan<'_>,
        at: Position,
        taken: Option<&capacity::Consumed>,
    ) -> Result<bool, AllocationError> {
        let in_use = self.usage(at).and_then(|usage| usage.consumed(self.gates));
        let amount = |amounts: Option<&capacity::Consumed>, name: &str| {
            amounts.and_then(|amounts| amounts.get(name)).copied().unwrap_or_default()
        };
        let consumed = |name: &str| amount(in_use, name).saturating_add(amount(taken, name));
        self.has_capacity(claim, plan, at, consumed, || self.full_device_name(at))
    }

    /// Like [`Self::has_free_capacity`], but for a request for all devices. Unless the rules say otherwise, capacity in
    /// use counts as free: a device that has too little left then fails the request.
    pub(super) fn may_have_capacity(
        &self,
        claim: &Custom<ResourceClaim>,
        plan: &Plan<'_>,
        at: Position,
    ) -> Result<bool, AllocationError> {
        match self.gates.rules.all_with_free_capacity {
            true => self.has_free_capacity(claim, plan, at, None),
            false => self.has_capacity(claim, plan, at, |_| 0, || self.device(at).name.to_string()),
        }
    }

    fn has_capacity(
        &self,
        claim: &Custom<ResourceClaim>,
        plan: &Plan<'_>,
        at: Position,
        consumed: impl Fn(&str) -> i128,
        device_name: impl Fn() -> String,
    ) -> Result<bool, AllocationError> {
        if !self.gates.consumable_capacity {
            return Ok(true);
        }
        let requested = plan.demand.capacity.as_ref();
        capacity::suffices(self.device(at), requested, self.gates.rules, consumed).map_err(|why| {
            let (claim, request, device) = (full_name(claim), plan.name.own(), device_name());
            AllocationError::Fatal(format!(
                "claim {claim}, request {request}: checking capacity for device {device}: {why}"
            ))
        })
    }
}

/// Advice after the error for an attribute or capacity that a device lacks.
const HINT: &str = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() \
                    for optional fields";

/// Returns true if the device with this index in the slice matches all selectors. An error comes with the index of the
/// selector.
pub(super) fn matches(
    selectors: &[Arc<Expression>],
    slice: &Slice,
    device: usize,
) -> Result<bool, (usize, SelectorError)> {
    for (at, selector) in selectors.iter().enumerate() {
        if !selector.matches(slice, device).map_err(|error| (at, error))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the name of a claim as error messages print it.
pub(super) fn full_name(claim: &Custom<ResourceClaim>) -> String {
    let Metadata { namespace, name, .. } = &claim.metadata;
    format!("{namespace}/{name}")
}
