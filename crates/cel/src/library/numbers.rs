//! Arithmetic, quantities and versions.

use std::cmp::Ordering;

use harbormaster_api::Quantity;

use crate::{errors::EvalError, eval::Evaluated, functions::Function, semver::Semver, value::Value};

const NANOS: i128 = 1_000_000_000;

/// Calls a function of numbers; returns `None` for other functions and arguments.
pub(super) fn call<'a>(function: Function, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    use Function as F;
    Some(match (function, args) {
        (F::Negate, [Value::Int(number)]) => int(number.checked_neg()),
        (F::Negate, [Value::Double(number)]) => Ok(Value::Double(-number)),
        (F::Add, [Value::Int(a), Value::Int(b)]) => int(a.checked_add(*b)),
        (F::Subtract, [Value::Int(a), Value::Int(b)]) => int(a.checked_sub(*b)),
        (F::Multiply, [Value::Int(a), Value::Int(b)]) => int(a.checked_mul(*b)),
        (F::Divide, [Value::Int(_), Value::Int(0)]) => Err(EvalError::new("division by zero")),
        (F::Modulo, [Value::Int(_), Value::Int(0)]) => Err(EvalError::new("modulus by zero")),
        (F::Divide, [Value::Int(a), Value::Int(b)]) => int(a.checked_div(*b)),
        (F::Modulo, [Value::Int(a), Value::Int(b)]) => int(a.checked_rem(*b)),
        (F::Add, [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_add(*b)),
        (F::Subtract, [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_sub(*b)),
        (F::Multiply, [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_mul(*b)),
        (F::Divide, [Value::Uint(_), Value::Uint(0)]) => Err(EvalError::new("division by zero")),
        (F::Modulo, [Value::Uint(_), Value::Uint(0)]) => Err(EvalError::new("modulus by zero")),
        (F::Divide, [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_div(*b)),
        (F::Modulo, [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_rem(*b)),
        (F::Add, [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a + b)),
        (F::Subtract, [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a - b)),
        (F::Multiply, [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a * b)),
        (F::Divide, [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a / b)),

        (F::ToQuantity, [Value::String(text)]) => match text.as_str().parse::<Quantity>() {
            Ok(quantity) => Ok(Value::Quantity(quantity.nanos())),
            Err(why) => Err(EvalError::new(why.problem.to_string())),
        },
        (F::IsQuantity, [Value::String(text)]) => Ok(Value::Bool(text.as_str().parse::<Quantity>().is_ok())),
        (F::Sign, [Value::Quantity(nanos)]) => Ok(Value::Int(nanos.signum() as i64)),
        (F::IsInteger, [Value::Quantity(nanos)]) => Ok(Value::Bool(whole(*nanos).is_some())),
        (F::AsInteger, [Value::Quantity(nanos)]) => match whole(*nanos) {
            Some(number) => Ok(Value::Int(number)),
            None => Err(EvalError::new("cannot convert value to integer")),
        },
        (F::AsFloat, [Value::Quantity(nanos)]) => Ok(Value::Double(*nanos as f64 / NANOS as f64)),
        (F::AddTo, [Value::Quantity(a), b]) => Ok(Value::Quantity(a.saturating_add(nanos(b)?))),
        (F::SubtractFrom, [Value::Quantity(a), b]) => Ok(Value::Quantity(a.saturating_sub(nanos(b)?))),
        (F::IsGreaterThan | F::IsLessThan | F::CompareTo, [a, b]) => {
            let ordering = match (a, b) {
                (Value::Quantity(a), Value::Quantity(b)) => a.cmp(b),
                (Value::Semver(a), Value::Semver(b)) => a.compare(b),
                _ => return None,
            };
            Ok(match function {
                F::IsGreaterThan => Value::Bool(ordering == Ordering::Greater),
                F::IsLessThan => Value::Bool(ordering == Ordering::Less),
                _ => Value::Int(ordering as i64),
            })
        }

        (F::ToSemver, [Value::String(text)]) => semver(Semver::parse(text.as_str())),
        (F::ToSemver, [Value::String(text), Value::Bool(normalize)]) => {
            semver(parse(text.as_str(), *normalize))
        }
        (F::IsSemver, [Value::String(text)]) => Ok(Value::Bool(Semver::parse(text.as_str()).is_ok())),
        (F::IsSemver, [Value::String(text), Value::Bool(normalize)]) => {
            Ok(Value::Bool(parse(text.as_str(), *normalize).is_ok()))
        }
        (F::Major, [Value::Semver(version)]) => int(i64::try_from(version.major).ok()),
        (F::Minor, [Value::Semver(version)]) => int(i64::try_from(version.minor).ok()),
        (F::Patch, [Value::Semver(version)]) => int(i64::try_from(version.patch).ok()),
        _ => return None,
    })
}

fn int<'a>(number: Option<i64>) -> Evaluated<'a> {
    number.map(Value::Int).ok_or_else(|| EvalError::new("integer overflow"))
}

fn uint<'a>(number: Option<u64>) -> Evaluated<'a> {
    number.map(Value::Uint).ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

/// Returns a quantity as an integer, if it is one.
fn whole(nanos: i128) -> Option<i64> {
    (nanos % NANOS == 0).then(|| i64::try_from(nanos / NANOS).ok())?
}

fn nanos(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Quantity(nanos) => Some(*nanos),
        Value::Int(number) => Some(i128::from(*number) * NANOS),
        _ => None,
    }
}

fn parse(text: &str, normalize: bool) -> Result<Semver, String> {
    if normalize { Semver::parse_tolerant(text) } else { Semver::parse(text) }
}

fn semver<'a>(version: Result<Semver, String>) -> Evaluated<'a> {
    version.map(|version| Value::Semver(version.into())).map_err(EvalError::new)
}
