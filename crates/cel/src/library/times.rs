//! Parts of times and durations.

use super::text;
use crate::{
    fuel::Fuel,
    time::{Civil, in_units},
    value::Value,
};

const HOUR: i64 = 60 * MINUTE;
const MINUTE: i64 = 60 * SECOND;
const SECOND: i64 = 1_000_000_000;

/// Returns a part of a time in the zone that the second argument names, or in UTC.
fn part<'a>(args: &[Value<'a>], part: impl FnOnce(&Civil) -> i64) -> Value<'a> {
    let Value::Timestamp(time) = &args[0] else { return Value::no_overload() };
    let offset = match args.get(1) {
        Some(_) => time.offset_in(text(args, 1)),
        None => Ok(0),
    };
    offset.map_or_else(Value::error, |offset| Value::Int(part(&time.civil(offset))))
}

/// Returns a part of a time, or the number of units in a duration.
fn part_or_units<'a>(args: &[Value<'a>], unit: i64, of: impl FnOnce(&Civil) -> i64) -> Value<'a> {
    match &args[0] {
        Value::Duration(nanos) => Value::Int(in_units(*nanos, unit) as i64),
        _ => part(args, of),
    }
}

pub(crate) fn year<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |civil| civil.year)
}

pub(crate) fn month<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |civil| civil.month - 1)
}

pub(crate) fn day_of_year<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |civil| civil.day_of_year)
}

pub(crate) fn day_of_month<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |civil| civil.day - 1)
}

pub(crate) fn date<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |civil| civil.day)
}

pub(crate) fn day_of_week<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |civil| civil.weekday)
}

pub(crate) fn hours<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part_or_units(args, HOUR, |civil| civil.hour)
}

pub(crate) fn minutes<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part_or_units(args, MINUTE, |civil| civil.minute)
}

pub(crate) fn seconds<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part_or_units(args, SECOND, |civil| civil.second)
}

pub(crate) fn milliseconds<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match &args[0] {
        Value::Duration(nanos) => Value::Int(nanos / 1_000_000),
        Value::Timestamp(time) => part(args, |_| i64::from(time.nanos() / 1_000_000)),
        _ => Value::no_overload(),
    }
}
