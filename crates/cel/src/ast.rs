//! Syntax trees.

use crate::source::Offset;

/// ID of an expression, unique within a tree.
pub(crate) type ExprId = u32;

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: ExprId,
    /// Position to report in errors about the expression.
    pub(crate) at: Offset,
    pub(crate) kind: Kind,
}

/// Kinds of expressions. Macros have none, because the parser expands them.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    Select(Box<Select>),
    Call(Box<Call>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// A message, such as `google.protobuf.Duration{seconds: 1}`.
    Struct(String, Vec<Field>),
    Comprehension(Box<Comprehension>),
    /// An expression with a syntax error, which has been reported.
    Broken,
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

/// `operand.field`, or `has(operand.field)` if `is_test` is true.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: String,
    pub(crate) is_test: bool,
}

/// A call of a function or operator.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) target: Option<Expr>,
    pub(crate) args: Vec<Expr>,
}

/// An element of a list. An optional element is left out if its value is `optional.none()`.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// An entry of a map. An optional entry is left out if its value is `optional.none()`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) at: Offset,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// A loop over a list or a map that computes an accumulator.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    /// Name of the variable that holds a list's element or a map's key. If there is a second variable, this one holds a
    /// list's index or a map's key.
    pub(crate) variable: String,
    /// Name of the variable that holds a list's element or a map's value.
    pub(crate) variable2: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    /// The loop ends when this is false.
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// Creates expressions with unique IDs.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    next: ExprId,
}

impl Builder {
    pub(crate) fn expr(&mut self, at: Offset, kind: Kind) -> Expr {
        self.next += 1;
        Expr { id: self.next, at, kind }
    }

    pub(crate) fn literal(&mut self, at: Offset, literal: Literal) -> Expr {
        self.expr(at, Kind::Literal(literal))
    }

    pub(crate) fn ident(&mut self, at: Offset, name: &str) -> Expr {
        self.expr(at, Kind::Ident(name.to_owned()))
    }

    pub(crate) fn list(&mut self, at: Offset, elements: Vec<Expr>) -> Expr {
        let elements = elements.into_iter().map(|value| Element { value, is_optional: false }).collect();
        self.expr(at, Kind::List(elements))
    }

    pub(crate) fn call(&mut self, at: Offset, function: &str, args: Vec<Expr>) -> Expr {
        self.expr(at, Kind::Call(Box::new(Call { function: function.to_owned(), target: None, args })))
    }

    pub(crate) fn member_call(&mut self, at: Offset, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let call = Call { function: function.to_owned(), target: Some(target), args };
        self.expr(at, Kind::Call(Box::new(call)))
    }

    /// Copies an expression. The copy and its subexpressions get new IDs.
    pub(crate) fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        self.next += 1;
        expr.id = self.next;
        expr.for_each_child_mut(&mut |child| self.renumber(child));
    }

    /// Returns the largest ID that has been given to an expression.
    pub(crate) fn last_id(&self) -> ExprId {
        self.next
    }
}

impl Expr {
    /// Calls a function for each direct subexpression.
    pub(crate) fn for_each_child<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
            Kind::Select(select) => visit(&select.operand),
            Kind::Call(call) => call.target.iter().chain(&call.args).for_each(visit),
            Kind::List(elements) => elements.iter().for_each(|element| visit(&element.value)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                visit(&entry.key);
                visit(&entry.value);
            }),
            Kind::Struct(_, fields) => fields.iter().for_each(|field| visit(&field.value)),
            Kind::Comprehension(loops) => {
                let Comprehension { range, init, condition, step, result, .. } = &**loops;
                [range, init, condition, step, result].into_iter().for_each(visit);
            }
        }
    }

    fn for_each_child_mut(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        match &mut self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
            Kind::Select(select) => visit(&mut select.operand),
            Kind::Call(call) => call.target.iter_mut().chain(&mut call.args).for_each(visit),
            Kind::List(elements) => elements.iter_mut().for_each(|element| visit(&mut element.value)),
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| {
                visit(&mut entry.key);
                visit(&mut entry.value);
            }),
            Kind::Struct(_, fields) => fields.iter_mut().for_each(|field| visit(&mut field.value)),
            Kind::Comprehension(loops) => {
                let Comprehension { range, init, condition, step, result, .. } = &mut **loops;
                [range, init, condition, step, result].into_iter().for_each(visit);
            }
        }
    }

    /// Returns the number of levels of nested expressions.
    pub(crate) fn depth(&self) -> usize {
        let mut deepest = 0;
        self.for_each_child(&mut |child| deepest = deepest.max(child.depth()));
        1 + deepest
    }

    /// Returns the name if this is an identifier.
    pub(crate) fn as_ident(&self) -> Option<&str> {
        match &self.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the text if this is a string literal.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Literal(Literal::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the name, such as `a.b.c`, if this is a chain of identifiers.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select(select) if !select.is_test => {
                let mut name = select.operand.qualified_name()?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }
}
