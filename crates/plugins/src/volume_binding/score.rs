//! How full the storage would be from which a pod's volumes come.

use std::collections::BTreeMap;

use harbormaster_api::Str;

use super::on_node::Found;
use crate::shape::Shape;

/// In percent.
const FULL: i64 = 100;

/// What is asked of one class, and what there is, in bytes.
#[derive(Default)]
struct Share {
    requested: i64,
    capacity: i64,
}

/// The mean over the classes of the volumes. Volumes that are there already come before volumes that would be made: with
/// one of the former the latter do not count.
pub(super) fn score(shape: &Shape, found: &Found<'_>) -> i64 {
    let mut classes: BTreeMap<&Str, Share> = BTreeMap::new();
    for (delayed, volume) in &found.matched {
        let share = classes.entry(&delayed.demand.class).or_default();
        share.requested = share.requested.wrapping_add(delayed.demand.requested.value());
        share.capacity = share.capacity.wrapping_add(volume.capacity.value());
    }
    if found.matched.is_empty() {
        let known = found.made.iter().filter_map(|(delayed, capacity)| Some((delayed, (*capacity)?)));
        for (delayed, capacity) in known {
            let share = classes.entry(&delayed.demand.class).or_default();
            share.requested = share.requested.wrapping_add(delayed.demand.requested.value());
            // All volumes of a class come from the same room.
            share.capacity = capacity;
        }
    }
    if classes.is_empty() {
        return 0;
    }
    let sum: i64 = classes.values().map(|share| shape.at(share.percent())).sum();
    (sum as f64 / classes.len() as f64).round() as i64
}

impl Share {
    fn percent(&self) -> i64 {
        let Self { requested, capacity } = *self;
        if capacity == 0 || requested > capacity { FULL } else { requested.wrapping_mul(FULL) / capacity }
    }
}
