//! Functions of quantities.

use super::text;
use crate::{amount::Amount, fuel::Fuel, value::Value};

/// Returns the amount of a quantity or of an integer; zero for any other value.
pub(crate) fn amount(value: &Value<'_>) -> Amount {
    match value {
        Value::Quantity(quantity) => quantity.amount(),
        Value::Int(value) => Amount::of_int(*value),
        _ => Amount::of_int(0),
    }
}

pub(crate) fn parse<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let Value::String(text) = &args[0] else { return Value::no_overload() };
    Amount::parse(text.as_str()).map_or_else(Value::fail, |amount| Value::written_amount(amount, text))
}

pub(crate) fn is_valid<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(Amount::parse(text(args, 0)).is_ok())
}

pub(crate) fn sign<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Int(amount(&args[0]).sign())
}

pub(crate) fn as_double<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Double(amount(&args[0]).as_double())
}

pub(crate) fn as_int<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    amount(&args[0]).as_int().map_or(Value::fail("cannot convert value to integer"), Value::Int)
}

pub(crate) fn is_int<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(amount(&args[0]).as_int().is_some())
}

pub(crate) fn add<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::computed_amount(amount(&args[0]).add(&amount(&args[1])))
}

pub(crate) fn subtract<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::computed_amount(amount(&args[0]).subtract(&amount(&args[1])))
}
