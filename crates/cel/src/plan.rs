//! Compiled expressions.

use std::{collections::HashSet, sync::Arc};

use crate::{
    constant::Constant,
    cost::Cost,
    functions::{Function, Op, Overload},
    map::Key,
    pattern::Pattern,
    value::Traits,
};

/// A compiled expression.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Constant),
    Attribute(Box<Attribute>),
    /// `has(attribute)`.
    Has(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Equals(Box<[Node; 2]>),
    NotEquals(Box<[Node; 2]>),
    Call(Box<Call>),
    Matching(Box<Matching>),
    Membership(Box<Membership>),
    /// `optional.or(optional)`.
    OrOptional(Box<[Node; 2]>),
    /// `optional.orValue(value)`.
    OrValue(Box<[Node; 2]>),
    List(Box<[Element]>),
    Map(Box<[Entry]>),
    Message(Box<Message>),
    Loop(Box<Loop>),
}

/// A variable or value, and the fields, keys and indexes that are selected from it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Arc<Qualifier>>,
}

/// Value from which an attribute selects.
#[derive(Debug)]
pub(crate) enum Base {
    Device,
    Variable(Variable),
    Value(Node),
    /// One of two attributes. Qualifiers are added to both of them.
    Conditional(Box<Conditional>),
}

/// A variable of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Number of loops between the expression and the loop of the variable.
    pub(crate) up: u32,
    pub(crate) role: Role,
}

/// Role of a variable in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Accumulator,
    First,
    Second,
}

#[derive(Debug)]
pub(crate) struct Conditional {
    pub(crate) condition: Node,
    pub(crate) then: Attribute,
    pub(crate) otherwise: Attribute,
}

/// A field, key or index.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    /// True if the result is an optional value.
    pub(crate) is_optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Constant(Constant),
    /// A field whose presence is tested.
    Test(Constant),
    Attribute(Attribute),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) target: Target,
    pub(crate) args: Box<[Node]>,
    /// True if an error in the first of two arguments prevents the evaluation of the second. With three or more
    /// arguments, an error always prevents the evaluation of the rest.
    pub(crate) stops_at_error: bool,
    pub(crate) cost: Cost,
}

/// Operation that computes the result of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Overload(&'static Overload),
    /// Like [`Self::Overload`], but the operation checks its arguments.
    Unguarded(&'static Overload),
    /// The first overload that fits the arguments.
    Dispatch,
    /// The first overload with the call's number of arguments.
    UnguardedDispatch,
    /// An operation for all types of arguments. The first argument must have these traits.
    Single(Op, Traits),
    /// `@not_strictly_false`, which is true for errors.
    NotStrictlyFalse,
}

/// A call of a function with a constant pattern.
#[derive(Debug)]
pub(crate) struct Matching {
    pub(crate) call: Call,
    pub(crate) kind: MatchingKind,
    pub(crate) pattern: Pattern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchingKind {
    Matches,
    Find,
    FindAll,
}

/// `element in list` with a constant list.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) element: Node,
    /// Elements that are strings.
    pub(crate) strings: HashSet<Box<str>>,
    /// Other elements, and the numbers of other types that equal them.
    pub(crate) others: HashSet<Key>,
}

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) value: Node,
    pub(crate) is_optional: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) is_optional: bool,
}

/// A message. Its fields are evaluated, but the message itself cannot be created: the result is always an error.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) fields: Box<[Field]>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: Node,
    pub(crate) is_optional: bool,
}

/// A loop over the elements of a list or the entries of a map.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: Node,
    pub(crate) has_two_variables: bool,
    /// First value of the accumulator. It is evaluated when the accumulator is first read.
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

impl Node {
    pub(crate) fn as_constant(&self) -> Option<&Constant> {
        match self {
            Self::Constant(constant) => Some(constant),
            _ => None,
        }
    }
}

impl Attribute {
    pub(crate) fn new(base: Base) -> Self {
        Self { base, qualifiers: Vec::new() }
    }

    /// Returns the attribute of a node, or an attribute whose base is the value of the node.
    pub(crate) fn of(node: Node) -> Self {
        match node {
            Node::Attribute(attribute) | Node::Has(attribute) => *attribute,
            other => Self::new(Base::Value(other)),
        }
    }

    /// Returns true if this can be the device itself, rather than a value computed from it.
    pub(crate) fn can_be_device(&self) -> bool {
        match &self.base {
            Base::Device => self.qualifiers.is_empty(),
            Base::Conditional(both) => both.then.can_be_device() || both.otherwise.can_be_device(),
            Base::Variable(_) | Base::Value(_) => false,
        }
    }

    pub(crate) fn is_conditional(&self) -> bool {
        matches!(self.base, Base::Conditional(_))
    }

    pub(crate) fn add(&mut self, qualifier: Arc<Qualifier>) {
        match &mut self.base {
            Base::Conditional(both) => {
                both.then.add(qualifier.clone());
                both.otherwise.add(qualifier);
            }
            _ => self.qualifiers.push(qualifier),
        }
    }
}
