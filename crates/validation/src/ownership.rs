//! Division of an object among its writers: values with a single owner, and the identity of list elements.

use serde_json::Value;

use crate::{
    custom::Schema,
    kinds::Kind,
    schema::{self, Field, Identity, Shape, Type},
};

/// Position in an object, with the type or schema of the value there.
#[derive(Clone, Copy, Debug)]
pub enum TypedPosition<'a> {
    /// An object whose type is in the table.
    Type(&'static Type),
    /// A field with all its values: a single value, a list or a map.
    Field(&'static Field),
    /// An element of a field.
    Element(&'static Field),
    /// A value with a schema.
    Schema(&'a Schema),
    /// A whole custom resource. Its metadata has a type; all other fields have a schema.
    Resource(&'a Schema),
    /// A value without a type or schema.
    Untyped,
    /// A value that is owned as a whole.
    Leaf,
}

/// Parts of a value.
#[derive(Debug)]
pub enum Parts<'a> {
    /// No parts: the value is owned as a whole.
    None,
    /// Fields, each with its own owner.
    Fields,
    /// Elements with the given identity.
    Elements(Identity<'a>),
}

/// Type of a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// A string.
    Text,
    /// A number.
    Number,
    /// True or false.
    Truth,
}

/// Field of a value at a position.
#[derive(Clone, Copy, Debug)]
pub struct InnerField<'a> {
    /// Position of the field.
    pub place: TypedPosition<'a>,
    /// True if the type declares the field; false for a key of a map.
    pub named: bool,
}

impl<'a> TypedPosition<'a> {
    /// Returns the position of a whole object.
    pub fn of(kind: &'a Kind) -> Self {
        match (&kind.custom, schema::type_of(kind).and_then(|name| schema::find(&name))) {
            (Some(custom), _) => TypedPosition::Resource(&custom.schema),
            (None, Some(of)) => TypedPosition::Type(of),
            (None, None) => TypedPosition::Untyped,
        }
    }

    /// Returns the parts of the value at this position.
    pub fn parts(self, value: &Value) -> Parts<'a> {
        match self {
            TypedPosition::Leaf => Parts::None,
            TypedPosition::Untyped if value.is_object() => Parts::Fields,
            TypedPosition::Untyped => Parts::None,
            TypedPosition::Resource(_) => Parts::Fields,
            TypedPosition::Type(of) if of.whole => Parts::None,
            TypedPosition::Type(_) => Parts::Fields,
            TypedPosition::Field(field) if field.whole => Parts::None,
            TypedPosition::Field(field) => match field.shape {
                Shape::List => elements(&field.identity),
                Shape::Map => Parts::Fields,
                Shape::Single | Shape::NonZero | Shape::Inline => of_type(field.of).parts(value),
            },
            TypedPosition::Element(field) => of_type(field.of).parts(value),
            TypedPosition::Schema(schema) => schema.parts(value),
        }
    }

    /// Returns the field with the given name, or `None` if the type allows no such field.
    pub fn field(self, name: &str) -> Option<InnerField<'a>> {
        match self {
            TypedPosition::Leaf => None,
            TypedPosition::Untyped => Some(InnerField { place: TypedPosition::Untyped, named: false }),
            TypedPosition::Type(_) | TypedPosition::Resource(_) if matches!(name, "kind" | "apiVersion") => {
                Some(InnerField { place: TypedPosition::Leaf, named: true })
            }
            TypedPosition::Type(of) => {
                of.field(name).map(|field| InnerField { place: TypedPosition::Field(field), named: true })
            }
            TypedPosition::Field(field) => match field.shape {
                Shape::Map => Some(InnerField { place: TypedPosition::Element(field), named: false }),
                Shape::List => None,
                Shape::Single | Shape::NonZero | Shape::Inline => of_type(field.of).field(name),
            },
            TypedPosition::Element(field) => of_type(field.of).field(name),
            TypedPosition::Resource(_) if name == "metadata" => {
                Some(InnerField { place: of_type("meta.ObjectMeta"), named: true })
            }
            TypedPosition::Schema(schema) | TypedPosition::Resource(schema) => schema.inner(name),
        }
    }

    /// Returns the type of the plain values at this position; `None` if there is not exactly one such type.
    pub fn plain(self) -> Option<Plain> {
        let of = match self {
            TypedPosition::Field(field) if matches!(field.shape, Shape::Single | Shape::NonZero) => field.of,
            TypedPosition::Element(field) => field.of,
            TypedPosition::Schema(schema) => return schema.plain(),
            _ => return None,
        };
        match of {
            "s" | "b" | "Time" => Some(Plain::Text),
            "i" | "l" | "d" => Some(Plain::Number),
            "t" => Some(Plain::Truth),
            _ => None,
        }
    }

    /// Returns the position of the elements of a list.
    pub fn element(self) -> Self {
        match self {
            TypedPosition::Field(field) => TypedPosition::Element(field),
            TypedPosition::Schema(schema) => schema.element(),
            _ => TypedPosition::Untyped,
        }
    }
}

/// Returns the position of values of a type that is neither a list nor a map.
fn of_type<'a>(name: &str) -> TypedPosition<'a> {
    match (name, schema::find(name)) {
        (_, Some(of)) => TypedPosition::Type(of),
        ("RawExtension" | "FieldsV1" | "SchemaOrMore", None) => TypedPosition::Untyped,
        (_, None) => TypedPosition::Leaf,
    }
}

fn elements(identity: &Identity<'static>) -> Parts<'static> {
    match identity {
        Identity::Whole => Parts::None,
        identity => Parts::Elements(identity.clone()),
    }
}
