//! Functions of lists.

use std::cmp::Ordering;

use crate::{
    fuel::{Fuel, LARGEST},
    list::List,
    value::{Error, Value},
};

use super::int;

/// Calls a function with the first argument, or returns an error if the argument is not a list.
fn with_list<'a>(args: &[Value<'a>], result: impl FnOnce(&List<'a>) -> Value<'a>) -> Value<'a> {
    match &args[0] {
        Value::List(list) => result(list),
        other => other.clone().or_no_overload(),
    }
}

fn index_of_element<'a>(
    args: &[Value<'a>],
    fuel: &Fuel,
    find: impl FnOnce(&mut dyn FnMut(usize) -> bool, usize) -> Option<usize>,
) -> Value<'a> {
    with_list(args, |list| {
        let mut is_equal = |at: usize| {
            let element = list.get(at);
            element.is_some_and(|element| matches!(element.equals(&args[1], fuel), Value::Bool(true)))
        };
        Value::Int(find(&mut is_equal, list.len()).map_or(-1, |at| at as i64))
    })
}

pub(crate) fn index_of<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    index_of_element(args, fuel, |is_equal, len| (0..len).find(|at| is_equal(*at)))
}

pub(crate) fn last_index_of<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    index_of_element(args, fuel, |is_equal, len| (0..len).rev().find(|at| is_equal(*at)))
}

fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    )
}

/// Elements that cannot be compared with each other count as sorted.
pub(crate) fn is_sorted<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    with_list(args, |list| {
        let mut previous: Option<Value<'a>> = None;
        for element in list.iter() {
            if !is_comparable(&element) {
                return element.or_no_overload();
            }
            if previous.is_some_and(|previous| previous.compare(&element).is_ok_and(Ordering::is_gt)) {
                return Value::Bool(false);
            }
            previous = Some(element);
        }
        Value::Bool(true)
    })
}

fn sum<'a>(args: &[Value<'a>], fuel: &Fuel, zero: Value<'a>) -> Value<'a> {
    with_list(args, |list| {
        let mut sum = zero;
        for element in list.iter() {
            if !element.traits().contain(crate::value::Traits::ADDER) {
                return element.or_no_overload();
            }
            sum = super::arithmetic::add(&[sum, element], fuel);
            if sum.is_error() {
                break;
            }
        }
        sum
    })
}

pub(crate) fn sum_ints<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    sum(args, fuel, Value::Int(0))
}

pub(crate) fn sum_uints<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    sum(args, fuel, Value::Uint(0))
}

pub(crate) fn sum_doubles<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    sum(args, fuel, Value::Double(0.0))
}

pub(crate) fn sum_durations<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    sum(args, fuel, Value::Duration(0))
}

/// Returns the largest or smallest element. An element replaces the best one so far if comparing that one with it gives
/// `replaced`.
fn extreme<'a>(args: &[Value<'a>], name: &str, replaced: Ordering) -> Value<'a> {
    with_list(args, |list| {
        let mut best: Option<Value<'a>> = None;
        for element in list.iter() {
            if !is_comparable(&element) {
                return element.or_no_overload();
            }
            let is_better =
                best.as_ref().is_none_or(|best| best.compare(&element).is_ok_and(|it| it == replaced));
            if is_better {
                best = Some(element);
            }
        }
        best.unwrap_or_else(|| Value::error(format!("{name} called on empty list")))
    })
}

pub(crate) fn max<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    extreme(args, "max", Ordering::Less)
}

pub(crate) fn min<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    extreme(args, "min", Ordering::Greater)
}

pub(crate) fn slice<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let (start, end) = (int(args, 1, 0), int(args, 2, 0));
    with_list(args, |list| {
        let len = list.len() as i64;
        let fail = |why: &str| Value::error(format!("cannot slice({start}, {end}), {why}"));
        if start < 0 || end < 0 {
            return fail("negative indexes not supported");
        }
        if start > end {
            return fail("start index must be less than or equal to end index");
        }
        if len < end {
            return fail(&format!("list is length {len}"));
        }
        copied(fuel, start as usize..end as usize, list)
    })
}

/// Copies elements into a new list.
fn copied<'a>(fuel: &Fuel, positions: impl ExactSizeIterator<Item = usize>, list: &List<'a>) -> Value<'a> {
    match fuel.spend(positions.len()) {
        Ok(()) => Value::list(positions.filter_map(|at| list.get(at)).collect()),
        Err(error) => Value::Error(error),
    }
}

/// `flatten`, which checks its arguments itself.
pub(crate) fn flatten<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let shown = |at: usize| Value::of_type(args[at].type_name()).go_print();
    let (list, depth) = match (&args[0], args.get(1)) {
        (Value::List(list), None) => (list, 1),
        (Value::List(list), Some(Value::Int(depth))) => (list, *depth),
        (_, None) => return Value::error(format!("no such overload: {}.flatten()", shown(0))),
        (_, Some(_)) => {
            return Value::error(format!("no such overload: {}.flatten({})", shown(0), shown(1)));
        }
    };
    if depth < 0 {
        return Value::fail("level must be non-negative");
    }
    let mut flat = Vec::new();
    match flatten_into(list, depth, &mut flat, fuel) {
        Ok(()) => Value::list(flat),
        Err(error) => Value::Error(error),
    }
}

fn flatten_into<'a>(
    list: &List<'a>,
    depth: i64,
    into: &mut Vec<Value<'a>>,
    fuel: &Fuel,
) -> Result<(), Error> {
    for element in list.iter() {
        fuel.spend(1)?;
        match element {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, into, fuel)?,
            other => into.push(other),
        }
        if into.len() > LARGEST {
            return Err(Error::too_expensive());
        }
    }
    Ok(())
}

pub(crate) fn sort<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    with_list(args, |list| sorted(list, list, fuel))
}

/// Sorts a list by the elements of another one.
pub(crate) fn sort_by_keys<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    with_list(args, |list| match &args[1] {
        Value::List(keys) => sorted(list, keys, fuel),
        _ => Value::no_overload(),
    })
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>, fuel: &Fuel) -> Value<'a> {
    if list.len() != keys.len() {
        return Value::error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        ));
    }
    if let Err(error) = fuel.spend(keys.len()) {
        return Value::Error(error);
    }
    let keys: Vec<Value<'a>> = keys.iter().collect();
    let Some(first) = keys.first() else { return Value::List(list.clone()) };
    if !is_comparable(first) {
        return Value::fail("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Value::fail("list elements must have the same type");
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    crate::sort::sort(&mut order, &|a, b| keys[a].compare(&keys[b]).is_ok_and(Ordering::is_lt));
    copied(fuel, order.into_iter(), list)
}

/// Maximum size of a range as of Kubernetes 1.37.
const LARGEST_RANGE: i64 = 1_000_000;

pub(crate) fn range<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let size = int(args, 0, 0);
    match () {
        () if fuel.is_since_1_37() && size < 0 => {
            Value::error(format!("lists.range: size must be non-negative, got {size}"))
        }
        () if fuel.is_since_1_37() && size > LARGEST_RANGE => {
            Value::error(format!("lists.range: size {size} exceeds maximum allowed ({LARGEST_RANGE})"))
        }
        () => Value::List(List::Range(size)),
    }
}

pub(crate) fn reverse<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    with_list(args, |list| copied(fuel, (0..list.len()).rev(), list))
}

pub(crate) fn distinct<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    with_list(args, |list| {
        let mut distinct: Vec<Value<'a>> = Vec::new();
        for (at, element) in list.iter().enumerate() {
            if let Err(error) = fuel.spend(1) {
                return Value::Error(error);
            }
            // Like cel-go, does not compare an element with the result's element at the same position.
            let mut others = distinct.iter().enumerate().filter(|(other, _)| *other != at);
            if !others.any(|(_, other)| matches!(element.equals(other, fuel), Value::Bool(true))) {
                distinct.push(element);
            }
        }
        Value::list(distinct)
    })
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Release;

    use super::*;

    fn ints(values: &[i64]) -> Value<'static> {
        Value::list(values.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn lists_are_sorted_only_by_comparable_elements_of_one_type() {
        let fuel = Fuel::new(Release::V1_36);
        assert_eq!(sort(&[ints(&[3, 1, 2])], &fuel).go_print(), "[1, 2, 3]");
        let keys = [ints(&[7, 8, 9]), ints(&[2, 1, 2])];
        assert_eq!(sort_by_keys(&keys, &fuel).go_print(), "[8, 7, 9]");
        let mixed = Value::list(vec![Value::Int(1), Value::Uint(1)]);
        assert_eq!(sort(&[mixed], &fuel).go_print(), "list elements must have the same type");
        assert_eq!(
            sort(&[Value::list(vec![Value::Null])], &fuel).go_print(),
            "list elements must be comparable"
        );
    }

    #[test]
    fn lists_are_flattened_to_a_depth() {
        let fuel = Fuel::new(Release::V1_36);
        let nested = Value::list(vec![Value::Int(1), Value::list(vec![ints(&[2]), Value::Int(3)])]);
        assert_eq!(flatten(std::slice::from_ref(&nested), &fuel).go_print(), "[1, [2], 3]");
        assert_eq!(flatten(&[nested.clone(), Value::Int(2)], &fuel).go_print(), "[1, 2, 3]");
        assert_eq!(flatten(&[nested.clone(), Value::Int(0)], &fuel).go_print(), nested.go_print());
        assert_eq!(flatten(&[Value::Int(1)], &fuel).go_print(), "no such overload: int.flatten()");
    }

    #[test]
    fn slice_and_distinct_and_reverse_and_max_and_min_and_last_index_of_work_as_in_cel() {
        let fuel = Fuel::new(Release::V1_36);
        let list = ints(&[3, 1, 3]);
        assert_eq!(slice(&[list.clone(), Value::Int(1), Value::Int(3)], &fuel).go_print(), "[1, 3]");
        let wrong = "cannot slice(1, 4), list is length 3";
        assert_eq!(slice(&[list.clone(), Value::Int(1), Value::Int(4)], &fuel).go_print(), wrong);
        assert_eq!(distinct(std::slice::from_ref(&list), &fuel).go_print(), "[3, 1]");
        assert_eq!(reverse(std::slice::from_ref(&list), &fuel).go_print(), "[3, 1, 3]");
        assert_eq!(max(std::slice::from_ref(&list), &fuel).go_print(), "3");
        assert_eq!(min(&[Value::list(vec![])], &fuel).go_print(), "min called on empty list");
        assert_eq!(last_index_of(&[list, Value::Int(3)], &fuel).go_print(), "2");
    }
}
