//! Compiled CEL selectors.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_api::Str;
use harbormaster_cel::{self as cel, CompileError, EvalError, Features, Selector};
use rustc_hash::FxHashMap;

use super::{DeviceGates, memo::ExpressionId, pools::Slice, slice::Device};

/// Maximum number of compiled expressions. When the map is full, all of them are dropped.
const MAX_EXPRESSIONS: usize = 1024;

/// Compiled expressions of claims and classes, by text.
#[derive(Debug, Default)]
pub(super) struct Selectors(Mutex<Expressions>);

#[derive(Debug, Default)]
struct Expressions {
    compiled: FxHashMap<Str, Arc<Expression>>,
    /// Number of the next expression. A number is used again only after 2³² expressions.
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
    /// Returns the compiled form of an expression. If the expression has an error, evaluating it returns the error.
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
        // Stored expressions may read `allowMultipleAllocations` even if `DRAConsumableCapacity` is off.
        let features = Features {
            release: gates.rules.release,
            consumable_capacity: true,
            list_attributes: gates.list_attributes,
        };
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
    let capacity: Vec<_> = device.capacity.iter().map(|(name, capacity)| (&**name, capacity.value)).collect();
    selector.matches(&cel::Device {
        driver,
        attributes: device.attributes.entries(),
        capacity: &capacity,
        allow_multiple_allocations: device.allow_multiple_allocations,
    })
}
