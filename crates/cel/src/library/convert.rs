//! Conversions between types.

use crate::{errors::EvalError, eval::Evaluated, functions::Function, value::Value};

/// Calls a conversion; returns `None` for other functions and arguments.
pub(super) fn call<'a>(function: Function, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    let [value] = args else { return None };
    match function {
        Function::ToBool => to_bool(value),
        Function::ToBytes => match value {
            Value::Bytes(_) => Some(Ok(value.clone())),
            Value::String(text) => Some(Ok(Value::Bytes(text.as_str().as_bytes().into()))),
            _ => None,
        },
        Function::ToDouble => to_double(value),
        Function::ToInt => to_int(value),
        Function::ToUint => to_uint(value),
        Function::ToString => to_string(value),
        _ => None,
    }
}

fn to_bool<'a>(value: &Value<'a>) -> Option<Evaluated<'a>> {
    Some(match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(EvalError::new("type conversion error from 'string' to 'bool'")),
        },
        _ => return None,
    })
}

fn to_double<'a>(value: &Value<'a>) -> Option<Evaluated<'a>> {
    Some(Ok(Value::Double(match value {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::String(text) => match text.as_str().parse() {
            Ok(number) => number,
            Err(_) => return Some(Err(invalid("ParseFloat", text.as_str()))),
        },
        _ => return None,
    })))
}

fn to_int<'a>(value: &Value<'a>) -> Option<Evaluated<'a>> {
    let number = match value {
        Value::Int(number) => Some(*number),
        Value::Uint(number) => i64::try_from(*number).ok(),
        Value::Double(number) => {
            let fits = *number > i64::MIN as f64 && *number < i64::MAX as f64;
            fits.then_some(*number as i64)
        }
        Value::String(text) => match text.as_str().parse() {
            Ok(number) => Some(number),
            Err(_) => return Some(Err(invalid("ParseInt", text.as_str()))),
        },
        _ => return None,
    };
    Some(number.map(Value::Int).ok_or_else(|| EvalError::new("integer overflow")))
}

fn to_uint<'a>(value: &Value<'a>) -> Option<Evaluated<'a>> {
    let number = match value {
        Value::Uint(number) => Some(*number),
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Double(number) => {
            let fits = *number >= 0.0 && *number < u64::MAX as f64;
            fits.then_some(*number as u64)
        }
        Value::String(text) => match text.as_str().parse() {
            Ok(number) => Some(number),
            Err(_) => return Some(Err(invalid("ParseUint", text.as_str()))),
        },
        _ => return None,
    };
    Some(number.map(Value::Uint).ok_or_else(|| EvalError::new("unsigned integer overflow")))
}

fn to_string<'a>(value: &Value<'a>) -> Option<Evaluated<'a>> {
    Some(Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(value) => Value::string(value.to_string()),
        Value::Int(number) => Value::string(number.to_string()),
        Value::Uint(number) => Value::string(number.to_string()),
        Value::Double(number) => Value::string(number.to_string()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::string(text),
            Err(_) => return Some(Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string"))),
        },
        _ => return None,
    }))
}

/// Returns the error of Go's functions that parse numbers.
fn invalid(function: &str, text: &str) -> EvalError {
    EvalError::new(format!("strconv.{function}: parsing {text:?}: invalid syntax"))
}

/// Returns true if a value is the zero value of its type.
pub(super) fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Optional(None) => true,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        _ => false,
    }
}
