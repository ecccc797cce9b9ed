//! Functions of semantic versions.

use std::rc::Rc;

use super::text;
use crate::{fuel::Fuel, semver::Semver, value::Value};

/// Parses the first argument, tolerantly if the second one is true.
fn parsed(args: &[Value<'_>]) -> Result<Semver, String> {
    match args.get(1) {
        Some(Value::Bool(true)) => Semver::parse_tolerant(text(args, 0)),
        _ => Semver::parse(text(args, 0)),
    }
}

fn part<'a>(args: &[Value<'a>], part: impl FnOnce(&Semver) -> u64) -> Value<'a> {
    match &args[0] {
        // Large numbers wrap around, as in Kubernetes.
        Value::Semver(version) => Value::Int(part(version) as i64),
        _ => Value::no_overload(),
    }
}

pub(crate) fn parse<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    parsed(args).map_or_else(Value::error, |version| Value::Semver(Rc::new(version)))
}

pub(crate) fn is_valid<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::Bool(parsed(args).is_ok())
}

pub(crate) fn major<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |version| version.major)
}

pub(crate) fn minor<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |version| version.minor)
}

pub(crate) fn patch<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    part(args, |version| version.patch)
}
