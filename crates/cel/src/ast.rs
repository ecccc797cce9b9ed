//! Syntax trees.

use crate::functions::Function;

/// Position in the text, as a number of characters from its beginning.
pub(crate) type Offset = usize;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    /// Position that errors about the expression name.
    pub(crate) at: Offset,
    pub(crate) kind: Kind,
}

/// Kinds of expressions. Macros are expanded while parsing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`; with `test`, `has(operand.field)`; with `optional`, `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
        optional: bool,
    },
    Call {
        function: Function,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// A call of a function whose name is unknown.
    Unknown {
        name: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    /// A list. An element with the flag set is an optional that is left out if it is empty.
    List(Vec<(Expr, bool)>),
    /// A map. An entry with the flag set is left out if its value is an empty optional.
    Map(Vec<(Expr, Expr, bool)>),
    Comprehension(Box<Comprehension>),
}

/// A loop over a list or the keys of a map, which changes an accumulator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

impl Expr {
    pub(crate) fn new(at: Offset, kind: Kind) -> Self {
        Self { at, kind }
    }

    pub(crate) fn call(at: Offset, function: Function, args: Vec<Expr>) -> Self {
        Self::new(at, Kind::Call { function, target: None, args })
    }

    pub(crate) fn ident(at: Offset, name: &str) -> Self {
        Self::new(at, Kind::Ident(name.to_owned()))
    }

    pub(crate) fn bool(at: Offset, value: bool) -> Self {
        Self::new(at, Kind::Literal(Literal::Bool(value)))
    }
}
