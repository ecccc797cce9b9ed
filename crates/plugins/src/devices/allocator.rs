//! The search for devices: which devices of a node satisfy all claims of a pod.
//!
//! The search tries claims in order, the requests of a claim in order, the alternatives of a request in order, and
//! devices in the order of pools, slices and devices. Within a request it tries combinations, not permutations. The
//! first solution counts, so drivers can influence the choice by the names of pools, slices and devices.
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
    /// A claim, class or slice has an error that also concerns other nodes.
    #[error("{0}")]
    Fatal(String),
}

impl AllocationError {
    pub(super) fn fatal<T>(text: String) -> Result<T, Self> {
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
    pub(super) rules: AllocatorRules,
    /// Maximum number of steps: devices to examine, and decisions.
    pub(super) max_steps: u64,
}

impl<'a> Allocator<'a> {
    /// Searches devices for all claims.
    pub(super) fn run(&self) -> Result<Solution, AllocationError> {
        let plans = self.claims.iter().map(|claim| self.plan(claim)).collect::<Result<Vec<_>, _>>()?;
        let mut search = Search::new(self, &plans);
        match search.run()? {
            Step::Found => Ok(search.into_solution()),
            // Too many devices for the first request of the first claim, whatever is chosen. kube-scheduler reports
            // this error itself.
            Step::TooMany => AllocationError::fatal("allocation max size exceeded".to_owned()),
            Step::NotFound if self.pools.iter().any(|pool| pool.state == PoolState::Invalid) => {
                Err(AllocationError::InvalidPools)
            }
            Step::NotFound => Err(AllocationError::NoSolution),
        }
    }

    /// Returns the position of the next device in the pool of `position`, which moves there.
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

    /// Returns how other claims use the device.
    pub(super) fn usage(&self, at: Position) -> Option<&'a DeviceUsage> {
        self.usage[at.pool]?.get(&self.device(at).name)
    }

    /// Returns true if the device matches the selectors of the class and the request, and the node can reach it.
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
            AllocationError::Fatal(format!("class {class}: selector #{selector}: {error}"))
        });
        if !of_class? {
            return Ok(false);
        }
        let of_request = matches(&plan.selectors, slice, at.device);
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

    /// Returns true if the device has the capacity that the request asks for. `taken` are the amounts that this search
    /// has already taken.
    pub(super) fn has_capacity(
        &self,
        plan: &Plan<'_>,
        at: Position,
        taken: Option<&capacity::Consumed>,
    ) -> bool {
        if !self.gates.consumable_capacity {
            return true;
        }
        let in_use = self.usage(at).and_then(|usage| usage.consumed(self.gates));
        let amount = |amounts: Option<&capacity::Consumed>, name: &str| {
            amounts.and_then(|amounts| amounts.get(name)).copied().unwrap_or_default()
        };
        let requested = plan.demand.capacity.as_ref();
        capacity::suffices(self.device(at), requested, |name| {
            amount(in_use, name).saturating_add(amount(taken, name))
        })
    }
}

/// Returns true if a device of the slice matches all selectors. An error comes with the index of the selector.
fn matches(
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
