//! Scores a node by the fraction of its available storage that a pod's claims request.

use std::collections::BTreeMap;

use harbormaster_api::Str;

use super::on_node::ClaimVolumes;
use crate::shape::Shape;

/// Full utilization, in percent.
const FULL: i64 = 100;

/// Requested bytes and capacity of one class.
#[derive(Default)]
struct ClassUsage {
    requested: i64,
    capacity: i64,
}

/// Returns the mean score over the classes of the volumes. If any claim gets an existing volume, volumes to be
/// provisioned are ignored.
pub(super) fn score(shape: &Shape, found: &ClaimVolumes<'_>) -> i64 {
    let mut classes: BTreeMap<&Str, ClassUsage> = BTreeMap::new();
    for (delayed, volume) in &found.matched {
        let share = classes.entry(&delayed.demand.class).or_default();
        share.requested = share.requested.wrapping_add(delayed.demand.requested.value());
        share.capacity = share.capacity.wrapping_add(volume.capacity.value());
    }
    if found.matched.is_empty() {
        let known = found.provisioned.iter().filter_map(|(delayed, capacity)| Some((delayed, (*capacity)?)));
        for (delayed, capacity) in known {
            let share = classes.entry(&delayed.demand.class).or_default();
            share.requested = share.requested.wrapping_add(delayed.demand.requested.value());
            // All volumes to be provisioned for a class share the same storage.
            share.capacity = capacity;
        }
    }
    if classes.is_empty() {
        return 0;
    }
    let sum: i64 = classes.values().map(|share| shape.at(share.percent())).sum();
    (sum as f64 / classes.len() as f64).round() as i64
}

impl ClassUsage {
    fn percent(&self) -> i64 {
        let Self { requested, capacity } = *self;
        if capacity == 0 || requested > capacity { FULL } else { requested.wrapping_mul(FULL) / capacity }
    }
}
