//! Operations of the functions and operators.
//!
//! The evaluator has checked the types of the arguments, except where the comment on a function says that the function
//! checks them itself.

pub(crate) mod arithmetic;
pub(crate) mod format;
pub(crate) mod formats;
pub(crate) mod lists;
pub(crate) mod network;
pub(crate) mod optionals;
pub(crate) mod order;
pub(crate) mod quantities;
pub(crate) mod sets;
pub(crate) mod strings;
pub(crate) mod times;
pub(crate) mod urls;
pub(crate) mod versions;

use crate::value::Value;

/// A string argument.
fn text<'v>(args: &'v [Value<'_>], at: usize) -> &'v str {
    args.get(at).and_then(Value::text).unwrap_or_default()
}

/// An integer argument, or the default if there is none.
fn int(args: &[Value<'_>], at: usize, default: i64) -> i64 {
    match args.get(at) {
        Some(Value::Int(value)) => *value,
        _ => default,
    }
}
