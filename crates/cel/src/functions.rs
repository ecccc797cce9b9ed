//! Functions and operators: their signatures, and the operations that compute them.

mod network;
mod operators;
mod optionals;
mod sequences;
mod standard;
mod texts;
mod values;

use std::{collections::HashMap, fmt, sync::OnceLock};

use crate::{
    fuel::Fuel,
    signature::Sig,
    value::{Traits, Value},
};

/// Computes the result of a function from its arguments. The first argument of a member function is its target.
pub(crate) type Op = for<'a> fn(&[Value<'a>], &Fuel) -> Value<'a>;

/// A function or operator.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: &'static [Overload],
    pub(crate) binding: Binding,
}

/// Way in which a function is computed.
#[derive(Clone, Copy)]
pub(crate) enum Binding {
    /// Every overload has its own operation, and its arguments are checked.
    Overloads,
    /// Like [`Self::Overloads`], but the operations check their arguments themselves.
    Unguarded,
    /// One operation for all overloads. The operation is not called if the first argument lacks the traits.
    Single(Op, Traits),
    /// The evaluator computes the function itself.
    Evaluator,
}

/// An overload of a function.
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) is_member: bool,
    pub(crate) args: &'static [Sig],
    pub(crate) result: Sig,
    pub(crate) op: Op,
    /// True if evaluation of the arguments stops at the first one that is an error.
    pub(crate) stops_at_error: bool,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// An overload that is called as `function(arguments)`.
const fn global(id: &'static str, args: &'static [Sig], result: Sig, op: Op) -> Overload {
    Overload { id, is_member: false, args, result, op, stops_at_error: args.len() > 2 }
}

/// An overload that is called as `target.function(arguments)`. The target is the first of `args`.
const fn member(id: &'static str, args: &'static [Sig], result: Sig, op: Op) -> Overload {
    Overload { id, is_member: true, args, result, op, stops_at_error: args.len() > 2 }
}

/// An overload without an operation of its own.
const fn declared(id: &'static str, args: &'static [Sig], result: Sig) -> Overload {
    global(id, args, result, not_bound)
}

/// Like [`declared`], but for a member function.
const fn declared_member(id: &'static str, args: &'static [Sig], result: Sig) -> Overload {
    member(id, args, result, not_bound)
}

fn not_bound<'a>(_: &[Value<'a>], _: &Fuel) -> Value<'a> {
    Value::no_overload()
}

/// A function whose overloads have their own operations.
const fn function(name: &'static str, overloads: &'static [Overload]) -> Function {
    Function { name, overloads, binding: Binding::Overloads }
}

const A: Sig = Sig::Param("A");
const B: Sig = Sig::Param("B");
const LIST_OF_A: Sig = Sig::List(&A);
const MAP_OF_AB: Sig = Sig::Map(&A, &B);
const LIST_OF_STRINGS: Sig = Sig::List(&Sig::String);

/// Name of the function that new expressions can call only if list-type attributes are enabled.
pub(crate) const INCLUDES: &str = "includes";

pub(crate) use standard::DURATION_AS_OF_1_37;

/// Returns the function with the name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    static ALL: OnceLock<HashMap<&str, &Function>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let groups = [
            operators::FUNCTIONS,
            standard::FUNCTIONS,
            texts::FUNCTIONS,
            sequences::FUNCTIONS,
            optionals::FUNCTIONS,
            network::FUNCTIONS,
        ];
        groups
            .into_iter()
            .chain(values::FUNCTIONS)
            .flatten()
            .map(|function| (function.name, function))
            .collect()
    });
    all.get(name).copied()
}

/// Returns the error for arguments that no overload accepts, or the first argument that is an error.
pub(crate) fn no_such_overload<'a>(function: &str, args: &[Value<'a>]) -> Value<'a> {
    if let Some(error) = args.iter().find(|arg| arg.is_error()) {
        return error.clone();
    }
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    Value::error(format!("no such overload: {function}({})", types.join(", ")))
}

impl Function {
    /// Calls the first overload that accepts the arguments.
    pub(crate) fn call<'a>(&self, args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
        match self.overloads.iter().find(|overload| overload.fits(args)) {
            Some(overload) => (overload.op)(args, fuel),
            None => no_such_overload(self.name, args),
        }
    }
}

impl Overload {
    /// Returns true if the arguments fit at run time.
    pub(crate) fn fits(&self, args: &[Value<'_>]) -> bool {
        self.args.len() == args.len()
            && self.args.iter().zip(args).all(|(sig, arg)| !arg.is_error() && sig.fits(arg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name() {
        for name in
            ["_+_", "size", "format", "sort", "optional.of", "quantity", "cidr", "validate", "includes"]
        {
            assert_eq!(find(name).map(|function| function.name), Some(name));
        }
        assert!(find("missing").is_none());
    }
}
