//! Functions of named formats.

use super::text;
use crate::{fuel::Fuel, named_format, value::Value};

pub(crate) fn validate<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let Value::Format(format) = &args[0] else { return Value::no_overload() };
    let errors = (format.errors)(text(args, 1));
    if errors.is_empty() { Value::Optional(None) } else { Value::optional(Value::strings(errors)) }
}

pub(crate) fn named<'a>(args: &[Value<'a>], _: &Fuel) -> Value<'a> {
    let found = named_format::find(text(args, 0));
    found.map_or(Value::Optional(None), |format| Value::optional(Value::Format(format)))
}

/// Defines the functions that return a format.
macro_rules! formats {
    ($($name:ident $id:literal),*) => {
        $(pub(crate) fn $name<'a>(_: &[Value<'a>], _: &Fuel) -> Value<'a> {
            named_format::find($id).map_or(Value::no_overload(), Value::Format)
        })*
    };
}

formats! {
    dns1123_label "dns1123Label",
    dns1123_subdomain "dns1123Subdomain",
    dns1035_label "dns1035Label",
    qualified_name "qualifiedName",
    dns1123_label_prefix "dns1123LabelPrefix",
    dns1123_subdomain_prefix "dns1123SubdomainPrefix",
    dns1035_label_prefix "dns1035LabelPrefix",
    label_value "labelValue",
    uri "uri",
    uuid "uuid",
    byte "byte",
    date "date",
    datetime "datetime"
}
