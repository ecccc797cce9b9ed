//! A field before and after a change.

use serde_json::Value;

use super::{
    super::{Errors, checks},
    IMMUTABLE,
};
use crate::FieldError;

/// A field of a new or changed object. Fields that a change leaves as they are need no check.
#[derive(Debug)]
pub(in crate::admission) struct Field<'a> {
    /// Path of the field.
    pub(in crate::admission) place: String,
    /// The value; null if the field is not set.
    pub(in crate::admission) new: &'a Value,
    /// The value before the change; `None` if the object or the list element that contains the field is new.
    pub(in crate::admission) old: Option<&'a Value>,
}

impl<'a> Field<'a> {
    pub(in crate::admission) fn new(
        place: impl Into<String>,
        new: &'a Value,
        old: Option<&'a Value>,
    ) -> Self {
        Self { place: place.into(), new, old }
    }

    /// Returns a field of this field's value.
    pub(in crate::admission) fn field(&self, name: &str) -> Self {
        Self::new(format!("{}.{name}", self.place), &self.new[name], self.old.map(|old| &old[name]))
    }

    pub(in crate::admission) fn is_set(&self) -> bool {
        !self.new.is_null()
    }

    /// Returns true if the value is new.
    pub(in crate::admission) fn may_be_wrong(&self) -> bool {
        self.old != Some(self.new)
    }

    /// Returns a field that only new objects may set, if its value needs further checks.
    pub(in crate::admission) fn fixed(&self, name: &str, errors: &mut Errors) -> Option<Self> {
        let field = self.field(name);
        if field.may_be_wrong() && field.old.is_some() {
            errors.push(FieldError::invalid(field.place, Value::Null, IMMUTABLE));
            return None;
        }
        (field.may_be_wrong() && field.is_set()).then_some(field)
    }

    /// Checks that exactly one of two fields is set.
    pub(in crate::admission) fn check_one_of(&self, names: [&str; 2], errors: &mut Errors) {
        let are_set = |value: &Value| names.map(|name| is_given(&value[name]));
        if self.old.map(are_set) == Some(are_set(self.new)) {
            return;
        }
        if let [true, true] | [false, false] = are_set(self.new) {
            let error = FieldError::not_one_of(&self.place, &names, |name| is_given(&self.new[name]));
            errors.push(error);
        }
    }

    /// Checks a string that must not be empty.
    pub(in crate::admission) fn check_required(
        &self,
        name: &str,
        form: fn(&str) -> Vec<String>,
        errors: &mut Errors,
    ) {
        let field = self.field(name);
        if !field.may_be_wrong() {
            return;
        }
        if field.new.as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(field.place, ""));
        } else {
            field.check_form(form, errors);
        }
    }

    /// Checks the form of a string.
    pub(in crate::admission) fn check_form(&self, form: fn(&str) -> Vec<String>, errors: &mut Errors) {
        if let Some(text) = self.new.as_str() {
            checks::check_form(text, &self.place, form, errors);
        }
    }
}

/// Returns true for a field that is set and not an empty list.
fn is_given(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
}
