//! The type checker.

use crate::{
    Features,
    ast::{Comprehension, Expr, Kind, Literal, Offset},
    errors::{CompileError, Issue},
    functions::Function,
    types::{Substitution, Type},
};

/// Checks an expression and its type, which must be `bool` or unknown.
pub(crate) fn check(text: &str, expression: &Expr, features: Features) -> Result<(), CompileError> {
    let mut checker =
        Checker { features, issues: Vec::new(), types: Substitution::default(), variables: Vec::new() };
    let found = checker.check(expression);
    if !checker.issues.is_empty() {
        return Err(CompileError::of(text, checker.issues));
    }
    match checker.types.apply(&found, true) {
        Type::Bool | Type::Any => Ok(()),
        Type::Dyn if features.list_attributes => Ok(()),
        other => Err(CompileError(format!("must evaluate to bool or the unknown type, not {other}"))),
    }
}

struct Checker {
    features: Features,
    issues: Vec<Issue>,
    types: Substitution,
    /// Variables in scope, the innermost last.
    variables: Vec<(String, Type)>,
}

impl Checker {
    fn fail(&mut self, at: Offset, message: String) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Error
    }

    fn check(&mut self, expression: &Expr) -> Type {
        let at = expression.at;
        match &expression.kind {
            Kind::Literal(literal) => of_literal(literal),
            Kind::Ident(name) => self.variable(at, name),
            Kind::Select { operand, field, test, optional } => {
                self.select(at, operand, field, *test, *optional)
            }
            Kind::Call { function, target, args } => self.call(at, *function, target.as_deref(), args),
            Kind::Unknown { name, target, args } => {
                target.iter().for_each(|target| drop(self.check(target)));
                args.iter().for_each(|argument| drop(self.check(argument)));
                let message = match Function::is_unsupported(name) {
                    true => format!("function '{name}' is not supported by this version of Harbormaster"),
                    false => format!("undeclared reference to '{name}' (in container '')"),
                };
                self.fail(at, message)
            }
            Kind::List(elements) => {
                let mut of = None;
                for (element, is_optional) in elements {
                    let found = self.element(element, *is_optional);
                    of = Some(self.join(element.at, of, found));
                }
                let of = of.unwrap_or_else(|| self.types.fresh());
                Type::list(of)
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for (key, value, is_optional) in entries {
                    let found = self.check(key);
                    keys = Some(self.join(key.at, keys, found));
                    let found = self.element(value, *is_optional);
                    values = Some(self.join(value.at, values, found));
                }
                let key = keys.unwrap_or_else(|| self.types.fresh());
                let value = values.unwrap_or_else(|| self.types.fresh());
                Type::map(key, value)
            }
            Kind::Comprehension(looped) => self.comprehension(looped),
        }
    }

    fn variable(&mut self, at: Offset, name: &str) -> Type {
        if let Some((_, found)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            return found.clone();
        }
        match name {
            "device" => Type::Device,
            "bool" | "int" | "uint" | "double" | "string" | "bytes" | "list" | "map" | "null_type"
            | "type" => Type::OfTypes,
            _ => self.fail(at, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    /// Returns the type of an element; of an optional element, the type of its value.
    fn element(&mut self, element: &Expr, is_optional: bool) -> Type {
        let found = self.check(element);
        if !is_optional {
            return found;
        }
        match self.types.apply(&found, false) {
            Type::Optional(of) => *of,
            other if other.is_dynamic() => Type::Dyn,
            other => {
                let expected = Type::optional(other.clone());
                self.fail(element.at, format!("expected type '{expected}' but found '{other}'"))
            }
        }
    }

    /// Returns the common type of elements. Elements of different types are an error.
    fn join(&mut self, at: Offset, before: Option<Type>, found: Type) -> Type {
        let Some(before) = before else { return found };
        let mut attempt = self.types.clone();
        if attempt.assign(&before, &found) {
            self.types = attempt;
            return if before.is_dynamic() { before } else { found };
        }
        let (before, found) = (self.types.apply(&before, true), self.types.apply(&found, true));
        self.fail(at, format!("expected type '{before}' but found '{found}'"))
    }

    fn select(&mut self, at: Offset, operand: &Expr, field: &str, test: bool, optional: bool) -> Type {
        let found = self.check(operand);
        let found = self.types.apply(&found, false);
        let (of, is_optional) = match found {
            Type::Optional(of) => (*of, true),
            other => (other, optional),
        };
        let result = match of {
            Type::Map(_, value) => *value,
            Type::Device => match self.field(field) {
                Some(found) => found,
                None => return self.fail(at, format!("undefined field '{field}'")),
            },
            Type::Var(_) => Type::Dyn,
            other if other.is_dynamic() => Type::Dyn,
            other => return self.fail(at, format!("type '{other}' does not support field selection")),
        };
        match (test, is_optional) {
            (true, _) => Type::Bool,
            (false, true) => Type::optional(result),
            (false, false) => result,
        }
    }

    fn field(&self, name: &str) -> Option<Type> {
        let maps = |of: Type| Type::map(Type::String, Type::map(Type::String, of));
        let attribute = if self.features.list_attributes { Type::Dyn } else { Type::Any };
        match name {
            "driver" => Some(Type::String),
            "attributes" => Some(maps(attribute)),
            "capacity" => Some(maps(Type::Quantity)),
            "allowMultipleAllocations" => self.features.consumable_capacity.then_some(Type::Bool),
            _ => None,
        }
    }

    fn call(&mut self, at: Offset, function: Function, target: Option<&Expr>, args: &[Expr]) -> Type {
        let mut types: Vec<Type> =
            target.into_iter().chain(args).map(|argument| self.check(argument)).collect();
        let mut result: Option<Type> = None;
        for overload in function.overloads() {
            if overload.is_member != target.is_some() || overload.args.len() != types.len() {
                continue;
            }
            let mut attempt = self.types.clone();
            let mut params = Vec::new();
            let expected: Vec<Type> = overload.args.iter().map(|sig| attempt.of(*sig, &mut params)).collect();
            if !expected.iter().zip(&types).all(|(to, from)| attempt.assign(to, from)) {
                continue;
            }
            let found = attempt.of(overload.result, &mut params);
            let found = attempt.apply(&found, false);
            self.types = attempt;
            result = Some(match result {
                None => found,
                Some(before) if before.is_dynamic() || before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        types.iter_mut().for_each(|of| *of = self.types.apply(of, true));
        let printed = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        let applied = match target {
            Some(_) => format!("{}.({})", types[0], printed(&types[1..])),
            None => format!("({})", printed(&types)),
        };
        self.fail(at, format!("found no matching overload for '{}' applied to '{applied}'", function.name()))
    }

    fn comprehension(&mut self, looped: &Comprehension) -> Type {
        let range = self.check(&looped.range);
        let accumulator = self.check(&looped.init);
        let variable = match self.types.apply(&range, false) {
            Type::List(of) | Type::Map(of, _) => *of,
            other if other.is_dynamic() => Type::Dyn,
            Type::Var(_) => Type::Dyn,
            other => self.fail(
                looped.range.at,
                format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                ),
            ),
        };
        let outer = self.variables.len();
        self.variables.push((looped.accumulator.clone(), accumulator.clone()));
        self.variables.push((looped.variable.clone(), variable));
        let condition = self.check(&looped.condition);
        self.expect(looped.condition.at, &Type::Bool, &condition);
        let step = self.check(&looped.step);
        self.expect(looped.step.at, &accumulator, &step);
        self.variables.truncate(outer + 1);
        let result = self.check(&looped.result);
        self.variables.truncate(outer);
        result
    }

    fn expect(&mut self, at: Offset, expected: &Type, found: &Type) {
        let mut attempt = self.types.clone();
        if attempt.assign(expected, found) {
            self.types = attempt;
            return;
        }
        let (expected, found) = (self.types.apply(expected, true), self.types.apply(found, true));
        self.fail(at, format!("expected type '{expected}' but found '{found}'"));
    }
}

fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
