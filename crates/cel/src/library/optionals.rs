//! Functions of optional values.

use crate::{fuel::Fuel, value::Value};

pub(crate) fn of<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::optional(args[0].clone())
}

pub(crate) fn of_non_zero<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    if args[0].is_zero() { Value::Optional(None) } else { Value::optional(args[0].clone()) }
}

pub(crate) fn none<'a>(_: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Optional(None)
}

pub(crate) fn value<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    match &args[0] {
        Value::Optional(Some(value)) => (**value).clone(),
        _ => Value::fail("optional.none() dereference"),
    }
}

pub(crate) fn has_value<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(matches!(args[0], Value::Optional(Some(_))))
}

pub(crate) fn first<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let first = args[0].as_list().and_then(|list| list.get(0));
    first.map_or(Value::Optional(None), Value::optional)
}

pub(crate) fn last<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let last = args[0].as_list().and_then(|list| list.get(list.len().checked_sub(1)?));
    last.map_or(Value::Optional(None), Value::optional)
}

/// Returns the values of the optionals that have a value. An element that is not an optional is an error.
pub(crate) fn unwrap<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let mut values = Vec::new();
    for element in args[0].as_list().into_iter().flat_map(|list| list.iter()) {
        match element {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => values.push((*value).clone()),
            other => return Value::error(format!("value {} is not optional", other.go_print())),
        }
    }
    Value::list(values)
}
