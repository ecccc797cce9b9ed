//! Policies for how much of a shared device's capacity a request may take.

use harbormaster_api::{Quantity, Release};
use serde_json::Value;

use super::{super::Errors, each_once_in_code};
use crate::{
    FieldError,
    value::{list, present},
};

/// Maximum number of valid values.
const MOST_VALUES: usize = 10;

pub(super) fn check(capacity: &Value, policy: &Value, place: &str, errors: &mut Errors) {
    let (values, range) = (list(policy, "/validValues"), present(policy, "/validRange"));
    let missing = |what: &str| {
        FieldError::required(format!("{place}.default"), &format!("required when {what} is defined"))
    };
    let Some(most) = quantity(&capacity["value"]) else { return };
    let default = quantity(&policy["default"]);
    match (values, range, default) {
        ([_, ..], Some(_), _) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at \
                       the same time";
            errors.push(FieldError::forbidden(place, why));
        }
        ([_, ..], None, None) => errors.push(missing("validValues")),
        ([_, ..], None, Some(default)) => {
            check_values(&policy["validValues"], &default, &most, &format!("{place}.validValues"), errors);
        }
        ([], Some(_), None) => errors.push(missing("validRange")),
        ([], Some(range), Some(default)) => {
            check_range(range, &default, &most, &format!("{place}.validRange"), errors);
        }
        ([], None, _) => {}
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

fn invalid(field: String, value: &Quantity, why: impl AsRef<str>) -> FieldError {
    FieldError::invalid(field, value.to_string(), why)
}

fn check_values(values: &Value, default: &Quantity, most: &Quantity, place: &str, errors: &mut Errors) {
    let all: Vec<Quantity> = list(values, "").iter().filter_map(quantity).collect();
    for (i, pair) in all.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let field = format!("{place}[{}]", i + 1);
            errors.push(invalid(field, &pair[1], "values must be sorted in ascending order"));
        }
    }
    let key = |value: &Value| quantity(value).map_or(0, |value| value.value()).to_string();
    each_once_in_code(values, place, MOST_VALUES, errors, key, |value, place, errors| {
        if let Some(value) = quantity(value).filter(|value| value > most) {
            let why = format!("option is larger than capacity value: {most}");
            errors.push(invalid(place.to_owned(), &value, why));
        }
    });
    if !all.contains(default) || all.len() > MOST_VALUES {
        let why = "default value is not valid according to the requestPolicy";
        errors.push(invalid(place.to_owned(), default, why));
    }
}

fn check_range(range: &Value, default: &Quantity, most: &Quantity, place: &str, errors: &mut Errors) {
    let field = |name: &str| format!("{place}.{name}");
    let Some(min) = quantity(&range["min"]) else {
        errors.push(FieldError::required(field("min"), "required when validRange is defined"));
        return;
    };
    let (max, step) = (quantity(&range["max"]), quantity(&range["step"]));
    let is_newer = errors.release() >= Release::V1_37;
    if min > *most {
        let why = format!("min is larger than capacity value: {most}");
        errors.push(invalid(field("min"), &min, why));
    }
    if *default < min {
        let place = field(if is_newer { "default" } else { "min" });
        errors.push(invalid(place, default, format!("default is less than min: {min}")));
    }
    if let Some(max) = &max {
        if min > *max {
            errors.push(invalid(field("max"), &min, format!("min is larger than max: {max}")));
        }
        if max > most {
            let why = format!("max is larger than capacity value: {most}");
            errors.push(invalid(field("max"), max, why));
        }
        if default > max {
            let place = field(if is_newer { "default" } else { "max" });
            errors.push(invalid(place, default, format!("default is more than max: {max}")));
        }
    }
    let Some(step) = step else { return };
    if is_newer && step.nanos() <= 0 {
        errors.push(invalid(field("step"), &step, "must be greater than zero"));
        return;
    }
    if min.nanos().saturating_add(step.nanos()) > most.nanos() {
        let why = format!("one step {} is larger than capacity value: {most}", sum(&min, &step));
        errors.push(invalid(field("step"), &step, why));
    }
    for value in std::iter::once(default).chain(&max) {
        // A step of zero, on which the request handler of kube-apiserver 1.36 panics, fits nothing.
        let rest = value.value().wrapping_sub(min.value()).checked_rem(step.value());
        if rest != Some(0) {
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            errors.push(invalid(field("step"), value, why));
        }
    }
}

/// Returns the sum of two quantities in the notation of the first.
fn sum(first: &Quantity, second: &Quantity) -> String {
    let mut units = first.value().saturating_add(second.value());
    if !first.to_string().ends_with('i') {
        return Quantity::from_units(units).to_string();
    }
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next();
    while units != 0 && units % 1024 == 0 {
        let Some(larger) = suffixes.next() else { break };
        (units, suffix) = (units / 1024, Some(larger));
    }
    format!("{units}{}", suffix.unwrap_or_default())
}
