//! Errors about fields, in the API server's wording.

use std::fmt;

use serde_json::Value;

/// An error about a field (`field.Error`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field: `spec.containers[0].image`.
    pub field: String,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Message for users, without the field.
    pub problem: String,
}

impl FieldError {
    fn new(field: impl Into<String>, reason: &'static str, what: &str, why: &str) -> Self {
        let colon = if why.is_empty() { "" } else { ": " };
        Self { field: field.into(), reason, problem: format!("{what}{colon}{why}") }
    }

    /// The field is missing.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueRequired", "Required value", why)
    }

    /// The field is invalid. Shows `value` as JSON: strings in quotes, numbers bare.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, why: impl AsRef<str>) -> Self {
        let what = format!("Invalid value: {}", value.into());
        Self::new(field, "FieldValueInvalid", &what, why.as_ref())
    }

    /// The field does not have the type that its schema specifies.
    pub fn type_invalid(field: impl Into<String>, value: impl Into<Value>, why: impl AsRef<str>) -> Self {
        let what = format!("Invalid value: {}", value.into());
        Self::new(field, "FieldValueTypeInvalid", &what, why.as_ref())
    }

    /// The field has too many elements.
    pub fn too_many(field: impl Into<String>, count: i64, most: i64) -> Self {
        let items = if most == 1 { "item" } else { "items" };
        let why = format!("must have at most {most} {items}");
        Self::new(field, "FieldValueTooMany", &format!("Too many: {count}"), &why)
    }

    /// Another field has the same value.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::duplicate_shown(field, &value.into().to_string())
    }

    /// Another element of the list has the same key. Shows the element as given.
    pub fn duplicate_shown(field: impl Into<String>, element: &str) -> Self {
        Self::new(field, "FieldValueDuplicate", "Duplicate value", element)
    }

    /// The field refers to an object that does not exist.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, "FieldValueNotFound", "Not found", &value.into().to_string())
    }

    /// The field may not be set, or may not be changed.
    pub fn forbidden(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        Self::new(field, "FieldValueForbidden", "Forbidden", why.as_ref())
    }

    /// The value of the field is not one of the supported values.
    pub fn unsupported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let what = format!("Unsupported value: {}", value.into());
        let supported: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let why = format!("supported values: {}", supported.join(", "));
        Self::new(field, "FieldValueNotSupported", &what, &why)
    }

    /// Not exactly one of the fields in a union is set.
    pub(crate) fn not_one_of(
        field: impl Into<String>,
        names: &[&str],
        is_set: impl Fn(&str) -> bool,
    ) -> Self {
        let given: Vec<&str> = names.iter().copied().filter(|name| is_set(name)).collect();
        let (value, how) = match given[..] {
            [] => (String::new(), "one"),
            _ => (format!("{{{}}}", given.join(", ")), "exactly one"),
        };
        let all: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        Self::invalid(field, value, format!("must specify {how} of: {}", all.join(", ")))
    }

    /// The field has too many characters.
    pub(crate) fn too_many_characters(field: impl Into<String>, most: usize) -> Self {
        let why = format!("may not be more than {most} characters");
        Self::new(field, "FieldValueTooLong", "Too long", &why)
    }

    /// The field has too many bytes.
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        let why = format!("may not be more than {most} bytes");
        Self::new(field, "FieldValueTooLong", "Too long", &why)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}
