//! The NUMA nodes that a container or pod would use.

use harbormaster::{
    api::{QosClass, resources},
    prelude::NodeRef,
};

use crate::{
    amount::{Amount, Requests, is_shared, may_be_anywhere},
    topology::NumaNode,
};

/// Maximum number of sets of NUMA nodes that are tried for one container. Without a limit, a topology with dozens of
/// NUMA nodes would hold up the scheduler.
const MOST_SETS: usize = 20_000;

/// A distance that is not known, as in ACPI's tables.
const UNKNOWN_DISTANCE: i64 = 255;

/// Returns the lowest number of a NUMA node that has all requested resources, or `None` if there is none.
pub(crate) fn single_numa_node(
    numa_nodes: &[NumaNode],
    qos: QosClass,
    node: NodeRef<'_>,
    requests: &Requests,
) -> Option<usize> {
    let mut suitable = u64::MAX;
    for (name, amount) in requests.iter().filter(|(_, amount)| !amount.is_zero()) {
        if !is_offered(node, name) {
            return None;
        }
        let listed = || numa_nodes.iter().filter_map(|one| Some((one.id, *one.available.get(name)?)));
        if listed().next().is_none() && may_be_anywhere(name) {
            continue;
        }
        let with_enough = listed().filter(|(_, left)| is_shared(qos, name) || left >= amount);
        suitable &= with_enough.fold(0, |set, (id, _)| set | 1 << id);
        if suitable == 0 {
            return None;
        }
    }
    Some(suitable.trailing_zeros() as usize)
}

/// Returns true if the node has the resource at all.
fn is_offered(node: NodeRef<'_>, name: &str) -> bool {
    [resources::CPU, resources::MEMORY, resources::PODS, resources::EPHEMERAL_STORAGE].contains(&name)
        || node.allocatable().scalars.iter().any(|(other, _)| *other == name)
}

/// Returns what a container of the class owns of its requests. The rest is shared.
pub(crate) fn owned(qos: QosClass, requests: &Requests) -> Requests {
    requests.iter().filter(|(name, _)| !is_shared(qos, name)).cloned().collect()
}

/// Positions of the NUMA nodes that a container needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) positions: Vec<usize>,
    /// True if no other set of as many NUMA nodes is closer together.
    pub(crate) is_nearest: bool,
}

/// Result of the search for a set of NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// No NUMA node lists any of the resources.
    Nothing,
    /// These NUMA nodes.
    These(Set),
    /// All NUMA nodes together have too little, or there are too many of them.
    TooMuch,
}

/// Returns the smallest and then nearest set of NUMA nodes that together have all requested resources. Resources that
/// no NUMA node lists are ignored.
pub(crate) fn fewest_numa_nodes(numa_nodes: &[NumaNode], qos: QosClass, requests: &Requests) -> Needed {
    let is_listed = |name: &str| numa_nodes.iter().any(|one| one.available.contains_key(name));
    let requests: Requests = requests.iter().filter(|(name, _)| is_listed(name)).cloned().collect();
    if requests.is_empty() {
        return Needed::Nothing;
    }
    let mut left = MOST_SETS;
    for size in 1..=numa_nodes.len() {
        let Some(found) = best_of_size(numa_nodes, qos, &requests, size, &mut left) else {
            return Needed::TooMuch;
        };
        if let Some(set) = found {
            return Needed::These(set);
        }
    }
    Needed::TooMuch
}

/// Returns the nearest set of a size that has the resources, if there is one. `None` if there are too many sets.
fn best_of_size(
    numa_nodes: &[NumaNode],
    qos: QosClass,
    requests: &Requests,
    size: usize,
    left: &mut usize,
) -> Option<Option<Set>> {
    let mut shortest = UNKNOWN_DISTANCE as f32;
    let mut best: Option<(f32, Vec<usize>)> = None;
    let mut positions: Vec<usize> = (0..size).collect();
    loop {
        *left = left.checked_sub(1)?;
        let distance = mean_distance(numa_nodes, &positions);
        shortest = shortest.min(distance);
        if best.as_ref().is_none_or(|(known, _)| distance < *known)
            && has_all(numa_nodes, qos, requests, &positions)
        {
            best = Some((distance, positions.clone()));
        }
        if !advance(&mut positions, numa_nodes.len()) {
            break;
        }
    }
    Some(best.map(|(distance, positions)| Set { positions, is_nearest: distance == shortest }))
}

/// Changes the positions to the next set of the same size. Returns false after the last one.
fn advance(positions: &mut [usize], end: usize) -> bool {
    let size = positions.len();
    let Some(at) = (0..size).rev().find(|at| positions[*at] < end - (size - at)) else { return false };
    let next = positions[at] + 1;
    for (offset, position) in positions[at..].iter_mut().enumerate() {
        *position = next + offset;
    }
    true
}

/// Mean distance between the NUMA nodes, each of them and itself included.
fn mean_distance(numa_nodes: &[NumaNode], positions: &[usize]) -> f32 {
    let distances = positions.iter().flat_map(|from| {
        positions.iter().map(move |to| {
            let cost = numa_nodes[*from].costs.get(&numa_nodes[*to].id);
            cost.copied().unwrap_or(UNKNOWN_DISTANCE)
        })
    });
    let sum = distances.fold(0_i64, i64::saturating_add);
    sum as f32 / (positions.len() * positions.len()) as f32
}

/// Returns true if all of the NUMA nodes list every requested resource, and together have enough.
fn has_all(numa_nodes: &[NumaNode], qos: QosClass, requests: &Requests, positions: &[usize]) -> bool {
    requests.iter().all(|(name, amount)| {
        let mut sum = Amount::ZERO;
        for at in positions {
            let Some(left) = numa_nodes[*at].available.get(name) else { return false };
            sum = sum.plus(*left);
        }
        amount.is_zero() || is_shared(qos, name) || sum >= *amount
    })
}

/// Takes requested resources from NUMA nodes: as much as possible from each, in order.
pub(crate) fn take_in_order(numa_nodes: &mut [NumaNode], positions: &[usize], requests: &Requests) {
    for (name, amount) in requests {
        let mut wanted = *amount;
        for at in positions {
            if let Some(left) = numa_nodes[*at].available.get_mut(name) {
                let rest = wanted.less(*left);
                *left = left.less(wanted);
                wanted = rest;
            }
        }
    }
}
