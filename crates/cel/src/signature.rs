//! Types in the signatures of functions.

use crate::{
    types::{OPTIONAL, Param, Type},
    value::Value,
};

/// A type in the signature of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sig {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// A type parameter.
    Param(&'static str),
    List(&'static Sig),
    Map(&'static Sig, &'static Sig),
    Optional(&'static Sig),
    Meta(&'static Sig),
    Opaque(&'static str),
    Struct(&'static str),
}

pub(crate) const QUANTITY: Sig = Sig::Struct("kubernetes.Quantity");
pub(crate) const SEMVER: Sig = Sig::Struct("kubernetes.Semver");
pub(crate) const URL: Sig = Sig::Struct("kubernetes.URL");
pub(crate) const FORMAT: Sig = Sig::Struct("kubernetes.NamedFormat");
pub(crate) const IP: Sig = Sig::Opaque("net.IP");
pub(crate) const CIDR: Sig = Sig::Opaque("net.CIDR");

impl Sig {
    /// Adds the names of the type parameters that `into` does not contain.
    pub(crate) fn params(&self, into: &mut Vec<&'static str>) {
        match self {
            Self::Param(name) if !into.contains(name) => into.push(name),
            Self::List(of) | Self::Optional(of) | Self::Meta(of) => of.params(into),
            Self::Map(key, value) => {
                key.params(into);
                value.params(into);
            }
            _ => {}
        }
    }

    /// Returns the type, with type parameters replaced by the types in `params`.
    pub(crate) fn instantiate(&self, params: &[(&'static str, Type)]) -> Type {
        let of = |sig: &Sig| sig.instantiate(params);
        match self {
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::Param(name) => match params.iter().find(|(known, _)| known == name) {
                Some((_, found)) => found.clone(),
                None => Type::Param(Param::Named(name)),
            },
            Self::List(element) => Type::list(of(element)),
            Self::Map(key, value) => Type::map(of(key), of(value)),
            Self::Optional(inner) => Type::optional(of(inner)),
            Self::Meta(inner) => Type::of_type(of(inner)),
            Self::Opaque(name) => Type::Opaque(name, None),
            Self::Struct(name) => Type::object(name),
        }
    }

    /// Returns true if an argument fits during evaluation. Examines only the first element of a list or map.
    pub(crate) fn fits(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Self::Dyn | Self::Param(_), _) => true,
            (Self::List(of), Value::List(list)) => list.get(0).is_none_or(|first| of.fits(&first)),
            (Self::Map(key, of), Value::Map(map)) => {
                map.size() == 0
                    || map.first().is_none_or(|(first, value)| key.fits(&first) && of.fits(&value))
            }
            (sig, value) => sig.name() == value.type_name(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Dyn | Self::Param(_) => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Optional(_) => OPTIONAL,
            Self::Meta(_) => "type",
            Self::Opaque(name) | Self::Struct(name) => name,
        }
    }
}
