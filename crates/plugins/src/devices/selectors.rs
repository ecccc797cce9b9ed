//! Compiled CEL selectors.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_api::Str;
use harbormaster_cel::{self as cel, CompileError, EvalError, Features, Selector};
use rustc_hash::FxHashMap;

use super::{
    DeviceGates,
    memo::ExpressionId,
    pools::Slice,
    slice::{Attribute, Device},
};

/// Maximum number of compiled expressions. When there are more, all are compiled again as they are used.
const MAX_EXPRESSIONS: usize = 1024;

/// All expressions that claims and classes have used so far.
#[derive(Debug, Default)]
pub(super) struct Selectors(Mutex<Expressions>);

#[derive(Debug, Default)]
struct Expressions {
    compiled: FxHashMap<Str, Arc<Expression>>,
    /// Number of the next expression. Numbers are never used twice.
    next: u32,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Expression {
    id: ExpressionId,
    program: Result<Selector, CompileError>,
}

/// Error of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SelectorError {
    Compile(CompileError),
    Runtime(EvalError),
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(why) => write!(f, "CEL compile error: {why}"),
            Self::Runtime(why) => write!(f, "CEL runtime error: {why}"),
        }
    }
}

impl Selectors {
    /// Returns the compiled form of an expression. An expression with an error has one, too.
    pub(super) fn compiled(&self, text: &Str, gates: DeviceGates) -> Arc<Expression> {
        let mut expressions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = expressions.compiled.get(text) {
            return known.clone();
        }
        if expressions.compiled.len() >= MAX_EXPRESSIONS {
            expressions.compiled.clear();
        }
        let id = ExpressionId(expressions.next);
        expressions.next = expressions.next.wrapping_add(1);
        // Stored expressions may read `allowMultipleAllocations` whatever the gate.
        let features = Features { consumable_capacity: true, list_attributes: gates.list_attributes };
        let compiled = Arc::new(Expression { id, program: Selector::compile(text, features) });
        expressions.compiled.insert(text.clone(), compiled.clone());
        compiled
    }
}

impl Expression {
    /// Returns true if a device of a slice matches the expression.
    pub(super) fn matches(&self, slice: &Slice, device: usize) -> Result<bool, SelectorError> {
        let selector = self.program.as_ref().map_err(|why| SelectorError::Compile(why.clone()))?;
        let evaluate = || evaluate(selector, &slice.spec.driver, &slice.spec.devices[device]);
        slice.memo.get(self.id, device, evaluate).map_err(SelectorError::Runtime)
    }
}

/// Evaluates a selector for a device.
fn evaluate(selector: &Selector, driver: &str, device: &Device) -> Result<bool, EvalError> {
    // Lists of strings are stored as shared strings, and CEL reads plain ones.
    let lists: Vec<Vec<&str>> = device
        .attributes
        .values()
        .map(|attribute| match attribute {
            Attribute::Strings(values) | Attribute::Versions(values) => values.iter().map(|v| &**v).collect(),
            _ => Vec::new(),
        })
        .collect();
    let attributes: Vec<(&str, cel::Attribute<'_>)> = device
        .attributes
        .iter()
        .zip(&lists)
        .map(|((name, attribute), list)| (&**name, converted(attribute, list)))
        .collect();
    let capacity: Vec<_> = device.capacity.iter().map(|(name, capacity)| (&**name, capacity.value)).collect();
    selector.matches(&cel::Device {
        driver,
        attributes: &attributes,
        capacity: &capacity,
        allow_multiple_allocations: device.allow_multiple_allocations,
    })
}

fn converted<'a>(attribute: &'a Attribute, list: &'a [&'a str]) -> cel::Attribute<'a> {
    match attribute {
        Attribute::Bool(value) => cel::Attribute::Bool(*value),
        Attribute::Int(value) => cel::Attribute::Int(*value),
        Attribute::String(value) => cel::Attribute::String(value),
        Attribute::Version(value) => cel::Attribute::Version(value),
        Attribute::Bools(values) => cel::Attribute::Bools(values),
        Attribute::Ints(values) => cel::Attribute::Ints(values),
        Attribute::Strings(_) => cel::Attribute::Strings(list),
        Attribute::Versions(_) => cel::Attribute::Versions(list),
        Attribute::Unknown => cel::Attribute::Unsupported,
    }
}
