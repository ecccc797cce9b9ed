//! Builds the tree of an expression. Reports the problems that are not syntax errors, such as reserved words, invalid
//! literals, and invalid arguments of macros.
//!
//! After a syntax error, parts of the tree may be missing. As in cel-go, the remaining parts are still examined.

use crate::{
    ast::{Builder, Element, Entry, Expr, Field, Kind, Literal, Select},
    literal, macros,
    source::{Issues, NOWHERE, Offset},
    token::TokenKind as T,
};

use super::DEEPEST;

/// Words that cannot be identifiers.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// An expression, and the depth that cel-go counts for it before macros are expanded. An expression that is too deep is
/// dropped at once and replaced with a placeholder, because dropping a deeper one later could overflow the stack.
pub(super) struct Tree {
    expr: Expr,
    depth: u32,
}

impl Tree {
    fn new(expr: Expr, depth: u32) -> Self {
        if depth > DEEPEST { Self { depth, ..Self::missing() } } else { Self { expr, depth } }
    }

    /// Stands for a part that is missing because of a syntax error.
    pub(super) fn missing() -> Self {
        Self { expr: Expr { id: 0, at: NOWHERE, kind: Kind::Broken }, depth: 0 }
    }
}

/// An element of a list or a key of a map, and true if it is optional.
pub(super) type ItemTree = (Tree, bool);

/// Name of a field, or the problem with it.
pub(super) struct Name {
    pub(super) at: Offset,
    pub(super) text: Result<String, &'static str>,
}

/// A member with the operators before it.
pub(super) struct UnaryParts {
    pub(super) start: Offset,
    /// False if a syntax error precedes the operators and the member.
    pub(super) is_known: bool,
    pub(super) operators: Vec<(T, Offset)>,
    pub(super) member: Tree,
}

/// A field of a message.
pub(super) struct MessageField {
    /// Position of the colon.
    pub(super) at: Offset,
    pub(super) name: Name,
    pub(super) value: Tree,
    pub(super) is_optional: bool,
}

/// Creates expressions for the rules of the grammar, and expands macros.
#[derive(Debug, Default)]
pub(super) struct Actions {
    pub(super) builder: Builder,
    pub(super) issues: Issues,
}

/// Message about a name in backticks, which Kubernetes does not allow.
pub(super) const ESCAPED_NAME: &str = "unsupported syntax: '`'";
/// Message about a name that is missing because of a syntax error.
pub(super) const NO_NAME: &str = "unsupported ident kind";

impl Actions {
    /// Returns the expression of a complete tree. Reports a tree that is too deep.
    pub(super) fn finish(&mut self, tree: Tree) -> Expr {
        if tree.depth > DEEPEST {
            // cel-go stops at this error, usually before it finds another problem.
            self.issues = Issues::default();
            self.issues.add_everywhere("max recursion depth exceeded");
        }
        tree.expr
    }

    fn fail(&mut self, at: Offset, message: impl Into<String>) -> Expr {
        self.issues.add(at, message);
        self.builder.expr(at, Kind::Broken)
    }

    pub(super) fn ternary(&mut self, at: Offset, condition: Tree, then: Tree, otherwise: Tree) -> Tree {
        let depth = 1 + condition.depth.max(then.depth).max(otherwise.depth);
        let args = vec![condition.expr, then.expr, otherwise.expr];
        Tree::new(self.builder.call(at, "_?_:_", args), depth)
    }

    /// Combines terms into a balanced tree.
    pub(super) fn logic(&mut self, function: &str, terms: Vec<Tree>, ops: &[Offset]) -> Tree {
        let depth = terms.iter().map(|term| term.depth).max().unwrap_or(0);
        let mut terms = terms.into_iter().map(|term| term.expr);
        Tree::new(self.balanced(function, &mut terms, ops), depth)
    }

    fn balanced(&mut self, function: &str, terms: &mut impl Iterator<Item = Expr>, ops: &[Offset]) -> Expr {
        let middle = ops.len() / 2;
        let Some(at) = ops.get(middle) else {
            return terms.next().unwrap_or_else(|| self.builder.expr(0, Kind::Broken));
        };
        let left = self.balanced(function, terms, &ops[..middle]);
        let right = self.balanced(function, terms, &ops[middle + 1..]);
        self.builder.call(*at, function, vec![left, right])
    }

    pub(super) fn binary(&mut self, at: Offset, function: &str, left: Tree, right: Tree) -> Tree {
        let depth = 1 + left.depth.max(right.depth);
        Tree::new(self.builder.call(at, function, vec![left.expr, right.expr]), depth)
    }

    pub(super) fn unary(&mut self, parts: UnaryParts) -> Tree {
        let UnaryParts { start, is_known, operators, member } = parts;
        if !is_known {
            let expr = self.builder.literal(start, Literal::String("<<error>>".to_owned()));
            return Tree { expr, depth: 0 };
        }
        match operators.first() {
            Some((operator, at)) if operators.len() % 2 == 1 => {
                let function = if *operator == T::Minus { "-_" } else { "!_" };
                let expr = self.builder.call(*at, function, vec![member.expr]);
                Tree { expr, depth: member.depth }
            }
            _ => member,
        }
    }

    pub(super) fn index(&mut self, at: Offset, operand: Tree, index: Tree, is_optional: bool) -> Tree {
        let depth = 1 + operand.depth.max(index.depth);
        let function = if is_optional { "_[?_]" } else { "_[_]" };
        Tree::new(self.builder.call(at, function, vec![operand.expr, index.expr]), depth)
    }

    pub(super) fn select(&mut self, at: Offset, operand: Tree, name: Name, is_optional: bool) -> Tree {
        let depth = 1 + operand.depth;
        let Name { at: name_at, text } = name;
        let name = text.unwrap_or_else(|problem| {
            self.issues.add(name_at, problem);
            String::new()
        });
        let expr = if is_optional {
            let name = self.builder.literal(name_at, Literal::String(name));
            self.builder.call(at, "_?._", vec![operand.expr, name])
        } else {
            let select = Select { operand: operand.expr, field: name, is_test: false };
            self.builder.expr(at, Kind::Select(Box::new(select)))
        };
        Tree::new(expr, depth)
    }

    pub(super) fn member_call(&mut self, at: Offset, name: &str, target: Tree, args: Vec<Tree>) -> Tree {
        let depth = 1 + args.iter().map(|arg| arg.depth).max().unwrap_or(0).max(target.depth);
        let args = args.into_iter().map(|arg| arg.expr).collect();
        Tree::new(self.expand(at, name, Some(target.expr), args), depth)
    }

    /// Creates a call. `before` is the number of problems found before the arguments.
    pub(super) fn call(
        &mut self,
        start: Offset,
        at: Offset,
        dot: &str,
        name: &str,
        args: Vec<Tree>,
        before: usize,
    ) -> Tree {
        let depth = args.iter().map(|arg| arg.depth).max().unwrap_or(0);
        if RESERVED.contains(&name) {
            // cel-go does not examine the arguments.
            self.issues.truncate(before);
            return Tree { expr: self.fail(start, format!("reserved identifier: {name}")), depth: 0 };
        }
        let args = args.into_iter().map(|arg| arg.expr).collect();
        Tree { expr: self.expand(at, &format!("{dot}{name}"), None, args), depth }
    }

    /// Expands a macro, or creates a call of a function.
    fn expand(&mut self, at: Offset, name: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        match macros::expand(&mut self.builder, at, name, target, args) {
            Ok(expr) => expr,
            Err(error) => self.fail(error.at, error.message),
        }
    }

    pub(super) fn ident(&mut self, start: Offset, at: Offset, dot: &str, name: &str) -> Tree {
        let expr = match RESERVED.contains(&name) {
            true => self.fail(start, format!("reserved identifier: {name}")),
            false => self.builder.ident(at, &format!("{dot}{name}")),
        };
        Tree { expr, depth: 0 }
    }

    pub(super) fn list(&mut self, at: Offset, elements: Vec<ItemTree>) -> Tree {
        let depth = elements.iter().map(|(element, _)| element.depth).max().unwrap_or(0);
        let elements = elements.into_iter();
        let elements =
            elements.map(|(element, is_optional)| Element { value: element.expr, is_optional }).collect();
        Tree::new(self.builder.expr(at, Kind::List(elements)), depth)
    }

    pub(super) fn map(&mut self, at: Offset, entries: Vec<(ItemTree, Tree)>) -> Tree {
        let depth = entries.iter().map(|((key, _), value)| key.depth.max(value.depth)).max().unwrap_or(0);
        let entries = entries
            .into_iter()
            .map(|((key, is_optional), value)| Entry { key: key.expr, value: value.expr, is_optional })
            .collect();
        Tree::new(self.builder.expr(at, Kind::Map(entries)), depth)
    }

    /// Creates a field of a message. `start` is the position of the first field, and `before` is the number of problems
    /// found before the value.
    pub(super) fn field(
        &mut self,
        field: MessageField,
        start: Offset,
        before: usize,
    ) -> Option<(Field, u32)> {
        let MessageField { at, name, value, is_optional } = field;
        match name.text {
            Ok(name) => Some((Field { at, name, value: value.expr, is_optional }, value.depth)),
            Err(problem) => {
                // cel-go does not examine the value.
                self.issues.truncate(before);
                self.issues.add(start, problem);
                None
            }
        }
    }

    pub(super) fn message(&mut self, at: Offset, name: String, fields: Vec<(Field, u32)>) -> Tree {
        let depth = fields.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        let fields = fields.into_iter().map(|(field, _)| field).collect();
        Tree::new(self.builder.expr(at, Kind::Struct(name, fields)), depth)
    }

    pub(super) fn literal(&mut self, at: Offset, kind: T, sign: &str, text: &str) -> Tree {
        let parsed = match kind {
            T::Int => literal::int(&format!("{sign}{text}")).map(Literal::Int).ok_or("invalid int literal"),
            T::Uint => {
                let digits = text.strip_suffix(['u', 'U']).unwrap_or(text);
                literal::uint(digits).map(Literal::Uint).ok_or("invalid uint literal")
            }
            T::Float => {
                literal::double(&format!("{sign}{text}")).map(Literal::Double).ok_or("invalid double literal")
            }
            T::String => literal::text(text, false),
            T::Bytes => literal::text(text, true),
            T::True => Ok(Literal::Bool(true)),
            T::False => Ok(Literal::Bool(false)),
            _ => Ok(Literal::Null),
        };
        let expr = match parsed {
            Ok(literal) => self.builder.literal(at, literal),
            Err(message) => self.fail(at, message),
        };
        Tree { expr, depth: 0 }
    }
}
