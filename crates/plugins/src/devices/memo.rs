//! Results of selectors for the devices of one slice.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// Number of a compiled expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExpressionId(pub(super) u32);

/// Maximum number of expressions with results. Before one more is added, all results are forgotten.
const MAX_EXPRESSIONS: usize = 64;

/// Results by expression and device. Errors are not kept.
#[derive(Debug)]
pub(super) struct SelectorMemo {
    devices: usize,
    results: Mutex<FxHashMap<ExpressionId, Box<[Option<bool>]>>>,
}

impl SelectorMemo {
    /// Creates an empty memo for a number of devices.
    pub(super) fn new(devices: usize) -> Self {
        Self { devices, results: Mutex::default() }
    }

    /// Returns the result for a device; calls `evaluate` if it is not known.
    pub(super) fn get<E>(
        &self,
        expression: ExpressionId,
        device: usize,
        evaluate: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if results.len() >= MAX_EXPRESSIONS && !results.contains_key(&expression) {
            results.clear();
        }
        let known = results.entry(expression).or_insert_with(|| vec![None; self.devices].into());
        match known.get_mut(device) {
            Some(Some(result)) => Ok(*result),
            Some(unknown) => {
                let result = evaluate()?;
                *unknown = Some(result);
                Ok(result)
            }
            None => evaluate(),
        }
    }
}
