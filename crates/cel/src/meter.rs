//! The cost of an evaluation.

use std::cell::Cell;

use crate::value::{Error, Value};

/// Counts the cost of an evaluation, as cel-go does.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    limit: u64,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { cost: Cell::new(0), limit }
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Adds the cost of an operation. Fails if the total exceeds the limit.
    ///
    /// As in cel-go, the sum wraps around, because a few costs are negative.
    pub(crate) fn add(&self, cost: u64) -> Result<(), Error> {
        let total = self.cost.get().wrapping_add(cost);
        self.cost.set(total);
        if total > self.limit { Err(Error::too_expensive()) } else { Ok(()) }
    }

    /// Adds the cost of an operation, unless its result is a fatal error. Returns the result, or an error if the total
    /// exceeds the limit.
    pub(crate) fn charge<'a>(&self, cost: u64, result: Value<'a>) -> Value<'a> {
        if matches!(&result, Value::Error(error) if error.is_fatal) {
            return result;
        }
        self.add(cost).map_or_else(Value::Error, |()| result)
    }
}
