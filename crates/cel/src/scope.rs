//! Variables of the loops that are being evaluated.

use std::cell::{Cell, RefCell};

use crate::{plan::Loop, value::Value};

/// Variables of a loop.
#[derive(Debug)]
pub(crate) struct Scope<'s, 'a> {
    /// Variables of the loop around this one.
    pub(crate) outer: Option<&'s Scope<'s, 'a>>,
    pub(crate) node: &'a Loop,
    /// `None` until the accumulator is read or computed for the first time.
    pub(crate) accumulator: RefCell<Option<Value<'a>>>,
    pub(crate) first: RefCell<Value<'a>>,
    pub(crate) second: RefCell<Value<'a>>,
    /// True if the accumulator began as an empty list or map, which the loop changes in place.
    pub(crate) is_mutable: Cell<bool>,
}

impl<'s, 'a> Scope<'s, 'a> {
    pub(crate) fn new(node: &'a Loop, outer: Option<&'s Scope<'s, 'a>>) -> Self {
        Self {
            outer,
            node,
            accumulator: RefCell::new(None),
            first: RefCell::new(Value::Null),
            second: RefCell::new(Value::Null),
            is_mutable: Cell::new(false),
        }
    }

    /// Returns the variables of the loop that is `count` levels further out.
    pub(crate) fn up(&self, count: u32) -> Option<&Scope<'s, 'a>> {
        let mut scope = self;
        for _ in 0..count {
            scope = scope.outer?;
        }
        Some(scope)
    }
}
