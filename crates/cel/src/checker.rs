//! Finds the types of expressions, and the overloads that calls can refer to.
//!
//! The checker replaces selections that are names, such as `net.IP`, with identifiers. It also turns calls of
//! functions that have qualified names, such as `optional.of(x)`, into calls without a target.

use crate::{
    ast::{Call, Comprehension, Expr, ExprId, Kind, Literal, Select},
    environment::{DEVICE_TYPE, Declared, Environment},
    errors::CompileError,
    functions::{Function, Overload},
    inference::{Inference, most_general},
    parser::Parsed,
    source::{Issues, Offset, Source},
    types::{OPTIONAL, Type},
};

/// Types and references of the expressions of a tree.
#[derive(Debug)]
pub(crate) struct Checked {
    types: Vec<Option<Type>>,
    references: Vec<Reference>,
}

/// The declaration that a name or call refers to.
#[derive(Clone, Debug, Default)]
pub(crate) enum Reference {
    #[default]
    None,
    /// A variable or the name of a type.
    Name,
    Constant(i64),
    /// Overloads of a function. There are several if the types of the arguments are not known before evaluation.
    Overloads(Vec<&'static Overload>),
}

impl Checked {
    pub(crate) fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id as usize).and_then(Option::as_ref).unwrap_or(&Type::Error)
    }

    pub(crate) fn reference(&self, id: ExprId) -> &Reference {
        self.references.get(id as usize).unwrap_or(&Reference::None)
    }

    /// Returns the overloads that a call can refer to.
    pub(crate) fn overloads(&self, id: ExprId) -> &[&'static Overload] {
        match self.reference(id) {
            Reference::Overloads(overloads) => overloads,
            _ => &[],
        }
    }
}

/// Checks the types of a tree.
pub(crate) fn check(
    source: &Source,
    parsed: &mut Parsed,
    environment: Environment,
) -> Result<Checked, CompileError> {
    let count = parsed.last_id as usize + 1;
    let mut checker = Checker {
        environment,
        issues: Issues::default(),
        inference: Inference::default(),
        checked: Checked { types: vec![None; count], references: vec![Reference::None; count] },
        variables: Vec::new(),
    };
    checker.check(&mut parsed.root);
    let Checker { issues, inference, mut checked, .. } = checker;
    issues.into_result(source)?;
    for of in checked.types.iter_mut().flatten() {
        *of = inference.apply(of, true);
    }
    Ok(checked)
}

struct Checker {
    environment: Environment,
    issues: Issues,
    inference: Inference,
    checked: Checked,
    /// Variables of macros, the innermost last.
    variables: Vec<(String, Type)>,
}

impl Checker {
    fn set_type(&mut self, expr: &Expr, of: Type) {
        self.checked.types[expr.id as usize] = Some(of);
    }

    fn set_reference(&mut self, expr: &Expr, reference: Reference) {
        self.checked.references[expr.id as usize] = reference;
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.checked.type_of(expr.id).clone()
    }

    fn substituted(&self, expr: &Expr) -> Type {
        self.inference.apply(self.checked.type_of(expr.id), false)
    }

    fn report(&mut self, at: Offset, message: String) {
        self.issues.add(at, message);
    }

    fn report_undeclared(&mut self, expr: &Expr, name: &str) {
        self.report(expr.at, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn report_mismatch(&mut self, at: Offset, expected: &Type, found: &Type) {
        self.report(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            Kind::Literal(literal) => {
                let of = type_of_literal(literal);
                self.set_type(expr, of);
            }
            Kind::Ident(_) => self.check_ident(expr),
            Kind::Select(_) => self.check_select(expr),
            Kind::Call(_) => self.check_call(expr),
            Kind::List(_) => self.check_list(expr),
            Kind::Map(_) => self.check_map(expr),
            Kind::Struct(..) => self.check_struct(expr),
            Kind::Comprehension(loops) => {
                let result = self.check_comprehension(loops);
                self.set_type(expr, result);
            }
            Kind::Broken => self.set_type(expr, Type::Error),
        }
        if self.inference.is_too_large(self.checked.type_of(expr.id)) {
            self.report(expr.at, "type of expression is too large".to_owned());
            self.set_type(expr, Type::Error);
        }
    }

    /// Returns the type of a variable of a macro.
    fn local(&self, name: &str) -> Option<&Type> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, of)| of)
    }

    /// Finds a declaration that does not belong to a macro, and its type.
    fn find_global(&self, name: &str) -> Option<(Reference, Type)> {
        Some(match self.environment.find(name)? {
            Declared::Variable(of) => (Reference::Name, of),
            Declared::Type(of) => (Reference::Name, Type::of_type(of)),
            Declared::Constant(value) => (Reference::Constant(value), Type::Int),
        })
    }

    /// Finds the declaration of a name without a leading dot, and its type.
    fn find(&self, name: &str) -> Option<(Reference, Type)> {
        match self.local(name) {
            Some(of) => Some((Reference::Name, of.clone())),
            None => self.find_global(name),
        }
    }

    /// Finds what a name refers to. Also returns the name for the evaluation.
    fn lookup<'n>(&self, name: &'n str) -> Option<(&'n str, Reference, Type)> {
        let full = name.strip_prefix('.').unwrap_or(name);
        let (name, (reference, of)) = match self.environment.has_local_names() {
            true => self.lookup_by_first_part(name, full)?,
            false => (full, self.find(full)?),
        };
        Some((name, reference, of))
    }

    /// Like [`Self::lookup`], if a variable hides the names that begin with its name. `full` is the name without a
    /// leading dot.
    fn lookup_by_first_part<'n>(&self, name: &'n str, full: &'n str) -> Option<(&'n str, (Reference, Type))> {
        let first = full.split('.').next().unwrap_or_default();
        match self.local(first) {
            None => Some((full, self.find_global(full)?)),
            // The dot stays, so that the evaluation skips the variable, too.
            Some(_) if name != full => Some((name, self.find_global(full)?)),
            Some(of) if first == full => Some((full, (Reference::Name, of.clone()))),
            // A field of the variable.
            Some(_) => None,
        }
    }

    /// If the name is declared, turns the expression into an identifier and returns true.
    fn resolve(&mut self, expr: &mut Expr, name: &str) -> bool {
        let Some((name, reference, of)) = self.lookup(name) else { return false };
        expr.kind = Kind::Ident(name.to_owned());
        self.set_type(expr, of);
        self.set_reference(expr, reference);
        true
    }

    /// Finds the type of the name in front of the fields of a message.
    fn find_message(&self, name: &str) -> Option<Type> {
        match self.environment.has_local_names() {
            true => self.environment.find_type(name).map(Type::of_type),
            false => self.find(name).map(|(_, of)| of),
        }
    }

    fn check_ident(&mut self, expr: &mut Expr) {
        let Some(name) = expr.as_ident().map(str::to_owned) else { return };
        if !self.resolve(expr, &name) {
            self.set_type(expr, Type::Error);
            self.report_undeclared(expr, &name);
        }
    }

    fn check_select(&mut self, expr: &mut Expr) {
        if let Some(name) = expr.qualified_name()
            && self.resolve(expr, &name)
        {
            return;
        }
        let (id, at) = (expr.id, expr.at);
        let Kind::Select(select) = &mut expr.kind else { return };
        let Select { operand, field, is_test } = &mut **select;
        let found = self.check_field(at, operand, field, false);
        let of = if *is_test { Type::Bool } else { self.inference.apply(&found, false) };
        self.checked.types[id as usize] = Some(of);
    }

    /// Checks the selection of a field or entry, and returns its type.
    fn check_field(&mut self, at: Offset, operand: &mut Expr, field: &str, is_optional: bool) -> Type {
        self.check(operand);
        let of = self.substituted(operand);
        let (target, was_optional) = unwrapped(&of);
        let found = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Struct(name) => self.field_of(at, name, field).unwrap_or(Type::Error),
            Type::Param(_) => {
                self.inference.assign(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dynamic_or_error() {
                    self.report(at, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || is_optional { Type::optional(found) } else { found }
    }

    fn field_of(&mut self, at: Offset, of: &str, field: &str) -> Option<Type> {
        if of != DEVICE_TYPE {
            self.report(at, format!("unexpected failed resolution of '{of}'"));
            return None;
        }
        let found = self.environment.field(field);
        if found.is_none() {
            self.report(at, format!("undefined field '{field}'"));
        }
        found
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let Kind::Call(call) = &mut expr.kind else { return };
        if call.function == "_?._" {
            return self.check_optional_select(expr);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        let Some(target) = &mut call.target else {
            match self.environment.function(&call.function) {
                Some(function) => {
                    call.function = function.name.to_owned();
                    self.resolve_overloads(expr, function);
                }
                None => {
                    let name = call.function.clone();
                    self.report_undeclared(expr, &name);
                    self.set_type(expr, Type::Error);
                }
            }
            return;
        };
        if let Some(prefix) = target.qualified_name()
            && let Some(function) = self.environment.function(&format!("{prefix}.{}", call.function))
        {
            call.function = function.name.to_owned();
            call.target = None;
            return self.resolve_overloads(expr, function);
        }
        self.check(target);
        match self.environment.function(&call.function) {
            Some(function) => self.resolve_overloads(expr, function),
            None => {
                let name = call.function.clone();
                self.set_type(expr, Type::Error);
                self.report_undeclared(expr, &name);
            }
        }
    }

    fn check_optional_select(&mut self, expr: &mut Expr) {
        let (id, at) = (expr.id, expr.at);
        let Kind::Call(call) = &mut expr.kind else { return };
        let [operand, field] = call.args.as_mut_slice() else { return };
        let Some(field) = field.as_text().map(str::to_owned) else { return };
        let found = self.check_field(at, operand, &field, true);
        self.checked.types[id as usize] = Some(self.inference.apply(&found, false));
        let overloads = self.environment.function("_?._").map_or(&[][..], |function| function.overloads);
        self.checked.references[id as usize] = Reference::Overloads(overloads.iter().collect());
    }

    /// Finds the overloads that a call can refer to, and the type of its result.
    fn resolve_overloads(&mut self, expr: &Expr, function: &'static Function) {
        let Kind::Call(call) = &expr.kind else { return };
        match self.overloads(expr, call, function) {
            Some((overloads, result)) => {
                self.set_type(expr, result);
                self.set_reference(expr, Reference::Overloads(overloads));
            }
            None => self.set_type(expr, Type::Error),
        }
    }

    fn overloads(
        &mut self,
        expr: &Expr,
        call: &Call,
        function: &'static Function,
    ) -> Option<(Vec<&'static Overload>, Type)> {
        let is_member = call.target.is_some();
        let args: Vec<Type> = call.target.iter().chain(&call.args).map(|arg| self.type_of(arg)).collect();
        let mut found = Vec::new();
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.is_member == is_member) {
            if matches!(function.name, "_&&_" | "_||_") {
                return self.check_logic(call, &args).then(|| (vec![overload], Type::Bool));
            }
            let mut names = Vec::new();
            overload.args.iter().for_each(|arg| arg.params(&mut names));
            overload.result.params(&mut names);
            let params: Vec<(&str, Type)> =
                names.into_iter().map(|name| (name, self.inference.variable())).collect();
            let expected: Vec<Type> = overload.args.iter().map(|arg| arg.instantiate(&params)).collect();
            if !self.inference.assign_all(&args, &expected) {
                continue;
            }
            found.push(overload);
            let of = self.inference.apply(&overload.result.instantiate(&params), false);
            result = Some(match result {
                None => of,
                Some(before) if before == of || before.is_dynamic() => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return Some((found, result));
        }
        let args: Vec<String> = args.iter().map(|arg| self.inference.apply(arg, true).to_string()).collect();
        let (target, args) = match args.split_first() {
            Some((target, args)) if is_member => (format!("{target}."), args),
            _ => (String::new(), args.as_slice()),
        };
        let applied = format!("{target}({})", args.join(", "));
        let name = function.name;
        self.report(expr.at, format!("found no matching overload for '{name}' applied to '{applied}'"));
        None
    }

    /// Checks the operands of `&&` and `||`.
    fn check_logic(&mut self, call: &Call, types: &[Type]) -> bool {
        let mut fits = true;
        for (arg, of) in call.args.iter().zip(types) {
            if !self.inference.assign(of, &Type::Bool) {
                self.report_mismatch(arg.at, &Type::Bool, of);
                fits = false;
            }
        }
        fits
    }

    /// Returns the type within `of`, the type of an optional element. If `of` is not an optional type, returns it
    /// unchanged and, unless it is dynamic, reports it.
    fn optional_element(&mut self, value: &Expr, of: Type) -> Type {
        match unwrapped(&of) {
            (inner, true) => inner.clone(),
            _ => {
                if !of.is_dynamic() {
                    self.report_mismatch(value.at, &Type::optional(of.clone()), &of);
                }
                of
            }
        }
    }

    fn check_list(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::List(elements) = &mut expr.kind else { return };
        let mut joined = None;
        for element in elements {
            self.check(&mut element.value);
            let mut of = self.type_of(&element.value);
            if element.is_optional {
                of = self.optional_element(&element.value, of);
            }
            joined = Some(self.join(joined, of));
        }
        let of = joined.unwrap_or_else(|| self.inference.variable());
        self.checked.types[id as usize] = Some(Type::list(of));
    }

    fn check_map(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::Map(entries) = &mut expr.kind else { return };
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let of = self.type_of(&entry.key);
            keys = Some(self.join(keys, of));
            self.check(&mut entry.value);
            let mut of = self.type_of(&entry.value);
            if entry.is_optional {
                of = self.optional_element(&entry.value, of);
            }
            values = Some(self.join(values, of));
        }
        let key = keys.unwrap_or_else(|| self.inference.variable());
        let value = values.unwrap_or_else(|| self.inference.variable());
        self.checked.types[id as usize] = Some(Type::map(key, value));
    }

    /// Returns a type for elements of both types.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        match before {
            None => next,
            Some(before) if self.inference.assign(&before, &next) => most_general(&before, &next),
            Some(_) => Type::Dyn,
        }
    }

    fn check_struct(&mut self, expr: &mut Expr) {
        let (id, at) = (expr.id, expr.at);
        let Kind::Struct(name, fields) = &mut expr.kind else { return };
        let known = name.strip_prefix('.').unwrap_or(name);
        let Some(declared) = self.find_message(known) else {
            let name = name.clone();
            self.report_undeclared(expr, &name);
            self.set_type(expr, Type::Error);
            return;
        };
        *name = known.to_owned();
        let of = match declared {
            Type::Meta(Some(of)) if matches!(*of, Type::Struct(_)) => (*of).clone(),
            Type::Meta(of) => {
                let shown = of.map_or_else(|| "type".to_owned(), |of| of.name());
                self.report(at, format!("'{shown}' is not a message type"));
                Type::Error
            }
            Type::Error => Type::Error,
            other => {
                self.report(at, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        let type_name = if let Type::Struct(name) = &of { name.to_string() } else { name.clone() };
        for field in fields {
            self.check(&mut field.value);
            let expected = self.field_of(field.at, &type_name, &field.name).unwrap_or(Type::Error);
            let mut found = self.type_of(&field.value);
            if field.is_optional {
                found = self.optional_element(&field.value, found);
            }
            if !self.inference.assign(&expected, &found) {
                let name = &field.name;
                let message =
                    format!("expected type of field '{name}' is '{expected}' but provided type is '{found}'");
                self.report(field.at, message);
            }
        }
        self.checked.types[id as usize] = Some(of);
    }

    fn check_comprehension(&mut self, loops: &mut Comprehension) -> Type {
        self.check(&mut loops.range);
        self.check(&mut loops.init);
        let range = self.substituted(&loops.range);
        let init = self.type_of(&loops.init);
        let outer = self.variables.len();
        self.variables.push((loops.accumulator.clone(), init.clone()));
        let has_two = loops.variable2.is_some();
        let (first, second) = match &range {
            Type::List(of) if has_two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.inference.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(loops.range.at, message);
                (Type::Error, Type::Error)
            }
        };
        let within = self.variables.len();
        self.variables.push((loops.variable.clone(), first));
        if let Some(name) = &loops.variable2 {
            self.variables.push((name.clone(), second));
        }
        self.check(&mut loops.condition);
        self.assert(&loops.condition, &Type::Bool);
        self.check(&mut loops.step);
        self.assert(&loops.step, &init);
        self.variables.truncate(within);
        self.check(&mut loops.result);
        self.variables.truncate(outer);
        self.substituted(&loops.result)
    }

    fn assert(&mut self, expr: &Expr, expected: &Type) {
        let found = self.type_of(expr);
        if !self.inference.assign(expected, &found) {
            self.report_mismatch(expr.at, expected, &found);
        }
    }
}

fn type_of_literal(literal: &Literal) -> Type {
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

/// Returns the type within an optional type and true, or the type itself and false.
fn unwrapped(of: &Type) -> (&Type, bool) {
    match of {
        Type::Opaque(OPTIONAL, Some(inner)) => (inner, true),
        other => (other, false),
    }
}
