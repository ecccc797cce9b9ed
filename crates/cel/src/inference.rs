//! Decides which types are assignable, and finds the types of type variables.

use std::collections::HashMap;

use crate::types::{OPTIONAL, Param, Type, TypeKind};

/// Maximum number of parts of a type. Each level of nested macros such as `cel.bind(x, v, {x: x})` can double a type.
const LARGEST: usize = 1000;

/// The types found for type variables.
#[derive(Debug, Default)]
pub(crate) struct Inference {
    found: HashMap<Param, Type>,
    /// Previous entries of `found`, one for each change that the current attempt has made.
    undo: Vec<(Param, Option<Type>)>,
    next: u32,
}

impl Inference {
    /// Returns a new type variable.
    pub(crate) fn variable(&mut self) -> Type {
        self.next += 1;
        Type::Param(Param::Variable(self.next - 1))
    }

    /// Returns true if a value of type `from` can be used where `to` is expected. If so, remembers the types found for
    /// type variables.
    pub(crate) fn assign(&mut self, to: &Type, from: &Type) -> bool {
        self.attempt(|it| it.is_assignable(to, from))
    }

    /// Like [`Self::assign`], but for two lists of types, which are paired by position. Returns false if the lengths
    /// differ.
    pub(crate) fn assign_all(&mut self, to: &[Type], from: &[Type]) -> bool {
        to.len() == from.len()
            && self.attempt(|it| to.iter().zip(from).all(|(to, from)| it.is_assignable(to, from)))
    }

    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        self.undo.clear();
        let fits = attempt(self);
        if !fits {
            for (param, before) in std::mem::take(&mut self.undo).into_iter().rev() {
                match before {
                    Some(before) => self.found.insert(param, before),
                    None => self.found.remove(&param),
                };
            }
        }
        fits
    }

    fn set(&mut self, param: Param, to: Type) {
        let before = self.found.insert(param, to);
        self.undo.push((param, before));
    }

    fn is_assignable(&mut self, to: &Type, from: &Type) -> bool {
        if let Type::Param(param) = from {
            let is_known = self.found.contains_key(param);
            if self.substitutes(to, *param) {
                return true;
            }
            if is_known || to == from {
                return false;
            }
        }
        if let Type::Param(param) = to {
            return self.substitutes(from, *param);
        }
        if to.is_dynamic_or_error() || from.is_dynamic_or_error() {
            return true;
        }
        if *to == Type::Null {
            return is_nullable(from);
        }
        if *from == Type::Null {
            return is_nullable(to);
        }
        match (to, from) {
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) => self.is_assignable(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.is_assignable(a, b) && self.is_assignable(x, y),
            (Type::Opaque(a, x), Type::Opaque(b, y)) => {
                a == b
                    && match (x, y) {
                        (Some(x), Some(y)) => self.is_assignable(x, y),
                        (x, y) => x.is_none() && y.is_none(),
                    }
            }
            (to, from) => to == from,
        }
    }

    /// Returns true if the variable can have this type. If so, remembers the type, unless the type that was found
    /// before is more general.
    fn substitutes(&mut self, of: &Type, param: Param) -> bool {
        if *of == Type::Param(param) {
            return true;
        }
        if let Some(known) = self.found.get(&param).cloned() {
            if *of == known {
                return true;
            }
            if !self.is_assignable(of, &known) {
                return false;
            }
            let general = most_general(of, &known);
            if !self.occurs(param, &general) {
                self.set(param, general);
            }
            return true;
        }
        if self.occurs(param, of) {
            return false;
        }
        self.set(param, of.clone());
        true
    }

    fn occurs(&self, param: Param, within: &Type) -> bool {
        match within {
            Type::Param(other) if *other == param => true,
            Type::Param(other) => self.found.get(other).is_some_and(|found| self.occurs(param, found)),
            within => within.params().any(|inner| self.occurs(param, inner)),
        }
    }

    /// Returns true if a type has too many parts, including those of the types found for its variables.
    pub(crate) fn is_too_large(&self, of: &Type) -> bool {
        !self.fits(of, &mut { LARGEST })
    }

    /// Subtracts the number of parts of a type from `rest`. Returns false if nothing is left.
    fn fits(&self, of: &Type, rest: &mut usize) -> bool {
        match of {
            Type::Param(param) if let Some(found) = self.found.get(param) => self.fits(found, rest),
            _ => {
                *rest = rest.saturating_sub(1);
                *rest > 0 && of.params().all(|param| self.fits(param, rest))
            }
        }
    }

    /// Replaces the variables of a type with the types found for them. If `close` is true, replaces the other variables
    /// with [`Type::Dyn`].
    pub(crate) fn apply(&self, of: &Type, close: bool) -> Type {
        match of {
            Type::Param(param) => match self.found.get(param) {
                Some(found) => self.apply(found, close),
                None if close => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.apply(of, close)),
            Type::Map(key, value) => Type::map(self.apply(key, close), self.apply(value, close)),
            Type::Meta(Some(of)) => Type::of_type(self.apply(of, close)),
            Type::Opaque(OPTIONAL, Some(of)) => Type::optional(self.apply(of, close)),
            other => other.clone(),
        }
    }
}

fn is_nullable(of: &Type) -> bool {
    let kinds = [TypeKind::Opaque, TypeKind::Struct, TypeKind::Any, TypeKind::Duration, TypeKind::Timestamp];
    *of == Type::Null || kinds.contains(&of.kind())
}

/// Returns the type that admits more values.
pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    if is_equal_or_less_specific(a, b) { a.clone() } else { b.clone() }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    if a.is_dynamic() || matches!(a, Type::Param(_)) {
        return true;
    }
    if b.is_dynamic() || matches!(b, Type::Param(_)) {
        return false;
    }
    match (a, b) {
        (Type::Opaque(a, x), Type::Opaque(b, y)) => {
            a == b
                && match (x, y) {
                    (Some(x), Some(y)) => is_equal_or_less_specific(x, y),
                    (x, y) => x.is_none() && y.is_none(),
                }
        }
        (Type::List(a), Type::List(b)) => is_equal_or_less_specific(a, b),
        (Type::Map(a, x), Type::Map(b, y)) => {
            is_equal_or_less_specific(a, b) && is_equal_or_less_specific(x, y)
        }
        (Type::Meta(_), Type::Meta(_)) => true,
        (a, b) => a == b,
    }
}
