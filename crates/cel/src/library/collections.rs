//! Functions of lists, maps and bytes.

use std::cmp::Ordering;

use crate::{errors::EvalError, eval::Evaluated, functions::Function, value::Value};

/// Calls a function of lists, maps or bytes; returns `None` for other functions and arguments.
pub(super) fn call<'a>(function: Function, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    use Function as F;
    let int = |number: usize| Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    Some(match (function, args) {
        (F::Size, [Value::List(list)]) => int(list.len()),
        (F::Size, [Value::Bytes(bytes)]) => int(bytes.len()),
        (F::Size, [map]) => int(map.keys()?.len()),
        (F::Add, [Value::Bytes(a), Value::Bytes(b)]) => Ok(Value::Bytes([&**a, &**b].concat().into())),
        (F::IndexOf, [Value::List(list), element]) => {
            Ok(position(list.iter().position(|known| known.equals(element))))
        }
        (F::LastIndexOf, [Value::List(list), element]) => {
            Ok(position(list.iter().rposition(|known| known.equals(element))))
        }
        (F::IsSorted, [Value::List(list)]) => {
            Ok(Value::Bool(list.windows(2).all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater))))
        }
        (F::Sum, [Value::List(list)]) => sum(list),
        (F::Min, [Value::List(list)]) => extreme(list, "min", Ordering::Less),
        (F::Max, [Value::List(list)]) => extreme(list, "max", Ordering::Greater),
        (F::SetsContains, [Value::List(a), Value::List(b)]) => Ok(Value::Bool(contains(a, b))),
        (F::SetsEquivalent, [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(contains(a, b) && contains(b, a)))
        }
        (F::SetsIntersects, [Value::List(a), Value::List(b)]) => {
            Ok(Value::Bool(a.iter().any(|element| b.iter().any(|other| other.equals(element)))))
        }
        _ => return None,
    })
}

fn position<'a>(at: Option<usize>) -> Value<'a> {
    Value::Int(at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)))
}

fn contains<'a>(set: &[Value<'a>], elements: &[Value<'a>]) -> bool {
    elements.iter().all(|element| set.iter().any(|known| known.equals(element)))
}

/// Returns the sum of a list. The sum of an empty list is the integer zero.
fn sum<'a>(list: &[Value<'a>]) -> Evaluated<'a> {
    let mut elements = list.iter().cloned();
    let Some(first) = elements.next() else { return Ok(Value::Int(0)) };
    elements.try_fold(first, |sum, element| super::call(Function::Add, vec![sum, element]))
}

fn extreme<'a>(list: &[Value<'a>], name: &str, wanted: Ordering) -> Evaluated<'a> {
    let better = |best: Value<'a>, other: &Value<'a>| match other.compare(&best) {
        Some(ordering) if ordering == wanted => other.clone(),
        _ => best,
    };
    let first =
        list.first().cloned().ok_or_else(|| EvalError::new(format!("{name} called on empty list")))?;
    Ok(list[1..].iter().fold(first, better))
}
