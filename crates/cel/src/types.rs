//! Types of expressions, and their assignability.

use std::{collections::BTreeMap, fmt};

/// A type in the signature of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sig {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Type,
    Quantity,
    Semver,
    List(&'static Sig),
    Map(&'static Sig, &'static Sig),
    Optional(&'static Sig),
    /// A type parameter.
    Param(u8),
}

/// Type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// Unknown until the expression is evaluated.
    Dyn,
    /// Like [`Self::Dyn`]; the type of attributes.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    /// The type of types.
    OfTypes,
    Quantity,
    Semver,
    /// The variable `device`.
    Device,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// A type that is still to be found.
    Var(u32),
    /// The type of an expression with an error. It fits everywhere, so that one mistake is reported once.
    Error,
}

impl Type {
    pub(crate) fn list(of: Type) -> Self {
        Self::List(Box::new(of))
    }

    pub(crate) fn map(key: Type, value: Type) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    pub(crate) fn optional(of: Type) -> Self {
        Self::Optional(Box::new(of))
    }

    /// Returns true if values of any type fit.
    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Any => "any",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::OfTypes => "type",
            Self::Quantity => "kubernetes.Quantity",
            Self::Semver => "kubernetes.Semver",
            Self::Device => "kubernetes.DRADevice",
            Self::Error => "!error!",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(of) => return write!(f, "optional_type({of})"),
            Self::Var(number) => return write!(f, "_var{number}"),
        })
    }
}

/// Types that were found for type variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substitution {
    found: BTreeMap<u32, Type>,
    next: u32,
}

impl Substitution {
    /// Returns a new type variable.
    pub(crate) fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Var(self.next - 1)
    }

    /// Returns the type of a signature. `params` holds the variables of its type parameters.
    pub(crate) fn of(&mut self, sig: Sig, params: &mut Vec<(u8, Type)>) -> Type {
        match sig {
            Sig::Dyn => Type::Dyn,
            Sig::Bool => Type::Bool,
            Sig::Int => Type::Int,
            Sig::Uint => Type::Uint,
            Sig::Double => Type::Double,
            Sig::String => Type::String,
            Sig::Bytes => Type::Bytes,
            Sig::Type => Type::OfTypes,
            Sig::Quantity => Type::Quantity,
            Sig::Semver => Type::Semver,
            Sig::List(of) => Type::list(self.of(*of, params)),
            Sig::Map(key, value) => {
                let key = self.of(*key, params);
                Type::map(key, self.of(*value, params))
            }
            Sig::Optional(of) => Type::optional(self.of(*of, params)),
            Sig::Param(number) => match params.iter().find(|(known, _)| *known == number) {
                Some((_, variable)) => variable.clone(),
                None => {
                    let variable = self.fresh();
                    params.push((number, variable.clone()));
                    variable
                }
            },
        }
    }

    /// Replaces the variables of a type by what was found for them; unknown ones by [`Type::Dyn`] if `close` is set.
    pub(crate) fn apply(&self, of: &Type, close: bool) -> Type {
        match of {
            Type::Var(number) => match self.found.get(number) {
                Some(found) => self.apply(found, close),
                None if close => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.apply(of, close)),
            Type::Map(key, value) => Type::map(self.apply(key, close), self.apply(value, close)),
            Type::Optional(of) => Type::optional(self.apply(of, close)),
            other => other.clone(),
        }
    }

    /// Returns true if a value of type `from` can be used as `to`, and finds variables accordingly.
    pub(crate) fn assign(&mut self, to: &Type, from: &Type) -> bool {
        let (to, from) = (self.resolved(to), self.resolved(from));
        match (&to, &from) {
            (Type::Var(a), Type::Var(b)) if a == b => true,
            (Type::Var(variable), other) | (other, Type::Var(variable)) => {
                if self.occurs(*variable, other) {
                    return false;
                }
                self.found.insert(*variable, other.clone());
                true
            }
            (a, b) if a.is_dynamic() || b.is_dynamic() => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.assign(a, b) && self.assign(x, y),
            (a, Type::Null) => {
                matches!(a, Type::Null | Type::Device | Type::Quantity | Type::Semver | Type::Optional(_))
            }
            (a, b) => a == b,
        }
    }

    fn resolved(&self, of: &Type) -> Type {
        match of {
            Type::Var(number) => {
                self.found.get(number).map_or_else(|| of.clone(), |found| self.resolved(found))
            }
            other => other.clone(),
        }
    }

    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match self.resolved(within) {
            Type::Var(number) => number == variable,
            Type::List(of) | Type::Optional(of) => self.occurs(variable, &of),
            Type::Map(key, value) => self.occurs(variable, &key) || self.occurs(variable, &value),
            _ => false,
        }
    }
}
