//! Context of an evaluation that operations know: a limit on their work, and the release of Kubernetes.

use std::cell::Cell;

use harbormaster_api::Release;

use crate::value::Error;

/// The work that an evaluation may still do inside operations.
///
/// The cost limit alone does not bound this work. The cost of an operation is added after the operation, and for most
/// operations depends only on the sizes of the operands, not on the sizes of their elements. A nested list that
/// contains the same list many times would take forever to compare.
#[derive(Debug)]
pub(crate) struct Fuel {
    rest: Cell<u64>,
    /// Release whose operations are reproduced.
    release: Release,
}

/// Number of elements that an evaluation may visit inside operations. An evaluation within the cost limit visits at
/// most about ten million, unless a value contains another value many times.
const ELEMENTS: u64 = 16_000_000;
/// Maximum size of a string (in bytes) or list (in elements) that an operation may create.
pub(crate) const LARGEST: usize = 1 << 25;

impl Fuel {
    pub(crate) fn new(release: Release) -> Self {
        Self { rest: Cell::new(ELEMENTS), release }
    }

    /// Returns true if the release is at least Kubernetes 1.37.
    pub(crate) fn is_since_1_37(&self) -> bool {
        self.release >= Release::V1_37
    }

    /// Subtracts some work. Fails if less than that is left.
    pub(crate) fn spend(&self, work: usize) -> Result<(), Error> {
        match self.rest.get().checked_sub(work as u64) {
            Some(rest) => {
                self.rest.set(rest);
                Ok(())
            }
            None => {
                self.rest.set(0);
                Err(Error::too_expensive())
            }
        }
    }

    /// Returns true if no work is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.rest.get() == 0
    }
}
