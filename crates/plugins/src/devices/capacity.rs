//! Capacities of devices that several claims can share (KEP-5075).

use std::collections::BTreeMap;

use harbormaster_api::{Quantity, Str};

use super::{
    claim::CapacityRequirements,
    rules::DeviceRules,
    slice::{Device, DeviceCapacity, RequestPolicy, ValidRange},
};

/// Amounts by capacity, in units of 10⁻⁹.
pub(super) type Consumed = BTreeMap<Str, i128>;

/// Largest amount that [`nanos`] returns. Sums of 100,000 such amounts do not overflow.
const MAX_NANOS: i128 = 1 << 110;

/// Returns an amount in units of 10⁻⁹. Amounts beyond [`MAX_NANOS`] are capped.
pub(super) fn nanos(amount: &Quantity) -> i128 {
    amount.nanos().clamp(-MAX_NANOS, MAX_NANOS)
}

/// Returns true if the device has enough capacity for a request, given the amounts that are already consumed, and its
/// policies allow the request.
///
/// # Errors
/// If the rules refuse the amount of a capacity.
pub(super) fn suffices(
    device: &Device,
    requested: Option<&CapacityRequirements>,
    rules: DeviceRules,
    consumed: impl Fn(&str) -> i128,
) -> Result<bool, String> {
    let is_defined = |name: &Str| device.capacity.contains(name);
    if !requested.is_none_or(|requested| requested.requests.keys().all(is_defined)) {
        return Ok(false);
    }
    // An amount that is refused fails the search, even if another capacity of the device is too small.
    if rules.refuses_odd_capacities {
        for (name, capacity) in device.capacity.iter() {
            check(wanted(requested, name), capacity, rules)
                .map_err(|why| format!("capacity {name:?}: {why}"))?;
        }
    }
    Ok(device.capacity.iter().all(|(name, capacity)| {
        let amount = amount(wanted(requested, name), capacity, rules);
        !violates(&amount, capacity.request_policy.as_deref())
            && consumed(name).saturating_add(nanos(&amount)) <= nanos(&capacity.value)
    }))
}

/// Returns the amount of each capacity that a request consumes.
pub(super) fn amounts(
    device: &Device,
    requested: Option<&CapacityRequirements>,
    rules: DeviceRules,
) -> BTreeMap<Str, Quantity> {
    let consumed = |(name, capacity): (&Str, &DeviceCapacity)| {
        (name.clone(), amount(wanted(requested, name), capacity, rules))
    };
    device.capacity.iter().map(consumed).collect()
}

fn wanted<'a>(requested: Option<&'a CapacityRequirements>, name: &str) -> Option<&'a Quantity> {
    requested.and_then(|requested| requested.requests.get(name))
}

/// Returns the amount that a request consumes, which may be more than it asks for.
fn amount(wanted: Option<&Quantity>, capacity: &DeviceCapacity, rules: DeviceRules) -> Quantity {
    let policy = capacity.request_policy.as_deref();
    let Some(wanted) = wanted else {
        return policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    };
    match policy {
        Some(RequestPolicy { valid_range: Some(ValidRange { min: Some(min), step, .. }), .. }) => {
            let Some(steps) = Steps::of(wanted, min, step.as_ref()) else {
                return if wanted < min { *min } else { *wanted };
            };
            let units = steps.min.saturating_add(steps.step.saturating_mul(steps.count));
            match (rules.keeps_notation_of_step, step) {
                (true, Some(step)) => step.with_units(units),
                _ => Quantity::from_binary_units(units),
            }
        }
        Some(RequestPolicy { valid_values, .. }) => {
            *valid_values.iter().find(|valid| *wanted <= **valid).unwrap_or(wanted)
        }
        None => *wanted,
    }
}

/// Returns an error if the amount that a request consumes is negative or too large to be rounded.
fn check(wanted: Option<&Quantity>, capacity: &DeviceCapacity, rules: DeviceRules) -> Result<(), String> {
    let policy = capacity.request_policy.as_deref().and_then(|policy| policy.valid_range.as_ref());
    if let (Some(wanted), Some(ValidRange { min: Some(min), step, .. })) = (wanted, policy)
        && let Some(steps) = Steps::of(wanted, min, step.as_ref())
    {
        let refused = |why: &str| {
            Err(format!("capacity request cannot be represented in the device's range arithmetic: {why}"))
        };
        if *wanted > Quantity::from_units(i64::MAX) {
            return refused(&format!("request {wanted} exceeds MaxInt64"));
        }
        if steps.min >= 0 && steps.count > (i64::MAX - steps.min) / steps.step {
            return refused(&format!("rounding request {wanted} up to the next step passes MaxInt64"));
        }
    }
    match amount(wanted, capacity, rules) < Quantity::default() {
        true => Err("capacity value is negative".to_owned()),
        false => Ok(()),
    }
}

/// A request that is rounded up to a whole number of steps above a minimum. All amounts are in units.
struct Steps {
    min: i64,
    step: i64,
    count: i64,
}

impl Steps {
    /// Returns `None` if there is no step, or if the request does not exceed the minimum.
    fn of(wanted: &Quantity, min: &Quantity, step: Option<&Quantity>) -> Option<Self> {
        let step = step.map(Quantity::value).filter(|step| *step > 0)?;
        if wanted < min {
            return None;
        }
        let above = wanted.value().saturating_sub(min.value());
        Some(Self { min: min.value(), step, count: above / step + i64::from(above % step != 0) })
    }
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
