//! Members of a group for which pods are evicted together.
//!
//! A gang needs a minimum of members. Evictions for more than that are made only if the quotas guarantee it: the group
//! then gets as many members at once as it has a right to.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use harbormaster::prelude::*;

use crate::amounts::requested;

/// Number of further members that the group needs; at least one, and at most as many as wait.
pub fn needed(group: GroupView<'_>, waiting: usize) -> usize {
    group.min_count().saturating_sub(group.scheduled).min(waiting).max(1)
}

/// Sorts members in the order in which they count: those first that pods have been evicted for, then those that request
/// the smallest part of what all of them do.
pub fn in_order(members: &[Arc<PodInfo>]) -> Vec<Arc<PodInfo>> {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for (resource, amount) in members.iter().flat_map(|pod| requested(pod)) {
        *sums.entry(resource).or_default() += amount;
    }
    let part = |(resource, amount): (&str, i128)| {
        let sum = sums.get(resource).copied().unwrap_or_default().max(1);
        amount.saturating_mul(1_000_000) / sum
    };
    let mut sorted = members.to_vec();
    sorted.sort_by_cached_key(|pod| {
        let is_nominated = pod.status.nominated_node_name.is_some();
        (Reverse(is_nominated), requested(pod).map(part).max().unwrap_or_default())
    });
    sorted
}

/// Returns the largest number of members, from `needed` to `all`, that has the property; `needed` if none has. A
/// smaller number must have it if a larger one does.
pub fn most(needed: usize, all: usize, mut has_property: impl FnMut(usize) -> bool) -> usize {
    let (mut known, mut end) = (needed, all + 1);
    while known + 1 < end {
        let middle = known + (end - known) / 2;
        if has_property(middle) { known = middle } else { end = middle }
    }
    known
}
