//! Comparison of quantities and of semantic versions.

use std::cmp::Ordering;

use super::quantities::amount;
use crate::{fuel::Fuel, value::Value};

fn order(args: &[Value<'_>]) -> Ordering {
    match (&args[0], &args[1]) {
        (Value::Semver(a), Value::Semver(b)) => a.compare(b),
        (a, b) => amount(a).compare(&amount(b)),
    }
}

pub(crate) fn is_greater<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(order(args).is_gt())
}

pub(crate) fn is_less<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(order(args).is_lt())
}

pub(crate) fn compare<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Int(order(args) as i64)
}
