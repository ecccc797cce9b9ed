//! Use of devices by allocated claims.

use harbormaster_api::Str;
use rustc_hash::FxHashMap;

use super::{
    DeviceGates,
    capacity::{Consumed, nanos},
    claim::DeviceResult,
    slice::Device,
};

/// Devices of one pool that are in use, by name.
pub(super) type PoolUsage = FxHashMap<Str, DeviceUsage>;

/// Use of one device. Results with admin access do not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeviceUsage {
    /// Number of allocations of the whole device. More than one if competing schedulers allocated the same device.
    claims: u32,
    /// Number of shares of the device.
    shares: u32,
    /// Number of shares that consume a capacity, even if the amount is zero.
    consumers: u32,
    /// Sum of what the shares consume, without zeros.
    consumed: Consumed,
}

impl DeviceUsage {
    /// Counts the result of an allocation.
    pub(super) fn add(&mut self, result: &DeviceResult) {
        match result.share_id {
            None => self.claims += 1,
            Some(_) => {
                self.shares += 1;
                self.consumers += u32::from(!result.consumed_capacity.is_empty());
                self.consume(result, i128::wrapping_add);
            }
        }
    }

    /// Stops counting a result that was counted.
    pub(super) fn remove(&mut self, result: &DeviceResult) {
        match result.share_id {
            None => self.claims = self.claims.saturating_sub(1),
            Some(_) => {
                self.shares = self.shares.saturating_sub(1);
                let consumes = u32::from(!result.consumed_capacity.is_empty());
                self.consumers = self.consumers.saturating_sub(consumes);
                self.consume(result, i128::wrapping_sub);
            }
        }
    }

    fn consume(&mut self, result: &DeviceResult, change: fn(i128, i128) -> i128) {
        for (name, amount) in &result.consumed_capacity {
            let sum = self.consumed.entry(name.clone()).or_default();
            *sum = change(*sum, nanos(amount));
        }
        self.consumed.retain(|_, sum| *sum != 0);
    }

    /// Returns true if no claim uses the device.
    pub(super) fn is_none(&self) -> bool {
        self.claims == 0 && self.shares == 0
    }

    /// Returns true if some claims cannot have the device together. `device` is called only if all of them share it, and
    /// returns `None` if the device is not known.
    pub(super) fn is_contradictory<'a>(&self, device: impl FnOnce() -> Option<&'a Device>) -> bool {
        if self.claims > 0 {
            return self.claims + self.shares > 1;
        }
        let exceeds = |device: &Device| {
            let mut consumed = self.consumed.iter();
            consumed.any(|(name, sum)| {
                device.capacity.get(name).is_some_and(|capacity| *sum > nanos(&capacity.value))
            })
        };
        self.shares > 1 && device().is_some_and(exceeds)
    }

    /// Returns true if a claim has the whole device. If the gate `DRAConsumableCapacity` is off, a share counts as the
    /// whole device.
    pub(super) fn is_exclusive(&self, gates: DeviceGates) -> bool {
        self.claims > 0 || (self.shares > 0 && !gates.consumable_capacity)
    }

    /// Returns true if no other claim can get the device, whatever its free capacity. A device that can no longer be
    /// shared may still have shares; unlike kube-scheduler, Harbormaster then always waits for them to end, even if the
    /// device has no capacities.
    pub(super) fn is_exhausted(&self, device: &Device, gates: DeviceGates) -> bool {
        self.is_exclusive(gates) || (self.shares > 0 && !device.allow_multiple_allocations)
    }

    /// Returns the amounts in use if the device is shared and some claim consumes a capacity.
    pub(super) fn consumed(&self, gates: DeviceGates) -> Option<&Consumed> {
        (self.consumers > 0 && gates.consumable_capacity).then_some(&self.consumed)
    }

    /// Returns true if the device is shared already, so that another share of it takes no counters.
    pub(super) fn is_shared(&self, gates: DeviceGates) -> bool {
        let shares = match gates.rules.shares_consume_no_counters {
            true => self.consumers,
            false => self.shares,
        };
        shares > 0 && gates.consumable_capacity
    }

    /// Returns true if the counters of the device are in use.
    pub(super) fn consumes_counters(&self, gates: DeviceGates) -> bool {
        self.is_exclusive(gates) || (self.shares > 0 && !gates.rules.shares_consume_no_counters)
    }
}
