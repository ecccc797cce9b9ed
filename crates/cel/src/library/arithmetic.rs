//! Operators.

use std::{cmp::Ordering, rc::Rc};

use crate::{
    fuel::{Fuel, LARGEST},
    list::List,
    value::{Error, Value},
};

const INT_OVERFLOW: &str = "integer overflow";
const UINT_OVERFLOW: &str = "unsigned integer overflow";
const DIVISION: &str = "division by zero";
const MODULUS: &str = "modulus by zero";

fn ints<'a>(result: Option<i64>) -> Value<'a> {
    result.map_or(Value::fail(INT_OVERFLOW), Value::Int)
}

fn uints<'a>(result: Option<u64>) -> Value<'a> {
    result.map_or(Value::fail(UINT_OVERFLOW), Value::Uint)
}

fn durations<'a>(result: Option<i64>) -> Value<'a> {
    result.map_or(Value::fail(INT_OVERFLOW), Value::Duration)
}

/// Returns the error for an operand of the wrong type.
fn misfit<'a>(right: &Value<'a>) -> Value<'a> {
    right.clone().or_no_overload()
}

pub(crate) fn not<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match &args[0] {
        Value::Bool(value) => Value::Bool(!value),
        other => misfit(other),
    }
}

pub(crate) fn negate<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match &args[0] {
        Value::Int(value) => ints(value.checked_neg()),
        Value::Double(value) => Value::Double(-value),
        Value::Duration(nanos) => durations(nanos.checked_neg()),
        other => misfit(other),
    }
}

pub(crate) fn add<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => ints(a.checked_add(*b)),
        (Value::Uint(a), Value::Uint(b)) => uints(a.checked_add(*b)),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::Duration(a), Value::Duration(b)) => durations(a.checked_add(*b)),
        (Value::Duration(duration), Value::Timestamp(time))
        | (Value::Timestamp(time), Value::Duration(duration)) => {
            time.add(*duration).map_or_else(Value::fail, Value::Timestamp)
        }
        (Value::String(a), Value::String(b)) => {
            let (a, b) = (a.as_str(), b.as_str());
            match check_size(a.len() + b.len(), fuel) {
                Ok(()) => Value::string([a, b].concat()),
                Err(error) => Value::Error(error),
            }
        }
        (Value::Bytes(a), Value::Bytes(b)) => match check_size(a.len() + b.len(), fuel) {
            Ok(()) => Value::Bytes(Rc::from([&**a, &**b].concat())),
            Err(error) => Value::Error(error),
        },
        (Value::List(a), Value::List(b)) => add_lists(a, b, fuel),
        (_, b) => misfit(b),
    }
}

fn add_lists<'a>(a: &List<'a>, b: &List<'a>, fuel: &Fuel) -> Value<'a> {
    let size = a.len().saturating_add(b.len());
    if size > LARGEST {
        return Value::Error(Error::too_expensive());
    }
    match fuel.spend(b.len().min(1000)) {
        Ok(()) => Value::List(a.add(b)),
        Err(error) => Value::Error(error),
    }
}

/// Fails if a string or byte sequence of this size is too large, or if too little fuel is left to create it.
fn check_size(size: usize, fuel: &Fuel) -> Result<(), Error> {
    if size > LARGEST { Err(Error::too_expensive()) } else { fuel.spend(size / 64) }
}

pub(crate) fn subtract<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => ints(a.checked_sub(*b)),
        (Value::Uint(a), Value::Uint(b)) => uints(a.checked_sub(*b)),
        (Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        (Value::Duration(a), Value::Duration(b)) => durations(a.checked_sub(*b)),
        (Value::Timestamp(time), Value::Duration(duration)) => {
            time.subtract(*duration).map_or_else(Value::fail, Value::Timestamp)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => a.since(b).map_or_else(Value::fail, Value::Duration),
        (_, b) => misfit(b),
    }
}

pub(crate) fn multiply<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(a), Value::Int(b)) => ints(a.checked_mul(*b)),
        (Value::Uint(a), Value::Uint(b)) => uints(a.checked_mul(*b)),
        (Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        (_, b) => misfit(b),
    }
}

pub(crate) fn divide<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Value::fail(DIVISION),
        (Value::Int(a), Value::Int(b)) => ints(a.checked_div(*b)),
        (Value::Uint(a), Value::Uint(b)) => uints(a.checked_div(*b)),
        (Value::Double(a), Value::Double(b)) => Value::Double(a / b),
        (_, b) => misfit(b),
    }
}

pub(crate) fn modulo<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Value::fail(MODULUS),
        (Value::Int(a), Value::Int(b)) => ints(a.checked_rem(*b)),
        (Value::Uint(a), Value::Uint(b)) => uints(a.checked_rem(*b)),
        (_, b) => misfit(b),
    }
}

fn compare<'a>(args: &[Value<'a>], holds: impl Fn(Ordering) -> bool) -> Value<'a> {
    args[0].compare(&args[1]).map_or_else(|error| error, |order| Value::Bool(holds(order)))
}

pub(crate) fn less<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    compare(args, Ordering::is_lt)
}

pub(crate) fn less_equals<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    compare(args, Ordering::is_le)
}

pub(crate) fn greater<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    compare(args, Ordering::is_gt)
}

pub(crate) fn greater_equals<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    compare(args, Ordering::is_ge)
}

/// `in`, which checks its arguments itself.
pub(crate) fn contains<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    match &args[1] {
        Value::List(list) => Value::Bool(list.contains(&args[0], fuel)),
        Value::Map(map) => map.has(&args[0]).map_or_else(Value::Error, Value::Bool),
        other => misfit(other),
    }
}

/// Adds an entry to a map.
pub(crate) fn insert<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    match &args[0] {
        Value::Map(map) => match fuel.spend(1 + map.size()) {
            Ok(()) => map.insert(&args[1], args[2].clone()),
            Err(error) => Value::Error(error),
        },
        _ => Value::no_overload(),
    }
}

/// Adds the entries of a map to another map.
pub(crate) fn insert_all<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let Value::Map(added) = &args[1] else { return Value::no_overload() };
    let mut result = args[0].clone();
    for (key, value) in added.entries() {
        result = insert(&[result, key, value], fuel);
        if result.is_error() {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Release;

    use super::*;

    #[test]
    fn overflow_and_division_by_zero_and_mismatched_types_are_errors() {
        let fuel = Fuel::new(Release::V1_36);
        let (min, max) = (Value::Int(i64::MIN), Value::Int(i64::MAX));
        for (result, expected) in [
            (add(&[max.clone(), Value::Int(1)], &fuel), INT_OVERFLOW),
            (subtract(&[Value::Uint(0), Value::Uint(1)], &fuel), UINT_OVERFLOW),
            (multiply(&[max, Value::Int(2)], &fuel), INT_OVERFLOW),
            (divide(&[min.clone(), Value::Int(-1)], &fuel), INT_OVERFLOW),
            (modulo(&[min.clone(), Value::Int(-1)], &fuel), INT_OVERFLOW),
            (negate(&[min], &fuel), INT_OVERFLOW),
            (divide(&[Value::Int(1), Value::Int(0)], &fuel), DIVISION),
            (modulo(&[Value::Uint(1), Value::Uint(0)], &fuel), MODULUS),
            (add(&[Value::Int(1), Value::Double(1.0)], &fuel), "no such overload"),
        ] {
            assert_eq!(result.go_print(), expected);
        }
    }
}
