//! Checks literals after the checker has determined the types.
//!
//! cel-go visits the tree once for each check, children before their parent. Problems at the same position are
//! therefore reported in the order of the checks.

use crate::{
    ast::{Call, Expr, Kind, Literal},
    checker::Checked,
    environment::Environment,
    errors::CompileError,
    fuel::Fuel,
    library::format::{self, Clause, FormatError},
    pattern::Pattern,
    source::{Issues, Offset, Source},
    types::{Type, TypeKind},
    value::Value,
};

/// Checks the literals of a tree.
pub(crate) fn validate(
    source: &Source,
    root: &Expr,
    checked: &Checked,
    environment: Environment,
) -> Result<(), CompileError> {
    let mut validator = Validator { checked, environment, issues: Default::default(), is_broken: false };
    validator.visit(root, false);
    if validator.is_broken {
        return Err(CompileError::new("internal error: runtime error: index out of range [0] with length 0"));
    }
    let mut all = Issues::default();
    validator.issues.into_iter().for_each(|issues| all.append(issues));
    all.into_result(source)
}

/// The checks, in the order in which cel-go runs them.
#[derive(Clone, Copy)]
enum Check {
    Lists,
    Maps,
    Durations,
    Timestamps,
    Patterns,
    Formats,
}

const CHECKS: usize = 6;

struct Validator<'c> {
    checked: &'c Checked,
    environment: Environment,
    /// Problems by check.
    issues: [Issues; CHECKS],
    /// True if cel-go would panic.
    is_broken: bool,
}

/// An argument that does not fit its clause in a format string.
struct Misfit {
    at: Offset,
    message: String,
}

impl Validator<'_> {
    /// Visits an expression. Lists and maps within a call of `format` may contain elements of several types.
    fn visit(&mut self, expr: &Expr, is_formatted: bool) {
        let is_format = matches!(&expr.kind, Kind::Call(call) if call.function == "format");
        expr.for_each_child(&mut |child| self.visit(child, is_formatted || is_format));
        match &expr.kind {
            Kind::Call(call) => self.check_call(expr, call),
            Kind::List(elements) if !is_formatted => {
                let types = elements.iter().map(|it| (&it.value, it.is_optional)).collect();
                self.check_types(Check::Lists, types);
            }
            Kind::Map(entries) if !is_formatted => {
                let keys = entries.iter().map(|entry| (&entry.key, false)).collect();
                self.check_types(Check::Maps, keys);
                let values = entries.iter().map(|entry| (&entry.value, entry.is_optional)).collect();
                self.check_types(Check::Maps, values);
            }
            _ => {}
        }
    }

    fn report(&mut self, check: Check, at: Offset, message: impl Into<String>) {
        self.issues[check as usize].add(at, message);
    }

    /// Reports elements whose type differs from the first element's. In a list, reports only the first such element.
    fn check_types(&mut self, check: Check, elements: Vec<(&Expr, bool)>) {
        let mut first: Option<&Type> = None;
        for (element, is_optional) in elements {
            let mut of = self.checked.type_of(element.id);
            if is_optional {
                match of.params().next() {
                    Some(inner) => of = inner,
                    None => {
                        self.is_broken = true;
                        return;
                    }
                }
            }
            match first {
                None => first = Some(of),
                Some(first) if first.is_equivalent(of) => {}
                Some(first) => {
                    self.report(check, element.at, format!("expected type '{first}' but found '{of}'"));
                    if matches!(check, Check::Lists) {
                        return;
                    }
                }
            }
        }
    }

    fn check_call(&mut self, expr: &Expr, call: &Call) {
        let name = call.function.as_str();
        let Some(first) = call.args.first() else { return };
        match (name, &first.kind) {
            ("duration" | "timestamp", Kind::Literal(literal)) if !self.is_convertible(name, literal) => {
                let check = if name == "duration" { Check::Durations } else { Check::Timestamps };
                self.report(check, first.at, format!("invalid {name} argument"));
            }
            // In a call without a target, the first argument is the text, not the pattern. cel-go checks it anyway.
            ("matches", Kind::Literal(Literal::String(text))) if Pattern::new(text).is_err() => {
                self.report(Check::Patterns, first.at, "invalid matches argument");
            }
            ("format", Kind::List(elements)) => {
                let text = call.target.as_ref().and_then(Expr::as_text);
                if let (Some(text), 1) = (text, call.args.len()) {
                    let args: Vec<&Expr> = elements.iter().map(|element| &element.value).collect();
                    self.check_format(expr.at, text, &args);
                }
            }
            _ => {}
        }
    }

    fn check_format(&mut self, at: Offset, text: &str, args: &[&Expr]) {
        let needed =
            format::read(text, args.len(), false, |clause, arg, _| self.check_argument(clause, args[arg]));
        match needed {
            Ok((_, needed)) if args.len() > needed => {
                let given = args.len();
                let message =
                    format!("too many arguments supplied to string.format (expected {needed}, got {given})");
                self.report(Check::Formats, at, message);
            }
            Ok(_) => {}
            Err(FormatError::Text(message)) => self.report(Check::Formats, at, message),
            Err(FormatError::Argument(misfit)) => {
                let message = format!("error during formatting: {}", misfit.message);
                self.report(Check::Formats, misfit.at, message);
            }
        }
    }

    fn check_argument(&self, clause: Clause, arg: &Expr) -> Result<(), Misfit> {
        use TypeKind::{Bool, Bytes, Double, Int, String, Uint};
        let kinds: &[TypeKind] = match clause {
            Clause::Text => return self.check_text(arg),
            Clause::Decimal | Clause::Octal => &[Int, Uint],
            Clause::Fixed(_) | Clause::Scientific(_) => &[Double, String],
            Clause::Binary => &[Int, Uint, Bool],
            Clause::Hex { .. } => &[Int, Uint, String, Bytes],
        };
        self.check_kind(clause, arg, kinds)
    }

    fn check_kind(&self, clause: Clause, arg: &Expr, kinds: &[TypeKind]) -> Result<(), Misfit> {
        let of = self.checked.type_of(arg.id);
        if *of == Type::Dyn || kinds.contains(&of.kind()) {
            return Ok(());
        }
        Err(Misfit { at: arg.at, message: clause.misfit(&of.name()) })
    }

    fn check_text(&self, arg: &Expr) -> Result<(), Misfit> {
        use TypeKind as K;
        let kinds = [
            K::List,
            K::Map,
            K::Int,
            K::Uint,
            K::Double,
            K::Bool,
            K::String,
            K::Timestamp,
            K::Bytes,
            K::Duration,
            K::Meta,
            K::Null,
        ];
        self.check_kind(Clause::Text, arg, &kinds)?;
        match &arg.kind {
            Kind::List(elements) => elements.iter().try_for_each(|element| self.check_text(&element.value)),
            Kind::Map(entries) => entries.iter().try_for_each(|entry| {
                self.check_text(&entry.key)?;
                self.check_text(&entry.value)
            }),
            _ => Ok(()),
        }
    }

    fn is_convertible(&self, function: &str, literal: &Literal) -> bool {
        let value = Value::of_literal(literal);
        let fuel = Fuel::new(self.environment.release());
        let function = self.environment.function(function);
        function.is_some_and(|function| !function.call(&[value], &fuel).is_error())
    }
}
