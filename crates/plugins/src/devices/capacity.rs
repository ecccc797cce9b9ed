//! Capacities of devices that several claims can share (KEP-5075).

use std::collections::BTreeMap;

use harbormaster_api::{Quantity, Str};

use super::{
    claim::CapacityRequirements,
    slice::{Device, DeviceCapacity, RequestPolicy, ValidRange},
};

/// Amounts by capacity, in units of 10⁻⁹.
pub(super) type Consumed = BTreeMap<Str, i128>;

/// Largest amount that [`nanos`] returns. Sums of 100,000 such amounts do not overflow.
const MAX_NANOS: i128 = 1 << 110;

/// Returns an amount in units of 10⁻⁹. Amounts that no device has are capped.
pub(super) fn nanos(amount: &Quantity) -> i128 {
    amount.nanos().clamp(-MAX_NANOS, MAX_NANOS)
}

/// Returns true if the device has enough capacity for a request, given the amounts that are consumed already, and if
/// the device's policies allow the request.
pub(super) fn suffices(
    device: &Device,
    requested: Option<&CapacityRequirements>,
    consumed: impl Fn(&str) -> i128,
) -> bool {
    let wanted = |name: &str| requested.and_then(|requested| requested.requests.get(name));
    let is_defined = |name: &Str| device.capacity.contains_key(name);
    if !requested.is_none_or(|requested| requested.requests.keys().all(is_defined)) {
        return false;
    }
    device.capacity.iter().all(|(name, capacity)| {
        let amount = amount(wanted(name), capacity);
        !violates(&amount, capacity.request_policy.as_ref())
            && consumed(name).saturating_add(nanos(&amount)) <= nanos(&capacity.value)
    })
}

/// Returns the amounts that a request consumes of each capacity.
pub(super) fn amounts(device: &Device, requested: Option<&CapacityRequirements>) -> BTreeMap<Str, Quantity> {
    let wanted = |name: &str| requested.and_then(|requested| requested.requests.get(name));
    device.capacity.iter().map(|(name, capacity)| (name.clone(), amount(wanted(name), capacity))).collect()
}

/// Returns the amount that a request consumes, which may be more than it asks for.
fn amount(wanted: Option<&Quantity>, capacity: &DeviceCapacity) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(wanted) = wanted else {
        return policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    };
    match policy {
        Some(RequestPolicy { valid_range: Some(ValidRange { min: Some(min), step, .. }), .. }) => {
            rounded_up(wanted, min, step.as_ref())
        }
        Some(RequestPolicy { valid_values, .. }) => {
            *valid_values.iter().find(|valid| *wanted <= **valid).unwrap_or(wanted)
        }
        None => *wanted,
    }
}

/// Rounds an amount up to the minimum, or to a whole number of steps above it.
fn rounded_up(wanted: &Quantity, min: &Quantity, step: Option<&Quantity>) -> Quantity {
    if wanted < min {
        return *min;
    }
    let Some(step) = step.map(Quantity::value).filter(|step| *step > 0) else { return *wanted };
    let above = wanted.value().saturating_sub(min.value());
    let steps = above / step + i64::from(above % step != 0);
    Quantity::from_binary_units(min.value().saturating_add(step.saturating_mul(steps)))
}

fn violates(amount: &Quantity, policy: Option<&RequestPolicy>) -> bool {
    let Some(policy) = policy else { return false };
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    match &policy.valid_range {
        Some(ValidRange { min, max, step }) => {
            let above = amount.value().saturating_sub(min.as_ref().map_or(0, Quantity::value));
            let is_off_step = |step: &Quantity| step.value() > 0 && above % step.value() != 0;
            max.as_ref().is_some_and(|max| amount > max) || step.as_ref().is_some_and(is_off_step)
        }
        None => !policy.valid_values.is_empty() && !policy.valid_values.contains(amount),
    }
}
