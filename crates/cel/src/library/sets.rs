//! Functions that treat lists as sets.

use crate::{fuel::Fuel, list::List, value::Value};

fn is_subset<'a>(of: &List<'a>, list: &List<'a>, fuel: &Fuel) -> bool {
    list.iter().all(|element| of.contains(&element, fuel))
}

fn both<'a>(args: &[Value<'a>], holds: impl FnOnce(&List<'a>, &List<'a>) -> bool) -> Value<'a> {
    match (&args[0], &args[1]) {
        (Value::List(a), Value::List(b)) => Value::Bool(holds(a, b)),
        _ => Value::no_overload(),
    }
}

pub(crate) fn contains<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    both(args, |a, b| is_subset(a, b, fuel))
}

pub(crate) fn equivalent<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    both(args, |a, b| is_subset(a, b, fuel) && is_subset(b, a, fuel))
}

pub(crate) fn intersects<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    both(args, |a, b| a.iter().any(|element| b.contains(&element, fuel)))
}
