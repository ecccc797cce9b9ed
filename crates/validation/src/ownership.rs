//! The division of an object among its writers: values that count as one, and the identity of the elements of a list.

use serde_json::Value;

use crate::{
    custom::Schema,
    kinds::Kind,
    schema::{self, Field, Identity, Shape, Type},
};

/// Position in an object, with its type or schema.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// An object of a type of the table.
    Type(&'static Type),
    /// All of a field.
    Field(&'static Field),
    /// An element of a field.
    Element(&'static Field),
    /// A value with a schema.
    Schema(&'a Schema),
    /// A custom resource as a whole, whose metadata have a type.
    Resource(&'a Schema),
    /// A value without a type or schema.
    Unsaid,
    /// A value that is owned as a whole.
    Leaf,
}

/// Parts of a value.
#[derive(Debug)]
pub enum Parts<'a> {
    /// It is owned as a whole.
    None,
    /// Fields, each with its own owner.
    Fields,
    /// Elements with this identity.
    Elements(Identity<'a>),
}

/// The type of a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Truth,
}

/// A field of a place.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// Its position.
    pub place: Place<'a>,
    /// True if the type names the field; false for keys of a map.
    pub named: bool,
}

impl<'a> Place<'a> {
    /// A whole object.
    pub fn of(kind: &'a Kind) -> Self {
        match (&kind.custom, schema::type_of(kind).and_then(|name| schema::find(&name))) {
            (Some(custom), _) => Place::Resource(&custom.schema),
            (None, Some(of)) => Place::Type(of),
            (None, None) => Place::Unsaid,
        }
    }

    /// Parts of the value at this place.
    pub fn parts(self, value: &Value) -> Parts<'a> {
        match self {
            Place::Leaf => Parts::None,
            Place::Unsaid if value.is_object() => Parts::Fields,
            Place::Unsaid => Parts::None,
            Place::Resource(_) => Parts::Fields,
            Place::Type(of) if of.whole => Parts::None,
            Place::Type(_) => Parts::Fields,
            Place::Field(field) if field.whole => Parts::None,
            Place::Field(field) => match field.shape {
                Shape::List => elements(&field.identity),
                Shape::Map => Parts::Fields,
                Shape::Single | Shape::Shy | Shape::Inline => of_type(field.of).parts(value),
            },
            Place::Element(field) => of_type(field.of).parts(value),
            Place::Schema(schema) => schema.parts(value),
        }
    }

    /// Returns the field with a name; `None` if there can be none.
    pub fn field(self, name: &str) -> Option<Inner<'a>> {
        match self {
            Place::Leaf => None,
            Place::Unsaid => Some(Inner { place: Place::Unsaid, named: false }),
            Place::Type(_) | Place::Resource(_) if matches!(name, "kind" | "apiVersion") => {
                Some(Inner { place: Place::Leaf, named: true })
            }
            Place::Type(of) => of.field(name).map(|field| Inner { place: Place::Field(field), named: true }),
            Place::Field(field) => match field.shape {
                Shape::Map => Some(Inner { place: Place::Element(field), named: false }),
                Shape::List => None,
                Shape::Single | Shape::Shy | Shape::Inline => of_type(field.of).field(name),
            },
            Place::Element(field) => of_type(field.of).field(name),
            Place::Resource(_) if name == "metadata" => {
                Some(Inner { place: of_type("meta.ObjectMeta"), named: true })
            }
            Place::Schema(schema) | Place::Resource(schema) => schema.inner(name),
        }
    }

    /// Returns the type of plain values at this position; `None` if there are several types, or none.
    pub fn plain(self) -> Option<Plain> {
        let of = match self {
            Place::Field(field) if matches!(field.shape, Shape::Single | Shape::Shy) => field.of,
            Place::Element(field) => field.of,
            Place::Schema(schema) => return schema.plain(),
            _ => return None,
        };
        match of {
            "s" | "b" | "Time" => Some(Plain::Text),
            "i" | "l" | "d" => Some(Plain::Number),
            "t" => Some(Plain::Truth),
            _ => None,
        }
    }

    /// The elements of a list.
    pub fn element(self) -> Self {
        match self {
            Place::Field(field) => Place::Element(field),
            Place::Schema(schema) => schema.element(),
            _ => Place::Unsaid,
        }
    }
}

/// The values of a type that is not a list or a map.
fn of_type<'a>(name: &str) -> Place<'a> {
    match (name, schema::find(name)) {
        (_, Some(of)) => Place::Type(of),
        ("RawExtension" | "FieldsV1" | "SchemaOrMore", None) => Place::Unsaid,
        (_, None) => Place::Leaf,
    }
}

fn elements(identity: &Identity<'static>) -> Parts<'static> {
    match identity {
        Identity::Whole => Parts::None,
        identity => Parts::Elements(identity.clone()),
    }
}
