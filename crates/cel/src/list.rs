//! Lists.

use std::{cell::RefCell, rc::Rc};

use harbormaster_api::Str;

use crate::{
    constant::ConstantList,
    fuel::Fuel,
    value::{Text, Value},
};

/// A list.
#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Values(Rc<[Value<'a>]>),
    /// A constant of the expression.
    Constant(&'a ConstantList),
    Bools(&'a [bool]),
    Ints(&'a [i64]),
    Strings(&'a [Str]),
    Versions(&'a [Str]),
    /// The numbers from zero up to, but not including, this one.
    Range(i64),
    /// Two lists, neither of which is empty.
    Concat(Rc<Concat<'a>>),
    /// The accumulator of a loop, if it began as an empty list. Additions change it in place.
    Mutable(Rc<RefCell<Vec<Value<'a>>>>),
}

/// Two lists, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Concat<'a> {
    first: List<'a>,
    second: List<'a>,
    /// Number of nested concatenations on the deepest path.
    depth: u32,
}

/// Maximum depth of nested concatenations. A deeper one copies its elements instead.
const DEEPEST: u32 = 500;

impl<'a> List<'a> {
    pub(crate) fn mutable() -> Self {
        Self::Mutable(Rc::default())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Constant(values) => values.elements().len(),
            Self::Bools(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Strings(values) | Self::Versions(values) => values.len(),
            Self::Range(end) => usize::try_from(*end).unwrap_or(0),
            Self::Concat(both) => both.first.len().saturating_add(both.second.len()),
            Self::Mutable(values) => values.borrow().len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        let (mut list, mut index) = (self, index);
        while let Self::Concat(both) = list {
            let first = both.first.len();
            if index < first {
                list = &both.first;
            } else {
                list = &both.second;
                index -= first;
            }
        }
        Some(match list {
            Self::Values(values) => values.get(index)?.clone(),
            Self::Constant(values) => values.elements().get(index)?.value(),
            Self::Bools(values) => Value::Bool(*values.get(index)?),
            Self::Ints(values) => Value::Int(*values.get(index)?),
            Self::Strings(values) => Value::String(Text::Borrowed(values.get(index)?)),
            Self::Versions(values) => Value::version(values.get(index)?),
            Self::Range(end) => {
                let index = i64::try_from(index).ok().filter(|index| index < end)?;
                Value::Int(index)
            }
            Self::Mutable(values) => values.borrow().get(index)?.clone(),
            Self::Concat(_) => return None,
        })
    }

    /// Iterates over the elements. Elements that are added during the iteration are not visited.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Returns this list followed by another one. Changes a mutable list in place.
    pub(crate) fn add(&self, other: &List<'a>) -> List<'a> {
        match self {
            Self::Mutable(values) => {
                let added: Vec<Value<'a>> = other.iter().collect();
                values.borrow_mut().extend(added);
                self.clone()
            }
            _ if self.len() == 0 => other.clone(),
            _ if other.len() == 0 => self.clone(),
            _ => {
                let depth = 1 + self.depth().max(other.depth());
                if depth > DEEPEST {
                    return Self::Values(self.iter().chain(other.iter()).collect());
                }
                Self::Concat(Rc::new(Concat { first: self.clone(), second: other.clone(), depth }))
            }
        }
    }

    fn depth(&self) -> u32 {
        match self {
            Self::Concat(both) => both.depth,
            _ => 0,
        }
    }

    /// Returns an immutable copy of a mutable list, and any other list as it is.
    pub(crate) fn frozen(&self) -> List<'a> {
        match self {
            Self::Mutable(values) => Self::Values(values.borrow().as_slice().into()),
            other => other.clone(),
        }
    }

    /// Returns true if an element equals the value.
    pub(crate) fn contains(&self, value: &Value<'a>, fuel: &Fuel) -> bool {
        self.iter().any(|element| matches!(value.equals(&element, fuel), Value::Bool(true)))
    }

    /// Compares element by element. Elements whose comparison fails count as equal, unless the error is fatal. In a
    /// concatenation, however, the result is the first of these errors, unless other elements differ.
    pub(crate) fn equals(&self, other: &List<'a>, fuel: &Fuel) -> Value<'a> {
        if self.len() != other.len() {
            return Value::Bool(false);
        }
        let mut error = None;
        for (a, b) in self.iter().zip(other.iter()) {
            match a.equals_or_null(&b, fuel) {
                Value::Bool(false) => return Value::Bool(false),
                Value::Error(found) if found.is_fatal => return Value::Error(found),
                Value::Error(found) if matches!(self, Self::Concat(_)) => error = error.or(Some(found)),
                _ => {}
            }
        }
        error.map_or(Value::Bool(true), Value::Error)
    }

    /// See [`Value::through_go`].
    pub(crate) fn through_go(&self) -> List<'a> {
        match self {
            // In cel-go, the conversion of a mutable list to Go's types always gives an empty list.
            Self::Mutable(_) => Self::Values(Rc::default()),
            Self::Concat(_) => Self::Values(self.iter().map(|element| element.through_go()).collect()),
            other => other.clone(),
        }
    }

    /// Name of the list's type in Go.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Concat(_) => "*types.concatList",
            Self::Mutable(_) => "*types.mutableList",
            _ => "*types.baseList",
        }
    }
}
