//! Implementations of the functions.

mod collections;
mod convert;
mod numbers;
mod strings;

use std::cmp::Ordering;

use crate::{
    errors::EvalError,
    eval::Evaluated,
    functions::Function,
    value::{NotAMap, Value},
};

/// Calls a function. The target of a member function is the first argument.
pub(crate) fn call(function: Function, args: Vec<Value<'_>>) -> Evaluated<'_> {
    use Function as F;
    match (function, args.as_slice()) {
        (F::Not, [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        (F::Equals, [a, b]) => Ok(Value::Bool(a.equals(b))),
        (F::NotEquals, [a, b]) => Ok(Value::Bool(!a.equals(b))),
        (F::Less, [a, b]) => ordered(a, b, |ordering| ordering == Ordering::Less),
        (F::LessEquals, [a, b]) => ordered(a, b, |ordering| ordering != Ordering::Greater),
        (F::Greater, [a, b]) => ordered(a, b, |ordering| ordering == Ordering::Greater),
        (F::GreaterEquals, [a, b]) => ordered(a, b, |ordering| ordering != Ordering::Less),
        (F::Index, [of, key]) => index(of, key, false),
        (F::OptionalIndex, [of, key]) => index(of, key, true),
        (F::In, [element, Value::List(list)]) => {
            Ok(Value::Bool(list.iter().any(|known| known.equals(element))))
        }
        (F::In, [key, map]) => map.has_key(key).map(Value::Bool).map_err(|NotAMap| EvalError::no_overload()),
        (F::ToDyn, [value]) => Ok(value.clone()),
        (F::TypeOf, [value]) => Ok(Value::Type(value.type_name())),
        (F::OptionalOf, [value]) => Ok(Value::optional(Some(value.clone()))),
        (F::OptionalOfNonZero, [value]) => {
            Ok(Value::optional((!convert::is_zero(value)).then(|| value.clone())))
        }
        (F::OptionalNone, []) => Ok(Value::optional(None)),
        (F::HasValue, [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        (F::OptionalValue, [Value::Optional(Some(value))]) => Ok((**value).clone()),
        (F::OptionalValue, [Value::Optional(None)]) => Err(EvalError::new("optional.none() dereference")),
        (F::Add, [Value::List(a), Value::List(b)]) => {
            Ok(Value::list(a.iter().chain(b.iter()).cloned().collect()))
        }
        _ => numbers::call(function, &args)
            .or_else(|| convert::call(function, &args))
            .or_else(|| strings::call(function, &args))
            .or_else(|| collections::call(function, &args))
            .unwrap_or_else(|| Err(EvalError::no_overload())),
    }
}

/// Returns the cost of a call: one, or more if the call reads all of a string or list.
pub(crate) fn cost(function: Function, args: &[Value<'_>]) -> usize {
    use Function as F;
    let size = |value: Option<&Value<'_>>| match value {
        Some(Value::List(list)) => list.len(),
        Some(Value::String(text)) => text.as_str().len().div_ceil(10),
        _ => 1,
    };
    match function {
        F::Matches | F::Find | F::FindAll => size(args.first()).max(1) * size(args.get(1)).max(1),
        F::SetsContains | F::SetsEquivalent | F::SetsIntersects => 1 + size(args.first()) * size(args.get(1)),
        F::In => size(args.get(1)).max(1),
        F::Add
        | F::Equals
        | F::NotEquals
        | F::Contains
        | F::Replace
        | F::Split
        | F::Join
        | F::IndexOf
        | F::LastIndexOf
        | F::IsSorted
        | F::Sum
        | F::Min
        | F::Max
        | F::LowerAscii
        | F::UpperAscii => args.iter().map(|argument| size(Some(argument))).sum::<usize>().max(1),
        _ => 1,
    }
}

fn ordered<'a>(a: &Value<'a>, b: &Value<'a>, test: impl Fn(Ordering) -> bool) -> Evaluated<'a> {
    match (a.compare(b), a, b) {
        (Some(ordering), ..) => Ok(Value::Bool(test(ordering))),
        // NaN is neither less nor greater than anything.
        (None, Value::Double(_), Value::Double(_) | Value::Int(_) | Value::Uint(_))
        | (None, Value::Int(_) | Value::Uint(_), Value::Double(_)) => Ok(Value::Bool(false)),
        (None, ..) => Err(EvalError::no_overload()),
    }
}

fn index<'a>(of: &Value<'a>, key: &Value<'a>, optional: bool) -> Evaluated<'a> {
    let (of, optional) = match of {
        Value::Optional(Some(value)) => (&**value, true),
        Value::Optional(None) => return Ok(Value::optional(None)),
        other => (other, optional),
    };
    let found = match (of, key) {
        (Value::List(list), Value::Int(at)) => {
            let found = usize::try_from(*at).ok().and_then(|at| list.get(at)).cloned();
            found.ok_or_else(|| EvalError::new(format!("index out of bounds: {at}")))
        }
        (Value::List(_), _) => Err(EvalError::no_overload()),
        (map, key) => {
            let found = map.entry(key).map_err(|NotAMap| EvalError::no_overload())?;
            found.ok_or_else(|| EvalError::new(format!("no such key: {}", printed(key))))
        }
    };
    match optional {
        true => Ok(Value::optional(found.ok())),
        false => found,
    }
}

/// Returns a value as errors print it.
pub(crate) fn printed(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.as_str().to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        other => other.type_name().to_owned(),
    }
}
