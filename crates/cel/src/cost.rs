//! Costs of calls, as cel-go and Kubernetes count them.
//!
//! The cost of a call depends on the names of its function and its overload. The planner looks up the function that
//! computes the cost, so that evaluations need not compare names.

use crate::{
    fuel::Fuel,
    functions::INCLUDES,
    list::List,
    value::{Error, Traits, Value},
};

/// Cost of creating a list.
pub(crate) const LIST: u64 = 10;
/// Cost of creating a map.
pub(crate) const MAP: u64 = 30;
/// Cost of creating a message.
pub(crate) const MESSAGE: u64 = 40;
/// Cost of reading a character.
const TRAVERSAL: f64 = 0.1;
/// Cost of a character of a pattern.
const PATTERN: f64 = 0.25;
/// Cost of an authorization check.
const AUTHORIZATION: u64 = 350_000;

/// Computes the cost of a call from its arguments and its result.
pub(crate) type Cost = fn(&[Value<'_>], &Value<'_>, &Fuel) -> Result<u64, Error>;

/// Returns the function that computes the cost of calling an overload with `arity` arguments. `overload` is
/// empty if the overload is not known until evaluation.
pub(crate) fn of_call(function: &str, overload: &str, arity: usize) -> Cost {
    of_list_overload(overload)
        .or_else(|| of_kubernetes_function(function, overload, arity))
        .unwrap_or_else(|| of_standard_overload(overload))
}

/// Cost of `==` and `!=`.
pub(crate) fn of_equality(left: &Value<'_>, right: &Value<'_>, is_negated: bool) -> u64 {
    let is_own = matches!(
        left,
        Value::Quantity(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Semver(_)
    );
    if is_own && !is_negated { 1 } else { traversal(size(left).min(size(right)) as f64) }
}

fn traversal(size: f64) -> u64 {
    (size * TRAVERSAL).ceil() as u64
}

/// Size of a value. An optional has the size of the value in it.
fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => size(inner),
        value => plain_size(value),
    }
}

/// Size of an argument, or 1 if it is missing. An optional has the size of the value in it.
fn size_at(args: &[Value<'_>], at: usize) -> u64 {
    args.get(at).map_or(1, size)
}

/// Size of an argument, or 1 if it is missing. An optional has the size 1.
fn plain_size_at(args: &[Value<'_>], at: usize) -> u64 {
    args.get(at).map_or(1, plain_size)
}

fn plain_size(value: &Value<'_>) -> u64 {
    value.size().unwrap_or(1)
}

/// Costs of the overloads of cel-go's extensions for lists and sets.
fn of_list_overload(overload: &str) -> Option<Cost> {
    Some(match overload {
        "list_slice" | "lists_range" | "list_reverse" => |_, result, _| Ok(of_new_list(plain_size(result))),
        "list_flatten" => |args, _, _| Ok(of_new_list(plain_size_at(args, 0))),
        "list_flatten_int" => of_flattening,
        "list_distinct" => |args, _, _| of_comparing_all(args.first()),
        "list_sets_contains_list" | "list_sets_intersects_list" => |args, _, _| Ok(of_pairs(args, 1.0)),
        "list_sets_equivalent_list" => |args, _, _| Ok(of_pairs(args, 2.0)),
        id if id.ends_with("_sort") && id.starts_with("list_") => |args, _, _| of_comparing_all(args.first()),
        id if id.ends_with("_sortByAssociatedKeys") => |args, _, _| of_comparing_all(args.get(1)),
        _ => return None,
    })
}

/// Converts a number as Go does on amd64, where negative numbers wrap around and large ones become 2⁶³.
fn to_uint(number: f64) -> u64 {
    match () {
        () if number < 0.0 => number as i64 as u64,
        () if number >= u64::MAX as f64 => 1 << 63,
        () => number as u64,
    }
}

/// Cost of creating a list in `steps` steps.
fn of_new_list(steps: u64) -> u64 {
    steps.wrapping_add(1 + LIST)
}

/// Cost of comparing every element of a list with every element of another one.
fn of_pairs(args: &[Value<'_>], factor: f64) -> u64 {
    let pairs = plain_size_at(args, 0).wrapping_mul(plain_size_at(args, 1));
    to_uint(pairs as f64 * factor).wrapping_add(1)
}

fn of_flattening(args: &[Value<'_>], _: &Value<'_>, fuel: &Fuel) -> Result<u64, Error> {
    match args.get(1) {
        Some(Value::Int(depth)) => {
            let depth = if fuel.is_since_1_37() && *depth < 0 { 1 } else { *depth };
            let steps = to_uint(plain_size_at(args, 0) as f64 * depth as f64);
            Ok(of_new_list(steps))
        }
        Some(other) => {
            let text = format!("interface conversion: ref.Val is {}, not types.Int", other.go_type());
            Err(Error::panic(&text))
        }
        None => Ok(1),
    }
}

/// Cost of comparing all elements with each other. Like cel-go, fails for anything but a list, even for an error.
fn of_comparing_all(list: Option<&Value<'_>>) -> Result<u64, Error> {
    let list = match list {
        Some(Value::List(list)) => list,
        Some(other) => {
            let missing = if other.traits().contain(Traits::ADDER) { "Contains" } else { "Add" };
            let of = other.go_type();
            return Err(Error::panic(&format!(
                "interface conversion: {of} is not traits.Lister: missing method {missing}"
            )));
        }
        None => return Ok(1),
    };
    let factor = match list.get(0) {
        Some(Value::String(_) | Value::Bytes(_)) => 2.0 + TRAVERSAL,
        _ => 2.0,
    };
    let size = list.len() as u64;
    Ok(of_new_list(to_uint(size.wrapping_mul(size) as f64 * factor)))
}

/// Costs of the functions whose costs Kubernetes computes.
fn of_kubernetes_function(name: &str, overload: &str, arity: usize) -> Option<Cost> {
    Some(match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => of_traversing_first,
        INCLUDES => |args, result, fuel| {
            let cost = if fuel.is_since_1_37() { of_traversing_first } else { one };
            cost(args, result, fuel)
        },
        "ip" if overload == "cidr_ip" => one,
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "ip" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver"
            if arity >= 1 =>
        {
            of_reading_first
        }
        "replace" | "split" | "ip.isCanonical" if arity >= 1 => {
            |args, _, _| Ok(twice(plain_size_at(args, 0) as f64))
        }
        "join" if arity >= 1 => |_, result, _| Ok(twice(plain_size(result) as f64)),
        "find" | "findAll" if arity >= 2 => {
            |args, _, _| Ok(of_pattern(plain_size_at(args, 0), plain_size_at(args, 1)))
        }
        "containsIP" if arity >= 2 => match overload {
            "cidr_contains_ip_string" => |args, _, _| Ok(of_containing_ip(args) + of_text(args)),
            _ => |args, _, _| Ok(of_containing_ip(args)),
        },
        "containsCIDR" if arity >= 2 => match overload {
            "cidr_contains_cidr_string" => |args, _, _| Ok(of_containing_cidr(args) + of_text(args)),
            _ => |args, _, _| Ok(of_containing_cidr(args)),
        },
        "validate" if arity >= 2 => |args, _, _| {
            Ok(match args.first() {
                Some(Value::Format(format)) => of_pattern(plain_size_at(args, 1), format.pattern_size),
                _ => 1,
            })
        },
        "check" => |_, _, _| Ok(AUTHORIZATION),
        "fieldSelector" | "labelSelector" if arity >= 2 => of_requirements,
        "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery"
        | "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored" => one,
        _ => return None,
    })
}

fn one(_: &[Value<'_>], _: &Value<'_>, _: &Fuel) -> Result<u64, Error> {
    Ok(1)
}

fn of_traversing_first(args: &[Value<'_>], _: &Value<'_>, fuel: &Fuel) -> Result<u64, Error> {
    args.first().map_or(Ok(0), |list| of_traversal(list, fuel))
}

fn of_reading_first(args: &[Value<'_>], _: &Value<'_>, _: &Fuel) -> Result<u64, Error> {
    Ok(traversal(plain_size_at(args, 0) as f64))
}

fn of_matching(args: &[Value<'_>], _: &Value<'_>, _: &Fuel) -> Result<u64, Error> {
    Ok(of_pattern(size_at(args, 0), size_at(args, 1)))
}

/// Cost of looking for a pattern in a text.
fn of_pattern(text: u64, pattern: u64) -> u64 {
    traversal(1.0 + text as f64) * (pattern as f64 * PATTERN).ceil() as u64
}

fn of_containing_ip(args: &[Value<'_>]) -> u64 {
    traversal(2.0 * plain_size_at(args, 0) as f64)
}

fn of_containing_cidr(args: &[Value<'_>]) -> u64 {
    of_containing_ip(args) + traversal(plain_size_at(args, 0) as f64) + 1
}

/// Cost of parsing the second argument.
fn of_text(args: &[Value<'_>]) -> u64 {
    traversal(plain_size_at(args, 1) as f64)
}

/// Cost of parsing a selector, which counts as one requirement for every two characters. Each requirement costs as
/// much as a list and a message.
fn of_requirements(args: &[Value<'_>], _: &Value<'_>, _: &Fuel) -> Result<u64, Error> {
    let requirements = plain_size_at(args, 1).div_ceil(2);
    Ok(LIST + of_text(args) + requirements * (LIST + MESSAGE))
}

/// Cost of reading a value of this size twice. As in Kubernetes, the sum is rounded, not each part.
fn twice(size: f64) -> u64 {
    (size * 2.0 * TRAVERSAL).ceil() as u64
}

/// Cost of reading a value with all its elements.
fn of_traversal(value: &Value<'_>, fuel: &Fuel) -> Result<u64, Error> {
    fuel.spend(1)?;
    let add = |sum: u64, part: &Value<'_>| Ok(sum.saturating_add(of_traversal(part, fuel)?));
    match value {
        Value::String(text) => Ok((text.as_str().len() as f64 * TRAVERSAL) as u64),
        Value::Bytes(bytes) => Ok((bytes.len() as f64 * TRAVERSAL) as u64),
        Value::List(List::Range(end)) => Ok(u64::try_from(*end).unwrap_or(0)),
        Value::List(list) => list.iter().try_fold(0, |sum, element| add(sum, &element)),
        Value::Map(map) => {
            let entries = map.entries();
            entries.iter().flat_map(|(key, value)| [key, value]).try_fold(0, add)
        }
        _ => Ok(1),
    }
}

/// Costs of all other overloads.
fn of_standard_overload(overload: &str) -> Cost {
    match overload {
        "starts_with_string" | "ends_with_string" => |args, _, fuel| {
            let read = usize::from(fuel.is_since_1_37());
            Ok(traversal(size_at(args, read) as f64))
        },
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
            |args, _, _| Ok(traversal(size_at(args, 0) as f64))
        }
        "in_list" => |args, _, _| Ok(size_at(args, 1)),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => |args, _, _| Ok(traversal(size_at(args, 0).min(size_at(args, 1)) as f64)),
        "add_string" | "add_bytes" => {
            |args, _, _| Ok(traversal((size_at(args, 0) + size_at(args, 1)) as f64))
        }
        "matches_string" => of_matching,
        "matches" => |args, result, fuel| {
            let cost = if fuel.is_since_1_37() { of_matching } else { one };
            cost(args, result, fuel)
        },
        "contains_string" => {
            |args, _, _| Ok(traversal(size_at(args, 0) as f64) * traversal(size_at(args, 1) as f64))
        }
        _ => one,
    }
}
