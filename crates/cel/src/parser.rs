//! The parser, which also expands macros.

use crate::{
    ast::{Comprehension, Expr, Kind, Literal, Offset},
    errors::{CompileError, Issue},
    functions::Function,
    lexer::{Token, TokenKind, tokens},
};

/// Maximum depth of nested expressions, as in cel-go.
const MAX_DEPTH: usize = 250;
/// Maximum number of characters of an expression, as in cel-go.
const MAX_LENGTH: usize = 100_000;
/// Name of the variable that a macro accumulates its result in. No expression can use it.
pub(crate) const ACCUMULATOR: &str = "@result";
/// Name of a variable that no expression reads.
const UNUSED: &str = "#unused";

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Parses an expression.
pub(crate) fn parse(text: &str) -> Result<Expr, CompileError> {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() > MAX_LENGTH {
        let length = characters.len();
        return Err(CompileError(format!(
            "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: size: {length}, \
             limit {MAX_LENGTH}"
        )));
    }
    let parse = || -> Result<Expr, Issue> {
        let tokens = tokens(&characters)?;
        let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
        let expression = parser.expression()?;
        parser.expect_end()?;
        Ok(expression)
    };
    parse().map_err(|issue| CompileError::of(text, vec![issue]))
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

type Parsed = Result<Expr, Issue>;

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn offset(&self) -> Offset {
        self.token().at
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(&self.token().kind, TokenKind::Symbol(found) if *found == symbol)
    }

    /// Skips a symbol. Returns its position if it is there.
    fn skip(&mut self, symbol: &str) -> Option<Offset> {
        let at = self.is(symbol).then(|| self.offset())?;
        self.at += 1;
        Some(at)
    }

    fn expect(&mut self, symbol: &str) -> Result<Offset, Issue> {
        match self.skip(symbol) {
            Some(at) => Ok(at),
            None => Err(self.unexpected(&format!("expecting '{symbol}'"))),
        }
    }

    fn expect_end(&self) -> Result<(), Issue> {
        match self.token().kind {
            TokenKind::End => Ok(()),
            _ => Err(self.unexpected("expecting <EOF>")),
        }
    }

    fn unexpected(&self, expected: &str) -> Issue {
        let found = match &self.token().kind {
            TokenKind::End => "<EOF>".to_owned(),
            TokenKind::Symbol(symbol) => (*symbol).to_owned(),
            TokenKind::Ident(name) | TokenKind::Quoted(name) => name.clone(),
            TokenKind::Int(text) | TokenKind::Double(text) => text.clone(),
            TokenKind::Uint(text) => format!("{text}u"),
            TokenKind::String(text) => format!("\"{text}\""),
            TokenKind::Bytes(_) => "b\"\"".to_owned(),
        };
        Issue::syntax(self.offset(), format!("mismatched input '{found}' {expected}"))
    }

    /// Parses one level deeper.
    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth >= MAX_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            return Err(Issue::new(self.offset(), message));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn expression(&mut self) -> Parsed {
        self.nested(|this| {
            let condition = this.or()?;
            let Some(at) = this.skip("?") else { return Ok(condition) };
            let then = this.or()?;
            this.expect(":")?;
            let otherwise = this.expression()?;
            Ok(Expr::call(at, Function::Conditional, vec![condition, then, otherwise]))
        })
    }

    fn or(&mut self) -> Parsed {
        self.chain("||", Function::Or, Self::and)
    }

    fn and(&mut self) -> Parsed {
        self.chain("&&", Function::And, Self::relation)
    }

    /// Parses operands with the same logical operator between them.
    fn chain(&mut self, symbol: &str, function: Function, operand: fn(&mut Self) -> Parsed) -> Parsed {
        let first = operand(self)?;
        let mut operands = vec![first];
        let mut operators = Vec::new();
        while let Some(at) = self.skip(symbol) {
            operators.push(at);
            operands.push(operand(self)?);
        }
        Ok(balanced(function, operands, &operators))
    }

    fn relation(&mut self) -> Parsed {
        self.left_associative(Self::sum, |token| match token {
            TokenKind::Symbol("<") => Some(Function::Less),
            TokenKind::Symbol("<=") => Some(Function::LessEquals),
            TokenKind::Symbol(">") => Some(Function::Greater),
            TokenKind::Symbol(">=") => Some(Function::GreaterEquals),
            TokenKind::Symbol("==") => Some(Function::Equals),
            TokenKind::Symbol("!=") => Some(Function::NotEquals),
            TokenKind::Ident(name) if name == "in" => Some(Function::In),
            _ => None,
        })
    }

    fn sum(&mut self) -> Parsed {
        self.left_associative(Self::product, |token| match token {
            TokenKind::Symbol("+") => Some(Function::Add),
            TokenKind::Symbol("-") => Some(Function::Subtract),
            _ => None,
        })
    }

    fn product(&mut self) -> Parsed {
        self.left_associative(Self::unary, |token| match token {
            TokenKind::Symbol("*") => Some(Function::Multiply),
            TokenKind::Symbol("/") => Some(Function::Divide),
            TokenKind::Symbol("%") => Some(Function::Modulo),
            _ => None,
        })
    }

    /// Parses operands with operators of one precedence between them.
    fn left_associative(
        &mut self,
        operand: fn(&mut Self) -> Parsed,
        operator: fn(&TokenKind) -> Option<Function>,
    ) -> Parsed {
        let mut left = operand(self)?;
        while let Some(function) = operator(&self.token().kind) {
            let at = self.offset();
            self.at += 1;
            let right = operand(self)?;
            left = Expr::call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let at = self.offset();
        let mut count = 0;
        while self.skip("!").is_some() {
            count += 1;
        }
        if count > 0 {
            let operand = self.member()?;
            return Ok(if count % 2 == 0 { operand } else { Expr::call(at, Function::Not, vec![operand]) });
        }
        while self.is("-") && !(count == 0 && self.is_negative_literal()) {
            self.at += 1;
            count += 1;
        }
        let operand = self.member()?;
        Ok(if count % 2 == 0 { operand } else { Expr::call(at, Function::Negate, vec![operand]) })
    }

    fn is_negative_literal(&self) -> bool {
        let next = self.tokens.get(self.at + 1).map(|token| &token.kind);
        matches!(next, Some(TokenKind::Int(_) | TokenKind::Double(_)))
    }

    fn member(&mut self) -> Parsed {
        let mut expression = self.nested(Self::primary)?;
        let mut links = 0;
        loop {
            if let Some(at) = self.skip(".") {
                let optional = self.skip("?").is_some();
                let (name, is_quoted) = self.name()?;
                let is_call = self.is("(") && !optional && !is_quoted;
                expression = match is_call {
                    true => self.member_call(expression, &name)?,
                    false => {
                        let operand = Box::new(expression);
                        Expr::new(at, Kind::Select { operand, field: name, test: false, optional })
                    }
                };
            } else if let Some(at) = self.skip("[") {
                let optional = self.skip("?").is_some();
                let index = self.expression()?;
                self.expect("]")?;
                let function = if optional { Function::OptionalIndex } else { Function::Index };
                expression = Expr::call(at, function, vec![expression, index]);
            } else {
                return Ok(expression);
            }
            links += 1;
            if self.depth + links > MAX_DEPTH {
                let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
                return Err(Issue::new(self.offset(), message));
            }
        }
    }

    fn name(&mut self) -> Result<(String, bool), Issue> {
        let named = match &self.token().kind {
            TokenKind::Ident(name) => (name.clone(), false),
            TokenKind::Quoted(name) => (name.clone(), true),
            _ => return Err(self.unexpected("expecting IDENTIFIER")),
        };
        self.at += 1;
        Ok(named)
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Issue> {
        let mut arguments = Vec::new();
        while !self.is(")") {
            arguments.push(self.expression()?);
            if self.skip(",").is_none() {
                break;
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    fn member_call(&mut self, target: Expr, name: &str) -> Parsed {
        let at = self.expect("(")?;
        let arguments = self.arguments()?;
        if let Some(expanded) = expand(at, &target, name, &arguments)? {
            return Ok(expanded);
        }
        // A namespace, as in `sets.contains`.
        if let Kind::Ident(namespace) = &target.kind
            && let Some(function) = Function::global(&format!("{namespace}.{name}"))
        {
            return Ok(Expr::call(at, function, arguments));
        }
        let target = Some(Box::new(target));
        Ok(Expr::new(
            at,
            match Function::member(name) {
                Some(function) => Kind::Call { function, target, args: arguments },
                None => Kind::Unknown { name: name.to_owned(), target, args: arguments },
            },
        ))
    }

    fn primary(&mut self) -> Parsed {
        let at = self.offset();
        let token = self.token().kind.clone();
        match token {
            TokenKind::Symbol("(") => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol("-") => {
                self.at += 1;
                self.literal(at, "-")
            }
            TokenKind::Symbol(".") => {
                self.at += 1;
                self.identifier()
            }
            TokenKind::Ident(name) if !matches!(name.as_str(), "true" | "false" | "null") => {
                self.identifier()
            }
            _ => self.literal(at, ""),
        }
    }

    fn identifier(&mut self) -> Parsed {
        let at = self.offset();
        let (name, _) = self.name()?;
        if RESERVED.contains(&name.as_str()) {
            return Err(Issue::syntax(at, format!("reserved identifier: {name}")));
        }
        if name == "in" {
            self.at -= 1;
            return Err(self.unexpected("expecting IDENTIFIER"));
        }
        if self.is("{") {
            return Err(Issue::new(at, format!("undeclared reference to '{name}' (in container '')")));
        }
        let Some(open) = self.skip("(") else { return Ok(Expr::ident(at, &name)) };
        let arguments = self.arguments()?;
        if name == "has" && arguments.len() == 1 {
            return has(open, arguments);
        }
        Ok(match Function::global(&name) {
            Some(function) => Expr::call(open, function, arguments),
            None => Expr::new(open, Kind::Unknown { name, target: None, args: arguments }),
        })
    }

    fn list(&mut self) -> Parsed {
        let at = self.expect("[")?;
        let mut elements = Vec::new();
        while !self.is("]") {
            let optional = self.skip("?").is_some();
            elements.push((self.expression()?, optional));
            if self.skip(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        Ok(Expr::new(at, Kind::List(elements)))
    }

    fn map(&mut self) -> Parsed {
        let at = self.expect("{")?;
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.skip("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if self.skip(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(Expr::new(at, Kind::Map(entries)))
    }

    fn literal(&mut self, at: Offset, sign: &str) -> Parsed {
        let invalid = |what: &str| Issue::syntax(at, format!("invalid {what} literal"));
        let literal = match &self.token().kind {
            TokenKind::Int(text) => Literal::Int(int(sign, text).ok_or_else(|| invalid("int"))?),
            TokenKind::Uint(text) if sign.is_empty() => {
                Literal::Uint(uint(text).ok_or_else(|| invalid("uint"))?)
            }
            TokenKind::Double(text) => {
                let number: f64 = format!("{sign}{text}").parse().map_err(|_| invalid("double"))?;
                Literal::Double(number)
            }
            TokenKind::String(text) if sign.is_empty() => Literal::String(text.clone()),
            TokenKind::Bytes(bytes) if sign.is_empty() => Literal::Bytes(bytes.clone()),
            TokenKind::Ident(name) if sign.is_empty() => match name.as_str() {
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                "null" => Literal::Null,
                _ => return Err(self.unexpected("expecting a literal")),
            },
            _ => {
                return Err(self.unexpected(
                    "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                     NUM_UINT, STRING, BYTES, IDENTIFIER}",
                ));
            }
        };
        self.at += 1;
        Ok(Expr::new(at, Kind::Literal(literal)))
    }
}

fn int(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

fn uint(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Joins the operands of a logical operator to a balanced tree, so that long chains do not nest deeply.
fn balanced(function: Function, mut operands: Vec<Expr>, operators: &[Offset]) -> Expr {
    if operators.is_empty() {
        return operands.swap_remove(0);
    }
    let middle = operators.len() / 2;
    let right = operands.split_off(middle + 1);
    let left = balanced(function, operands, &operators[..middle]);
    let right = balanced(function, right, &operators[middle + 1..]);
    Expr::call(operators[middle], function, vec![left, right])
}

/// `has(operand.field)`
fn has(at: Offset, mut arguments: Vec<Expr>) -> Parsed {
    match arguments.swap_remove(0) {
        Expr { kind: Kind::Select { operand, field, test: false, optional: false }, .. } => {
            Ok(Expr::new(at, Kind::Select { operand, field, test: true, optional: false }))
        }
        other => Err(Issue::new(other.at, "invalid argument to has() macro".to_owned())),
    }
}

/// Expands a macro; returns `None` if the call is not one.
fn expand(at: Offset, target: &Expr, name: &str, args: &[Expr]) -> Result<Option<Expr>, Issue> {
    let expanded = match (name, args) {
        ("all", [variable, test]) => quantifier(at, target, variable, test, true)?,
        ("exists", [variable, test]) => quantifier(at, target, variable, test, false)?,
        ("exists_one" | "existsOne", [variable, test]) => exists_one(at, target, variable, test)?,
        ("map", [variable, transform]) => map(at, target, variable, None, transform)?,
        ("map", [variable, test, transform]) => map(at, target, variable, Some(test), transform)?,
        ("filter", [variable, test]) => map(at, target, variable, Some(test), variable)?,
        ("bind", [variable, init, body]) if matches!(&target.kind, Kind::Ident(name) if name == "cel") => {
            let Kind::Ident(name) = &variable.kind else {
                let message = "cel.bind() variable names must be simple identifiers".to_owned();
                return Err(Issue::new(variable.at, message));
            };
            bind(at, name, init.clone(), body.clone())
        }
        ("optMap", [variable, body]) => {
            let name = simple_name(variable, "optMap() variable name must be a simple identifier")?;
            let body = bind(at, name, value(at, target), body.clone());
            if_present(at, target, Expr::call(at, Function::OptionalOf, vec![body]))
        }
        ("optFlatMap", [variable, body]) => {
            let name = simple_name(variable, "optFlatMap() variable name must be a simple identifier")?;
            if_present(at, target, bind(at, name, value(at, target), body.clone()))
        }
        _ => return Ok(None),
    };
    Ok(Some(expanded))
}

fn simple_name<'a>(variable: &'a Expr, message: &str) -> Result<&'a str, Issue> {
    match &variable.kind {
        Kind::Ident(name) => Ok(name),
        _ => Err(Issue::new(variable.at, message.to_owned())),
    }
}

fn loop_variable(variable: &Expr) -> Result<String, Issue> {
    simple_name(variable, "argument must be a simple name").map(str::to_owned)
}

fn accumulated(at: Offset) -> Expr {
    Expr::ident(at, ACCUMULATOR)
}

fn looped(at: Offset, comprehension: Comprehension) -> Expr {
    Expr::new(at, Kind::Comprehension(Box::new(comprehension)))
}

/// `all` and `exists`
fn quantifier(at: Offset, target: &Expr, variable: &Expr, test: &Expr, all: bool) -> Parsed {
    let so_far = match all {
        true => accumulated(at),
        false => Expr::call(at, Function::Not, vec![accumulated(at)]),
    };
    let function = if all { Function::And } else { Function::Or };
    Ok(looped(
        at,
        Comprehension {
            range: target.clone(),
            variable: loop_variable(variable)?,
            accumulator: ACCUMULATOR.to_owned(),
            init: Expr::bool(at, all),
            condition: Expr::call(at, Function::NotStrictlyFalse, vec![so_far]),
            step: Expr::call(at, function, vec![accumulated(at), test.clone()]),
            result: accumulated(at),
        },
    ))
}

fn exists_one(at: Offset, target: &Expr, variable: &Expr, test: &Expr) -> Parsed {
    let number = |number| Expr::new(at, Kind::Literal(Literal::Int(number)));
    let more = Expr::call(at, Function::Add, vec![accumulated(at), number(1)]);
    Ok(looped(
        at,
        Comprehension {
            range: target.clone(),
            variable: loop_variable(variable)?,
            accumulator: ACCUMULATOR.to_owned(),
            init: number(0),
            condition: Expr::bool(at, true),
            step: Expr::call(at, Function::Conditional, vec![test.clone(), more, accumulated(at)]),
            result: Expr::call(at, Function::Equals, vec![accumulated(at), number(1)]),
        },
    ))
}

/// `map` and `filter`
fn map(at: Offset, target: &Expr, variable: &Expr, test: Option<&Expr>, transform: &Expr) -> Parsed {
    let element = Expr::new(at, Kind::List(vec![(transform.clone(), false)]));
    let more = Expr::call(at, Function::Add, vec![accumulated(at), element]);
    Ok(looped(
        at,
        Comprehension {
            range: target.clone(),
            variable: loop_variable(variable)?,
            accumulator: ACCUMULATOR.to_owned(),
            init: Expr::new(at, Kind::List(Vec::new())),
            condition: Expr::bool(at, true),
            step: match test {
                Some(test) => {
                    Expr::call(at, Function::Conditional, vec![test.clone(), more, accumulated(at)])
                }
                None => more,
            },
            result: accumulated(at),
        },
    ))
}

/// `cel.bind`: a loop that never runs, whose accumulator is the variable.
fn bind(at: Offset, name: &str, init: Expr, body: Expr) -> Expr {
    looped(
        at,
        Comprehension {
            range: Expr::new(at, Kind::List(Vec::new())),
            variable: UNUSED.to_owned(),
            accumulator: name.to_owned(),
            init,
            condition: Expr::bool(at, false),
            step: Expr::ident(at, name),
            result: body,
        },
    )
}

fn value(at: Offset, target: &Expr) -> Expr {
    let target = Some(Box::new(target.clone()));
    Expr::new(at, Kind::Call { function: Function::OptionalValue, target, args: Vec::new() })
}

/// Evaluates `then` if the optional has a value.
fn if_present(at: Offset, target: &Expr, then: Expr) -> Expr {
    let target = Some(Box::new(target.clone()));
    let is_present = Expr::new(at, Kind::Call { function: Function::HasValue, target, args: Vec::new() });
    let none = Expr::call(at, Function::OptionalNone, Vec::new());
    Expr::call(at, Function::Conditional, vec![is_present, then, none])
}
