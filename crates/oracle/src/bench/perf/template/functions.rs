//! The functions of templates: some of Go's own, and those that `scheduler_perf` adds.

use super::datum::Datum;

/// Calls a function.
pub(super) fn call(function: &str, arguments: &[Datum]) -> Result<Datum, String> {
    let numbers = || arguments.iter().map(Datum::number).collect::<Result<Vec<_>, _>>();
    let float = |compute: fn(&[f64]) -> f64| Ok(Datum::Float(compute(&numbers()?)));
    // The fraction is cut off, as by a conversion in Go.
    let int = |compute: fn(&[f64]) -> f64| Ok(Datum::Int(compute(&numbers()?) as i64));
    match function {
        "AddInt" => int(|all| all.iter().sum()),
        "AddFloat" => float(|all| all.iter().sum()),
        "MultiplyInt" => int(|all| all.iter().product()),
        "MultiplyFloat" => float(|all| all.iter().product()),
        "SubtractInt" => two(arguments).and(int(|all| all[0] - all[1])),
        "SubtractFloat" => two(arguments).and(float(|all| all[0] - all[1])),
        "DivideInt" => divisor(arguments).and_then(|_| int(|all| all[0] / all[1])),
        "DivideFloat" => divisor(arguments).and_then(|_| float(|all| all[0] / all[1])),
        "Mod" => {
            let (number, divisor) = (two(arguments)?.0.number()? as i64, divisor(arguments)? as i64);
            number.checked_rem(divisor).map(Datum::Int).ok_or_else(|| "division by zero".to_owned())
        }
        "Int" => one(arguments)?.number().map(|number| Datum::Int(number as i64)),
        "JSON" => Ok(Datum::Text(one(arguments)?.to_json().to_string())),
        "not" => Ok(Datum::Bool(!one(arguments)?.is_true())),
        "or" => Ok(first_or_last(arguments, Datum::is_true)),
        "and" => Ok(first_or_last(arguments, |value| !value.is_true())),
        "eq" => {
            let (first, rest) = arguments.split_first().ok_or("eq needs arguments")?;
            Ok(Datum::Bool(rest.iter().any(|other| is_equal(first, other))))
        }
        "ne" => two(arguments).map(|(left, right)| Datum::Bool(!is_equal(left, right))),
        "lt" => compare(arguments, |left, right| left < right),
        "le" => compare(arguments, |left, right| left <= right),
        "gt" => compare(arguments, |left, right| left > right),
        "ge" => compare(arguments, |left, right| left >= right),
        _ => Err(format!("unknown function {function}")),
    }
}

fn one(arguments: &[Datum]) -> Result<&Datum, String> {
    match arguments {
        [only] => Ok(only),
        _ => Err(format!("the function takes one argument, not {}", arguments.len())),
    }
}

fn two(arguments: &[Datum]) -> Result<(&Datum, &Datum), String> {
    match arguments {
        [left, right] => Ok((left, right)),
        _ => Err(format!("the function takes two arguments, not {}", arguments.len())),
    }
}

/// Returns the second of two numbers, which must not be zero.
fn divisor(arguments: &[Datum]) -> Result<f64, String> {
    match two(arguments)?.1.number()? {
        0.0 => Err("division by zero".to_owned()),
        number => Ok(number),
    }
}

/// Returns the first argument that `decides`, or the last one.
fn first_or_last(arguments: &[Datum], decides: impl Fn(&Datum) -> bool) -> Datum {
    let found = arguments.iter().find(|value| decides(value)).or(arguments.last());
    found.cloned().unwrap_or(Datum::Nil)
}

fn is_equal(left: &Datum, right: &Datum) -> bool {
    match (left, right) {
        (Datum::Int(_) | Datum::Float(_), Datum::Int(_) | Datum::Float(_)) => left.number() == right.number(),
        _ => left == right,
    }
}

fn compare(arguments: &[Datum], holds: fn(f64, f64) -> bool) -> Result<Datum, String> {
    let (left, right) = two(arguments)?;
    Ok(Datum::Bool(holds(left.number()?, right.number()?)))
}
