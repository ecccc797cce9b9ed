//! Counters that the partitions of a device share (KEP-4815).

use std::{collections::BTreeMap, sync::Arc};

use rustc_hash::FxHashMap;

use super::{allocator::Allocator, capacity::nanos, pools::NodePool, rules::DeviceRules, slice::Device};

/// Amounts by counter set and counter, in units of 10⁻⁹.
type Amounts<'a> = BTreeMap<(&'a str, &'a str), i128>;

/// Counters during one search.
#[derive(Debug)]
pub(super) struct Counters<'a> {
    /// For each pool, the index of its entry in `pools`. Pools of the same name may share an entry.
    owners: Vec<usize>,
    pools: Vec<PoolCounters<'a>>,
}

#[derive(Debug, Default)]
struct PoolCounters<'a> {
    /// Amounts that are free, which may be negative. Computed from the pool whose device is considered first.
    free: Option<Amounts<'a>>,
    /// Amounts that this search has taken.
    taken: Amounts<'a>,
}

impl<'a> Counters<'a> {
    /// Creates the counters of these pools.
    pub(super) fn new<'p>(pools: &'p [Arc<NodePool>], rules: DeviceRules) -> Self {
        let mut first: FxHashMap<&str, usize> = FxHashMap::default();
        let owner = |(at, pool): (usize, &'p Arc<NodePool>)| match rules.counters_by_pool_name {
            true => *first.entry(&pool.key.pool).or_insert(at),
            false => at,
        };
        let owners = pools.iter().enumerate().map(owner).collect();
        Self { owners, pools: pools.iter().map(|_| PoolCounters::default()).collect() }
    }

    /// Takes the counters that a device of a pool consumes, or returns false if there are not enough.
    pub(super) fn take(&mut self, task: &Allocator<'a>, pool: usize, device: &'a Device) -> bool {
        let counters = &mut self.pools[self.owners[pool]];
        let free = counters.free.get_or_insert_with(|| free(task, pool));
        for (counter, amount) in consumed(device) {
            *counters.taken.entry(counter).or_default() += amount;
        }
        let taken = |counter| counters.taken.get(counter).copied().unwrap_or_default();
        let suffices = free.iter().all(|(counter, free)| *free >= taken(counter));
        if !suffices {
            self.give_back(pool, device);
        }
        suffices
    }

    /// Gives back what a device of a pool consumes.
    pub(super) fn give_back(&mut self, pool: usize, device: &'a Device) {
        let taken = &mut self.pools[self.owners[pool]].taken;
        for (counter, amount) in consumed(device) {
            *taken.entry(counter).or_default() -= amount;
        }
    }
}

/// Returns the counters of a pool, minus the amounts that allocated devices consume.
fn free<'a>(task: &Allocator<'a>, pool: usize) -> Amounts<'a> {
    let NodePool { counters, slices, elsewhere, .. } = &*task.pools[pool];
    let mut free = Amounts::new();
    for set in counters.values() {
        let counters = set.counters.iter();
        free.extend(counters.map(|(name, counter)| ((&*set.name, &**name), nanos(&counter.value))));
    }
    let Some(usage) = task.usage[pool] else { return free };
    let devices = slices.iter().chain(elsewhere).flat_map(|slice| &slice.spec.devices);
    for device in devices.filter(|device| !device.consumes_counters.is_empty()) {
        if usage.get(&device.name).is_some_and(|usage| usage.consumes_counters(task.gates)) {
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
        counters.map(|(name, counter)| ((&*set.counter_set, &**name), nanos(&counter.value)))
    })
}
