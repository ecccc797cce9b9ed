//! Types of expressions.

use std::{fmt, rc::Rc};

/// Type of an expression.
#[derive(Clone, Debug, PartialEq)]
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
    Duration,
    Timestamp,
    /// The type of a value that is itself a type. Contains that type; `None` if it is not known.
    Meta(Option<Rc<Type>>),
    List(Rc<Type>),
    Map(Rc<Type>, Rc<Type>),
    /// A type that a library defines and that has no fields: `optional_type`, `net.IP` or `net.CIDR`.
    Opaque(&'static str, Option<Rc<Type>>),
    /// The type of the device, or another type of Kubernetes, such as `kubernetes.Quantity`.
    Struct(Rc<str>),
    Param(Param),
    /// The type of an expression with an error. It fits everywhere, so that a mistake is reported only once.
    Error,
}

/// A type parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Param {
    /// A parameter of a declaration.
    Named(&'static str),
    /// A type variable, for which [`crate::inference`] finds a type.
    Variable(u32),
}

/// Kinds of types, without their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeKind {
    Dyn,
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    Meta,
    List,
    Map,
    Opaque,
    Struct,
    Param,
    Error,
}

/// Name of the type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub(crate) fn list(of: Type) -> Self {
        Self::List(Rc::new(of))
    }

    pub(crate) fn map(key: Type, value: Type) -> Self {
        Self::Map(Rc::new(key), Rc::new(value))
    }

    pub(crate) fn optional(of: Type) -> Self {
        Self::Opaque(OPTIONAL, Some(Rc::new(of)))
    }

    pub(crate) fn of_type(of: Type) -> Self {
        Self::Meta(Some(Rc::new(of)))
    }

    pub(crate) fn object(name: &str) -> Self {
        Self::Struct(name.into())
    }

    pub(crate) fn kind(&self) -> TypeKind {
        match self {
            Self::Dyn => TypeKind::Dyn,
            Self::Any => TypeKind::Any,
            Self::Null => TypeKind::Null,
            Self::Bool => TypeKind::Bool,
            Self::Int => TypeKind::Int,
            Self::Uint => TypeKind::Uint,
            Self::Double => TypeKind::Double,
            Self::String => TypeKind::String,
            Self::Bytes => TypeKind::Bytes,
            Self::Duration => TypeKind::Duration,
            Self::Timestamp => TypeKind::Timestamp,
            Self::Meta(_) => TypeKind::Meta,
            Self::List(_) => TypeKind::List,
            Self::Map(..) => TypeKind::Map,
            Self::Opaque(..) => TypeKind::Opaque,
            Self::Struct(_) => TypeKind::Struct,
            Self::Param(_) => TypeKind::Param,
            Self::Error => TypeKind::Error,
        }
    }

    /// Returns true if values of any type fit.
    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    /// Returns true if values of any type fit, or if an error has been reported.
    pub(crate) fn is_dynamic_or_error(&self) -> bool {
        self.is_dynamic() || *self == Self::Error
    }

    /// Returns the parameters of the type.
    pub(crate) fn params(&self) -> impl Iterator<Item = &Type> {
        let (first, second) = match self {
            Self::List(of) | Self::Meta(Some(of)) | Self::Opaque(_, Some(of)) => (Some(of), None),
            Self::Map(key, value) => (Some(key), Some(value)),
            _ => (None, None),
        };
        first.into_iter().chain(second).map(|param| &**param)
    }

    /// Returns the name that the type has during evaluation, without its parameters.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Any => "google.protobuf.Any".to_owned(),
            Self::Null => "null_type".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Meta(_) => "type".to_owned(),
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Opaque(name, _) => (*name).to_owned(),
            Self::Struct(name) => name.to_string(),
            Self::Param(Param::Named(name)) => (*name).to_owned(),
            Self::Param(Param::Variable(number)) => format!("_var{number}"),
            Self::Error => "error".to_owned(),
        }
    }

    /// Returns true if the types are equal except for the names of type parameters.
    pub(crate) fn is_equivalent(&self, other: &Type) -> bool {
        match (self, other) {
            (Self::Param(_), Self::Param(_)) => true,
            (Self::List(a), Self::List(b)) => a.is_equivalent(b),
            (Self::Map(a, x), Self::Map(b, y)) => a.is_equivalent(b) && x.is_equivalent(y),
            (Self::Meta(Some(a)), Self::Meta(Some(b))) => a.is_equivalent(b),
            (Self::Opaque(a, Some(x)), Self::Opaque(b, Some(y))) => a == b && x.is_equivalent(y),
            (a, b) => a == b,
        }
    }

    /// Prints the type as Kubernetes' errors do. For cel-go's errors, use [`fmt::Display`].
    pub(crate) fn declared(&self) -> String {
        let params: Vec<String> = self.params().map(Type::declared).collect();
        match self {
            Self::Param(_) => format!("<{}>", self.name()),
            _ if params.is_empty() => self.name(),
            _ => format!("{}({})", self.name(), params.join(", ")),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => return f.write_str("any"),
            Self::Duration => return f.write_str("duration"),
            Self::Timestamp => return f.write_str("timestamp"),
            Self::Null => return f.write_str("null"),
            Self::Error => return f.write_str("!error!"),
            _ => f.write_str(&self.name())?,
        }
        for (at, param) in self.params().enumerate() {
            write!(f, "{}{param}", if at == 0 { "(" } else { ", " })?;
        }
        if self.params().next().is_some() { f.write_str(")") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_cel_go_and_kubernetes_print_types_differently() {
        let of = Type::map(Type::String, Type::optional(Type::Any));
        assert_eq!(of.to_string(), "map(string, optional_type(any))");
        assert_eq!(of.declared(), "map(string, optional_type(google.protobuf.Any))");
        assert_eq!(Type::Null.to_string(), "null");
        assert_eq!(Type::Null.declared(), "null_type");
    }
}
