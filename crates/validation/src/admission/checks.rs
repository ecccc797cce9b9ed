//! Checks of fields, with one table for each type.

use std::{collections::BTreeSet, fmt::Display, ops::RangeInclusive};

use harbormaster_api::labels::{label_value_errors, qualified_name_errors, subdomain_errors};
use serde_json::Value;

use super::{Errors, meta::label_errors};
use crate::FieldError;

/// A check of a field. Only [`Required`](Check::Required) and [`Choice`](Check::Choice) apply to
/// a missing field, declared or not.
pub(super) enum Check {
    /// The field must not be empty. Contains the message.
    Required(&'static str),
    /// The field must be one of the given strings.
    Choice(&'static [&'static str]),
    /// The field must be one of the given strings if it is set.
    OneOf(&'static [&'static str]),
    /// A string must have the given form.
    Form(Form),
    /// A number must be in the range. Contains the message for numbers outside it.
    Number(RangeInclusive<i64>, &'static str),
    /// Checks of the value's fields.
    Fields(Checks),
    /// Checks of the fields of every element.
    Each(Checks),
    /// No two elements may have the same string in the named field.
    Unique(&'static str),
    /// A check of a rule that is declared from 1.37 on.
    Declared(&'static Check),
    /// A check that no table can express.
    By(fn(&Value, &str, &mut Errors)),
}

/// A function that returns the errors in a string.
type Form = fn(&str) -> Vec<String>;

/// Fields and their checks, in the order in which errors are reported. An empty field name stands for the value itself.
pub(super) type Checks = &'static [(&'static str, Check)];

pub(super) const QUALIFIED_NAME: Check = Check::Form(qualified_name_errors);
pub(super) const LABEL_VALUE: Check = Check::Form(label_value_errors);
pub(super) const SUBDOMAIN: Check = Check::Form(subdomain_errors);
pub(super) const LABEL: Check = Check::Form(label_errors);
pub(super) const AT_LEAST_ZERO: Check = Check::Number(0..=i64::MAX, "must be greater than or equal to 0");
pub(super) const POSITIVE: Check = Check::Number(1..=i64::MAX, "must be greater than zero");
pub(super) const PORT_NUMBER: Check = Check::Number(1..=65535, "must be between 1 and 65535, inclusive");

/// Checks the fields of the value at the path `place`.
pub(super) fn check(value: &Value, place: &str, checks: Checks, errors: &mut Errors) {
    for (name, check) in checks {
        let value = if name.is_empty() { value } else { value.get(name).unwrap_or(&Value::Null) };
        if value.is_null() && !check.applies_to_missing() || check.passes(value) {
            continue;
        }
        let dot = if place.is_empty() || name.is_empty() { "" } else { "." };
        check.ask(value, &format!("{place}{dot}{name}"), errors);
    }
}

impl Check {
    fn applies_to_missing(&self) -> bool {
        match self {
            Self::Declared(check) => check.applies_to_missing(),
            check => matches!(check, Self::Required(_) | Self::Choice(_)),
        }
    }

    /// Returns true if the value certainly passes a check that does not look inside it. Most values do, and then nobody
    /// needs to know their path.
    fn passes(&self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Self::Required(_) => !is_empty(value),
            Self::Choice(known) => !is_empty(value) && text.is_none_or(|text| known.contains(&text)),
            Self::OneOf(known) => text.is_none_or(|text| known.contains(&text)),
            Self::Form(form) => text.is_none_or(|text| form(text).is_empty()),
            Self::Number(range, _) => value.as_i64().is_none_or(|number| range.contains(&number)),
            Self::Declared(check) => check.passes(value),
            Self::Each(_) | Self::Unique(_) => value.as_array().is_none_or(Vec::is_empty),
            Self::Fields(_) | Self::By(_) => false,
        }
    }

    /// Applies the check to a value.
    pub(super) fn ask(&self, value: &Value, place: &str, errors: &mut Errors) {
        let text = value.as_str();
        match self {
            Self::Required(why) if is_empty(value) => errors.push(FieldError::required(place, why)),
            Self::Choice(_) if is_empty(value) => errors.push(FieldError::required(place, "")),
            Self::Choice(known) | Self::OneOf(known) => {
                let unknown = text.filter(|text| !known.contains(text));
                errors.extend(unknown.map(|text| FieldError::unsupported(place, text, known)));
            }
            Self::Form(form) => {
                if let Some(text) = text {
                    check_form(text, place, *form, errors);
                }
            }
            Self::Number(range, why) => {
                let wrong = value.as_i64().filter(|number| !range.contains(number));
                errors.extend(wrong.map(|number| FieldError::invalid(place, number, why)));
            }
            Self::Fields(checks) => check(value, place, checks, errors),
            Self::Declared(check) => errors.declared(|errors| check.ask(value, place, errors)),
            Self::By(function) => function(value, place, errors),
            Self::Each(checks) => {
                for (place, element) in elements(value, place) {
                    check(element, &place, checks, errors);
                }
            }
            Self::Unique(name) => {
                let named = elements(value, place).filter_map(|(place, element)| {
                    Some((format!("{place}.{name}"), element.get(name)?.as_str()?.to_owned()))
                });
                unique(named, errors);
            }
            Self::Required(_) => {}
        }
    }
}

/// Refuses a string that does not have the given form.
pub(super) fn check_form(text: &str, place: &str, form: Form, errors: &mut Errors) {
    errors.extend(form(text).into_iter().map(|why| FieldError::invalid(place, text, why)));
}

/// Returns the elements of a list with their paths.
pub(super) fn elements(list: &Value, place: impl Display) -> impl Iterator<Item = (String, &Value)> {
    let elements = list.as_array().into_iter().flatten().enumerate();
    elements.map(move |(i, element)| (format!("{place}[{i}]"), element))
}

/// Refuses every string that also occurs at an earlier path.
pub(super) fn unique(texts: impl IntoIterator<Item = (String, String)>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (place, text) in texts {
        if !seen.insert(text.clone()) {
            errors.push(FieldError::duplicate(place, text));
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
