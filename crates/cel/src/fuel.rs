//! A limit on the work that an evaluation does inside operations.

use std::cell::Cell;

use crate::value::Error;

/// The work that an evaluation may still do inside operations.
///
/// The cost limit alone does not bound this work. The cost of an operation is added after the operation, and for most
/// operations depends only on the sizes of the operands, not on the sizes of their elements. A nested list that
/// contains the same list many times would take forever to compare.
#[derive(Debug)]
pub(crate) struct Fuel(Cell<u64>);

/// Number of elements that an evaluation may visit inside operations. An evaluation within the cost limit visits at
/// most about ten million, unless a value contains another value many times.
const ELEMENTS: u64 = 16_000_000;
/// Maximum size of a string (in bytes) or list (in elements) that an operation may create.
pub(crate) const LARGEST: usize = 1 << 25;

impl Default for Fuel {
    fn default() -> Self {
        Self(Cell::new(ELEMENTS))
    }
}

impl Fuel {
    /// Subtracts some work. Fails if less than that is left.
    pub(crate) fn spend(&self, work: usize) -> Result<(), Error> {
        match self.0.get().checked_sub(work as u64) {
            Some(rest) => {
                self.0.set(rest);
                Ok(())
            }
            None => {
                self.0.set(0);
                Err(Error::too_expensive())
            }
        }
    }

    /// Returns true if no work is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}
