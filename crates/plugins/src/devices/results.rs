//! Allocations: what the API server records about the devices that were chosen.

use harbormaster_api::{
    Str,
    selector::{NodeSelector, NodeSelectorTerm, Operator, Requirement},
};
use harbormaster_framework::resource::{Custom, Metadata};

use super::{
    ResourceClaim,
    allocator::{AllocationError, Allocator},
    capacity,
    claim::{
        Allocation, AllocationConfiguration, DeviceAllocation, DeviceDemand, DeviceRequest, DeviceResult,
    },
    constraint::{RequestName, result_name},
    search::{Chosen, Solution},
};

const NODE_NAME_FIELD: &str = "metadata.name";

impl Allocator<'_> {
    /// Returns the allocations of all claims.
    pub(super) fn allocations(&self, solution: &Solution) -> Result<Vec<Allocation>, AllocationError> {
        let claims = self.claims.iter().zip(&solution.devices).zip(&solution.alternatives);
        claims.map(|((claim, devices), alternatives)| self.allocation(claim, devices, alternatives)).collect()
    }

    /// Checks that [`Self::allocations`] would not fail.
    pub(super) fn check_nodes(&self, solution: &Solution) -> Result<(), AllocationError> {
        let is_simple = |chosen: &Chosen| {
            let selectors =
                [&self.slice(chosen.at).spec.nodes.node_selector, &self.device(chosen.at).node_selector];
            selectors.into_iter().flatten().all(|selector| selector.terms.len() <= 1)
        };
        if solution.devices.iter().flatten().all(is_simple) {
            return Ok(());
        }
        let mut claims = self.claims.iter().zip(&solution.devices);
        claims.try_for_each(|(claim, devices)| self.node_selector(claim, devices).map(drop))
    }

    fn allocation(
        &self,
        claim: &Custom<ResourceClaim>,
        devices: &[Chosen],
        alternatives: &[usize],
    ) -> Result<Allocation, AllocationError> {
        let results = devices.iter().enumerate().map(|(at, chosen)| self.result(claim, at, chosen));
        let node_selector = self.node_selector(claim, devices)?;
        let devices =
            DeviceAllocation { results: results.collect(), config: self.configuration(claim, alternatives) };
        Ok(Allocation { devices, node_selector, allocation_timestamp: None })
    }

    fn result(&self, claim: &Custom<ResourceClaim>, at: usize, chosen: &Chosen) -> DeviceResult {
        let (slice, device) = (self.slice(chosen.at), self.device(chosen.at));
        let request = &claim.spec.devices.requests[chosen.request];
        let (name, demand) = demand_of(request, chosen.alternative);
        let capacity = demand.and_then(|demand| demand.capacity.as_ref());
        let conditions = |conditions: &[Str]| match self.gates.binding_conditions {
            true => conditions.to_vec(),
            false => Vec::new(),
        };
        DeviceResult {
            request: result_name(name),
            driver: slice.spec.driver.clone(),
            pool: slice.spec.pool.name.clone(),
            device: device.name.clone(),
            admin_access: demand.and_then(|demand| demand.admin_access).filter(|is_admin| *is_admin),
            tolerations: demand.map(|demand| demand.tolerations.clone()).unwrap_or_default(),
            binding_conditions: conditions(device.binding_conditions.as_deref().unwrap_or_default()),
            binding_failure_conditions: conditions(&device.binding_failure_conditions),
            share_id: chosen.is_shared.then(|| share_id(&claim.metadata, at, &device.name)),
            consumed_capacity: match chosen.is_shared {
                true => capacity::amounts(device, capacity, self.gates.rules),
                false => Default::default(),
            },
            skip_node_operations: Vec::new(),
        }
    }

    /// Returns the configuration of the classes, each class once, and then that of the claim.
    fn configuration(
        &self,
        claim: &Custom<ResourceClaim>,
        alternatives: &[usize],
    ) -> Vec<AllocationConfiguration> {
        let requests = &claim.spec.devices.requests;
        let chosen = || requests.iter().zip(alternatives).map(|(request, at)| demand_of(request, *at));
        let mut all: Vec<AllocationConfiguration> = Vec::new();
        // Each class with its range in `all`.
        let mut classes: Vec<(&Str, std::ops::Range<usize>)> = Vec::new();
        for (name, demand) in chosen() {
            let Some(class) = demand.map(|demand| &demand.device_class_name) else { continue };
            if let Some((_, range)) = classes.iter().find(|(known, _)| *known == class) {
                for known in &mut all[range.clone()] {
                    known.requests.push(result_name(name));
                }
                continue;
            }
            let begin = all.len();
            let config = self.classes.get("", class).into_iter().flat_map(|class| &class.config);
            all.extend(config.map(|configuration| AllocationConfiguration {
                source: "FromClass".into(),
                requests: vec![result_name(name)],
                configuration: configuration.clone(),
            }));
            classes.push((class, begin..all.len()));
        }
        for config in &claim.spec.devices.config {
            let of_claim = || AllocationConfiguration {
                source: "FromClaim".into(),
                requests: config.requests.clone(),
                configuration: config.configuration.clone(),
            };
            if config.requests.is_empty() {
                all.push(of_claim());
                continue;
            }
            let named = chosen().filter(|(name, _)| is_named(*name, &config.requests)).count();
            let copies = if self.gates.rules.repeats_configuration { named } else { named.min(1) };
            all.extend((0..copies).map(|_| of_claim()));
        }
        if !self.gates.rules.repeats_configuration {
            // Configuration without requests applies to all of them.
            for config in &mut all {
                if chosen().all(|(name, _)| is_named(name, &config.requests)) {
                    config.requests.clear();
                }
            }
        }
        all
    }

    /// Returns a selector for the nodes that can reach all devices; `None` if all nodes can.
    fn node_selector(
        &self,
        claim: &Custom<ResourceClaim>,
        devices: &[Chosen],
    ) -> Result<Option<NodeSelector>, AllocationError> {
        let mut term = NodeSelectorTerm::default();
        for chosen in devices {
            let (slice, device) = (self.slice(chosen.at), self.device(chosen.at));
            let nodes = &slice.spec.nodes;
            let (name, selector) = match nodes.per_device {
                Some(true) => (&device.node_name, &device.node_selector),
                _ => (&nodes.node_name, &nodes.node_selector),
            };
            if name.is_some() || device.binds_to_node {
                return Ok(Some(only(self.node.name)));
            }
            match selector.as_ref().map(|selector| selector.terms.as_slice()) {
                None | Some([]) => {}
                Some([only]) => {
                    add_missing(&only.match_fields, &mut term.match_fields);
                    add_missing(&only.match_expressions, &mut term.match_expressions);
                }
                Some(terms) => {
                    let (name, terms) = (&claim.metadata.name, terms.len());
                    return AllocationError::fatal(format!(
                        "create NodeSelector for claim {name}: unsupported ResourceSlice.NodeSelector with {terms} terms"
                    ));
                }
            }
        }
        Ok((!term.is_empty()).then(|| NodeSelector { terms: vec![term] }))
    }
}

/// Returns an alternative of a request, or the request itself if it has no alternatives, with its name.
fn demand_of(request: &DeviceRequest, alternative: usize) -> (RequestName<'_>, Option<&DeviceDemand>) {
    match request.first_available.get(alternative) {
        Some(demand) => {
            (RequestName { request: &request.name, alternative: Some(&demand.name) }, Some(demand))
        }
        None => (RequestName { request: &request.name, alternative: None }, request.exactly.as_ref()),
    }
}

/// Returns true if one of the names is that of the request or its alternative.
fn is_named(name: RequestName<'_>, names: &[Str]) -> bool {
    let full = result_name(name);
    names.iter().any(|named| *named == *name.request || *named == full)
}

/// Returns a selector for a single node.
fn only(node: &str) -> NodeSelector {
    let field =
        Requirement { key: NODE_NAME_FIELD.into(), operator: Operator::In, values: vec![node.into()] };
    let term = NodeSelectorTerm { match_fields: vec![field], ..NodeSelectorTerm::default() };
    NodeSelector { terms: vec![term] }
}

fn add_missing(from: &[Requirement], to: &mut Vec<Requirement>) {
    for requirement in from {
        let same_values = |a: &[Str], b: &[Str]| {
            a.iter().all(|value| b.contains(value)) && b.iter().all(|value| a.contains(value))
        };
        let is_known = to.iter().any(|known| {
            known.key == requirement.key
                && known.operator == requirement.operator
                && same_values(&known.values, &requirement.values)
        });
        if !is_known {
            to.push(requirement.clone());
        }
    }
}

/// Returns the ID of a share: a UUID derived from the version of the claim, the position of the result and the
/// device. A repeated decision therefore gives the same ID; a decision about a later version of the claim
/// gives a different one. kube-scheduler's IDs are random.
fn share_id(claim: &Metadata, result: usize, device: &str) -> Str {
    let bytes = || {
        let texts = [&*claim.uid, &*claim.resource_version, device].into_iter();
        texts.flat_map(|text| text.bytes().chain([0])).chain(result.to_le_bytes())
    };
    let (high, low) = (fnv(0xcbf2_9ce4_8422_2325, bytes()), fnv(0x8422_2325_cbf2_9ce4, bytes()));
    let (time, mid, version) = (high >> 32, (high >> 16) & 0xffff, (high & 0xfff) | 0x4000);
    let (variant, node) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{time:08x}-{mid:04x}-{version:04x}-{variant:04x}-{node:012x}").into()
}

/// FNV-1a hash.
fn fnv(seed: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns the sum of the ranks of the alternatives that were allocated for a claim: 8 for the first alternative of a
/// request, 7 for the second, and so on.
pub fn rank(claim: &super::claim::ClaimSpec, results: &[DeviceResult]) -> i64 {
    let requests = claim.devices.requests.iter().filter(|request| request.exactly.is_none());
    let ranks = requests.flat_map(|request| {
        request.first_available.iter().enumerate().filter_map(|(at, demand)| {
            let name = RequestName { request: &request.name, alternative: Some(&demand.name) };
            let name = result_name(name);
            let is_allocated = results.iter().any(|result| result.request == name);
            is_allocated.then(|| rank_of(at))
        })
    });
    ranks.sum()
}

/// Returns the rank of an alternative.
pub(super) fn rank_of(alternative: usize) -> i64 {
    let best = super::claim::MAX_ALTERNATIVES;
    i64::try_from(best).unwrap_or_default() - i64::try_from(alternative).unwrap_or_default()
}
