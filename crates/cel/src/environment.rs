//! The device, types and functions that expressions can refer to.

use harbormaster_api::Release;

use crate::{
    Features,
    functions::{self, Function, INCLUDES},
    types::{OPTIONAL, Param, Type},
};

/// Name of the variable that holds the device.
pub(crate) const DEVICE: &str = "device";
/// Name of the device's type.
pub(crate) const DEVICE_TYPE: &str = "kubernetes.DRADevice";

/// The features that expressions can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment {
    features: Features,
    /// True for an expression that is being created or changed. A stored expression can also use the fields and
    /// functions of features that are off.
    is_new: bool,
}

/// The declaration that an identifier refers to.
#[derive(Clone, Debug)]
pub(crate) enum Declared {
    /// A variable, with its type.
    Variable(Type),
    /// The name of a type.
    Type(Type),
    Constant(i64),
}

impl Environment {
    pub(crate) fn new(features: Features, is_new: bool) -> Self {
        Self { features, is_new }
    }

    /// Release of Kubernetes.
    pub(crate) fn release(&self) -> Release {
        self.features.release
    }

    fn is_since_1_37(&self) -> bool {
        self.release() >= Release::V1_37
    }

    /// Returns true if a selector can have a result of this type.
    pub(crate) fn accepts(&self, result: &Type) -> bool {
        *result == Type::Bool || *result == self.attribute()
    }

    /// Type of attributes.
    fn attribute(&self) -> Type {
        let is_stored = !self.is_new && self.is_since_1_37();
        if self.features.list_attributes || is_stored { Type::Dyn } else { Type::Any }
    }

    /// Finds the declaration of a name without a leading dot. Variables of macros are not among the declarations.
    pub(crate) fn find(&self, name: &str) -> Option<Declared> {
        Some(match name {
            DEVICE => Declared::Variable(Type::object(DEVICE_TYPE)),
            "google.protobuf.NullValue.NULL_VALUE" => Declared::Constant(0),
            name => Declared::Type(self.find_type(name)?),
        })
    }

    /// Finds the type with a name.
    pub(crate) fn find_type(&self, name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "duration" | "google.protobuf.Duration" => Type::Duration,
            "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
            "int" => Type::Int,
            "list" => Type::list(parameter("A")),
            "map" => Type::map(parameter("A"), parameter("B")),
            "null_type" => Type::Null,
            "string" => Type::String,
            "type" => Type::Meta(None),
            "uint" => Type::Uint,
            OPTIONAL if self.is_since_1_37() => Type::optional(Type::Dyn),
            OPTIONAL => Type::Opaque(OPTIONAL, None),
            "net.IP" => Type::Opaque("net.IP", None),
            "net.CIDR" => Type::Opaque("net.CIDR", None),
            DEVICE_TYPE => Type::object(DEVICE_TYPE),
            "kubernetes.DRADevice.attributes" => self.field("attributes")?,
            "kubernetes.DRADevice.capacity" => self.field("capacity")?,
            _ => return None,
        })
    }

    /// Returns true if variables of macros hide qualified names that begin with their names, as of Kubernetes 1.37. A
    /// leading dot then skips the variables of macros.
    pub(crate) fn has_local_names(&self) -> bool {
        self.is_since_1_37()
    }

    /// Returns true if the name is that of a type that also exists during evaluation.
    pub(crate) fn is_value(name: &str) -> bool {
        matches!(
            name,
            "bool"
                | "bytes"
                | "double"
                | "google.protobuf.Duration"
                | "google.protobuf.Timestamp"
                | "int"
                | "list"
                | "map"
                | "null_type"
                | "string"
                | "type"
                | "uint"
                | "optional_type"
                | "net.IP"
                | "net.CIDR"
        )
    }

    /// Returns the type of a field of the device.
    pub(crate) fn field(&self, name: &str) -> Option<Type> {
        let sections = |of| Type::map(Type::String, Type::map(Type::String, of));
        Some(match name {
            "driver" => Type::String,
            "attributes" => sections(self.attribute()),
            "capacity" => sections(Type::object("kubernetes.Quantity")),
            "allowMultipleAllocations" if self.features.consumable_capacity || !self.is_new => Type::Bool,
            _ => return None,
        })
    }

    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        match name.strip_prefix('.').unwrap_or(name) {
            INCLUDES if self.is_new && !self.features.list_attributes => None,
            "duration" if self.is_since_1_37() => Some(&functions::DURATION_AS_OF_1_37),
            name => functions::find(name),
        }
    }
}

fn parameter(name: &'static str) -> Type {
    Type::Param(Param::Named(name))
}
