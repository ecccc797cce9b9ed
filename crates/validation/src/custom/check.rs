//! Validation of values against their schema, with the API server's messages.
//!
//! Only the changed parts of an object are validated, except that the `apiVersion` and `kind` of embedded objects are
//! always validated. Therefore, if a definition becomes stricter, an object stored earlier can still be changed as long
//! as its invalid parts stay the same.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{
    format,
    schema::{Additional, Bound, ListType, Schema},
};
use crate::{FieldError, admission::label_1035_errors, value::text};

/// Errors of a check, and the number of checks that passed. If a value matches none of several alternative schemas,
/// only the errors of the schema with the most passed checks are reported.
#[derive(Default)]
struct CheckResult {
    errors: Vec<FieldError>,
    passed: usize,
}

impl CheckResult {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.passed += other.passed;
    }

    fn is_good(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Location of a value: its path in messages, and the prefix that precedes this path in the field of an error.
#[derive(Clone, Copy)]
struct ValuePath<'a> {
    prefix: &'a str,
    path: &'a str,
}

impl ValuePath<'_> {
    /// Returns the field of an error about the value, or about the part of the value at `more`.
    fn field(&self, more: &str) -> String {
        let path = format!("{}{more}", self.path);
        match (self.prefix, path.trim_start_matches('.')) {
            ("", "") => "<nil>".to_owned(),
            (prefix, "") => prefix.to_owned(),
            ("", path) => path.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }

    fn invalid(&self, value: impl Into<Value>, why: impl AsRef<str>) -> FieldError {
        FieldError::invalid(self.field(""), value, format!("{} in body {}", self.path, why.as_ref()))
    }

    /// Returns an error about a combination of schemas. The path is in the message, not in the error's field.
    fn composite(&self, why: &str) -> FieldError {
        let field = if self.prefix.is_empty() { "<nil>" } else { self.prefix };
        FieldError::invalid(field, "", format!("{:?} {why}", self.path))
    }
}

impl Schema {
    /// Returns the errors in a value. `prefix` is the value's field, empty for a whole object; `old` is the previous
    /// value.
    pub(crate) fn check(&self, prefix: &str, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.looked_at(ValuePath { prefix, path: "" }, value, old).errors;
        self.check_embedded(prefix, value, &mut errors);
        let before = old.map(|old| self.doubles(prefix, old)).unwrap_or_default();
        if before.is_empty() {
            errors.extend(self.doubles(prefix, value));
        }
        errors
    }

    /// Returns the schema of the status. A change of the status alone is checked against it.
    pub(crate) fn status(&self) -> Option<&Self> {
        self.properties.get("status")
    }

    fn looked_at(&self, place: ValuePath<'_>, value: &Value, old: Option<&Value>) -> CheckResult {
        let mut found = CheckResult::default();
        if old == Some(value) {
            return found;
        }
        if value.is_null() {
            if !self.types.is_empty() && !self.nullable {
                found.errors.push(self.wrong_type(place, "null"));
            }
            self.check_choice(place, value, &mut found);
            return found;
        }
        self.check_type(place, value, &mut found);
        self.check_several(place, value, old, &mut found);
        match value {
            Value::String(text) => self.check_text(place, text, &mut found),
            Value::Number(_) => self.check_number(place, value, &mut found),
            Value::Array(list) => self.check_list(place, list, old, &mut found),
            _ => {}
        }
        self.check_choice(place, value, &mut found);
        if let Value::Object(map) = value {
            self.check_map(place, map, old, &mut found);
        }
        found.passed += 1;
        found
    }

    fn wrong_type(&self, place: ValuePath<'_>, is: &str) -> FieldError {
        let why = format!("{} in body must be of type {}: {is:?}", place.path, self.types.join(","));
        FieldError::type_invalid(place.field(""), is, why)
    }

    fn check_type(&self, place: ValuePath<'_>, value: &Value, found: &mut CheckResult) {
        let may = |name: &str| self.types.iter().any(|of| of == name);
        let is = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        let fits =
            may(is) || (is == "number" && whole && may("integer")) || (is == "integer" && may("number"));
        let numeric = may("number") || may("integer");
        let is_formed = !numeric && !self.format.is_empty() && matches!(is, "string" | "array");
        if self.types.is_empty() || fits || is_formed {
            found.passed += 1;
        } else if !self.format.is_empty() && !matches!(is, "string" | "array") {
            let of = match is {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            let why = format!("{} in body must be of type {}: {of:?}", place.path, self.format);
            found.errors.push(FieldError::type_invalid(place.field(""), of, why));
        } else {
            found.errors.push(self.wrong_type(place, is));
        }
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    fn check_several(
        &self,
        place: ValuePath<'_>,
        value: &Value,
        old: Option<&Value>,
        found: &mut CheckResult,
    ) {
        let tried = |schemas: &[Self]| -> (usize, Option<CheckResult>) {
            let (mut good, mut best): (usize, Option<CheckResult>) = (0, None);
            for one in schemas.iter().map(|schema| schema.looked_at(place, value, old)) {
                if one.is_good() {
                    good += 1;
                } else if best.as_ref().is_none_or(|best| one.passed > best.passed) {
                    best = Some(one);
                }
            }
            (good, best.filter(|_| good == 0))
        };
        if !self.any_of.is_empty() {
            let (good, best) = tried(&self.any_of);
            if good == 0 {
                found.errors.push(place.composite("must validate at least one schema (anyOf)"));
            }
            found.merge(best.unwrap_or_default());
        }
        if !self.one_of.is_empty() {
            let (good, best) = tried(&self.one_of);
            let why = match good {
                1 => String::new(),
                0 => "Found none valid".to_owned(),
                many => format!("Found {many} valid alternatives"),
            };
            if good != 1 {
                let why = format!("must validate one and only one schema (oneOf). {why}");
                found.errors.push(place.composite(&why));
            }
            found.merge(best.unwrap_or_default());
        }
        if !self.all_of.is_empty() {
            let mut good = 0;
            for one in self.all_of.iter().map(|schema| schema.looked_at(place, value, old)) {
                good += usize::from(one.is_good());
                found.merge(one);
            }
            if good != self.all_of.len() {
                let none = if good == 0 { ". None validated" } else { "" };
                found.errors.push(place.composite(&format!("must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(not) = &self.not
            && not.looked_at(place, value, old).is_good()
        {
            found.errors.push(place.composite("must not validate the schema (not)"));
        }
        found.passed += 1;
    }

    fn check_text(&self, place: ValuePath<'_>, text: &str, found: &mut CheckResult) {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = self.length.most.filter(|most| length > *most) {
            found.errors.push(FieldError::too_long(place.field(""), usize::try_from(most).unwrap_or(0)));
        } else if let Some(least) = self.length.least.filter(|least| length < *least) {
            found.errors.push(place.invalid(text, format!("should be at least {least} chars long")));
        } else if let Some((pattern, regex)) = &self.pattern
            && regex.as_ref().is_some_and(|regex| !regex.is_match(text))
        {
            found.errors.push(place.invalid(text, format!("should match '{pattern}'")));
        } else {
            found.passed += 1;
        }
        if !self.format.is_empty() && !format::fits(&self.format, text) {
            let why = format!("{} in body must be of type {}: {text:?}", place.path, self.format);
            found.errors.push(FieldError::type_invalid(place.field(""), text, why));
        }
    }

    fn check_number(&self, place: ValuePath<'_>, value: &Value, found: &mut CheckResult) {
        let number = value.as_f64().unwrap_or_default();
        let [kind] = self.types.as_slice() else { return self.check_bounds(place, value, number, found) };
        let out_of_range = match (kind.as_str(), self.format.as_str()) {
            ("integer", "int32") => number.fract() != 0.0 || number.abs() > f64::from(i32::MAX),
            ("integer", _) => number.fract() != 0.0 || number.abs() >= 9.223_372_036_854_776e18,
            ("number", "float") => number.abs() > f64::from(f32::MAX),
            _ => false,
        };
        if out_of_range {
            let form = match self.format.as_str() {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let why = format!("Checked value must be of type {kind} {form} in {}", place.path);
            let field = if place.prefix.is_empty() { "<nil>" } else { place.prefix };
            found.errors.push(FieldError::invalid(field, "", why));
        }
        self.check_bounds(place, value, number, found);
    }

    fn check_bounds(&self, place: ValuePath<'_>, value: &Value, number: f64, found: &mut CheckResult) {
        if let Some(factor) = self.multiple_of.filter(|factor| *factor > 0.0) {
            let times = number / factor;
            if (times - times.round()).abs() > f64::EPSILON * times.abs().max(1.0) {
                found.errors.push(place.invalid(value.clone(), format!("should be a multiple of {factor}")));
            }
        }
        let mut bound = |bound: Option<Bound>, broken: fn(f64, Bound) -> bool, word: &str| {
            if let Some(bound) = bound.filter(|bound| broken(number, *bound)) {
                let or_equal = if bound.exclusive { "" } else { " or equal to" };
                let why = format!("should be {word} than{or_equal} {}", bound.at);
                found.errors.push(place.invalid(value.clone(), why));
            }
        };
        bound(self.minimum, |n, min| n < min.at || (min.exclusive && n <= min.at), "greater");
        bound(self.maximum, |n, max| n > max.at || (max.exclusive && n >= max.at), "less");
        found.passed += 1;
    }

    fn check_choice(&self, place: ValuePath<'_>, value: &Value, found: &mut CheckResult) {
        let same =
            |choice: &Value| choice == value || (choice.is_number() && choice.as_f64() == value.as_f64());
        if self.choices.is_empty() || self.choices.iter().any(same) {
            return;
        }
        let known: Vec<String> = self.choices.iter().map(crate::value::shown).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        found.errors.push(FieldError::unsupported(place.field(""), value.clone(), &known));
    }

    fn check_list(&self, place: ValuePath<'_>, list: &[Value], old: Option<&Value>, found: &mut CheckResult) {
        if let Some(items) = &self.items {
            for (i, value) in list.iter().enumerate() {
                let path = format!("{}[{i}]", place.path);
                let old = self.same_element(value, old);
                found.merge(items.looked_at(ValuePath { path: &path, ..place }, value, old));
            }
        }
        let count = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(least) = self.items_count.least.filter(|least| count < *least) {
            found.errors.push(place.invalid(count, format!("should have at least {least} items")));
        }
        if let Some(most) = self.items_count.most.filter(|most| count > *most) {
            found.errors.push(FieldError::too_many(place.field(""), count, most));
        }
        found.passed += 1;
    }

    /// Returns the previous value of a list's element, if elements have an identity.
    fn same_element<'a>(&self, value: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let ListType::Map(keys) = &self.list_type else { return None };
        let same = |other: &&Value| keys.iter().all(|key| other.get(key) == value.get(key));
        old?.as_array()?.iter().find(same)
    }

    fn check_map(
        &self,
        place: ValuePath<'_>,
        map: &Map<String, Value>,
        old: Option<&Value>,
        found: &mut CheckResult,
    ) {
        let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(least) = self.properties_count.least.filter(|least| count < *least) {
            found.errors.push(place.invalid(count, format!("should have at least {least} properties")));
        }
        if let Some(most) = self.properties_count.most.filter(|most| count > *most) {
            found.errors.push(FieldError::too_many(place.field(""), count, most));
        }
        for (name, value) in map {
            // Messages about properties at the root contain only the property's name.
            let is_own = self.properties.contains_key(name);
            let dot = if place.path.is_empty() && is_own { "" } else { "." };
            let path = format!("{}{dot}{name}", place.path);
            let inner = ValuePath { path: &path, ..place };
            match (self.property(name), &self.additional) {
                (Some(schema), _) => {
                    found.merge(schema.looked_at(inner, value, old.and_then(|old| old.get(name))));
                }
                (None, Additional::Never) => {
                    let why = format!("{}.{name} in body is a forbidden property", place.path);
                    found.errors.push(FieldError::invalid(place.field(""), name.as_str(), why));
                }
                (None, _) => {}
            }
        }
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            found.errors.push(FieldError::required(place.field(&format!(".{name}")), ""));
        }
        found.passed += 1;
    }

    /// Checks that Kubernetes objects embedded in the value specify a valid `apiVersion` and `kind`.
    fn check_embedded(&self, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
        let dot = if path.is_empty() { "" } else { "." };
        match value {
            Value::Object(map) => {
                if self.embedded {
                    for name in ["apiVersion", "kind"] {
                        let place = format!("{path}{dot}{name}");
                        match map.get(name) {
                            None => errors.push(FieldError::required(place, "")),
                            Some(Value::String(text)) if text.is_empty() => {
                                errors.push(FieldError::invalid(place, "", "must not be empty"));
                            }
                            Some(Value::String(_)) => {}
                            Some(other) => {
                                errors.push(FieldError::invalid(place, other.clone(), "must be a string"));
                            }
                        }
                    }
                    let kind = text(value, "/kind");
                    let wrong = label_1035_errors(&kind.to_lowercase());
                    if !kind.is_empty() && !wrong.is_empty() {
                        let why =
                            format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                        errors.push(FieldError::invalid(format!("{path}{dot}kind"), kind, why));
                    }
                }
                for (name, value) in map {
                    if let Some(schema) = self.property(name) {
                        schema.check_embedded(&format!("{path}{dot}{name}"), value, errors);
                    }
                }
            }
            Value::Array(list) => {
                for (i, value) in list.iter().enumerate() {
                    if let Some(items) = &self.items {
                        items.check_embedded(&format!("{path}[{i}]"), value, errors);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns errors for elements that occur twice in lists that are sets or maps.
    fn doubles(&self, path: &str, value: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.find_doubles(path, value, &mut errors);
        errors
    }

    fn find_doubles(&self, path: &str, value: &Value, errors: &mut Vec<FieldError>) {
        match value {
            Value::Object(map) => {
                let dot = if path.is_empty() { "" } else { "." };
                for (name, value) in map {
                    if let Some(schema) = self.properties.get(name) {
                        schema.find_doubles(&format!("{path}{dot}{name}"), value, errors);
                    } else if let Additional::Of(schema) = &self.additional {
                        schema.find_doubles(&format!("{path}[{name}]"), value, errors);
                    }
                }
            }
            Value::Array(list) => {
                match &self.list_type {
                    ListType::Atomic => {}
                    ListType::Set => doubles_of(path, list.to_vec(), errors),
                    ListType::Map(keys) => {
                        if let Some(i) = list.iter().position(|value| !value.is_null() && !value.is_object())
                        {
                            let why = "must be an object for an array of list-type map";
                            errors.push(FieldError::invalid(format!("{path}[{i}]"), list[i].clone(), why));
                        } else {
                            doubles_of(path, list.iter().map(|value| keys_of(value, keys)).collect(), errors);
                        }
                    }
                }
                for (i, value) in list.iter().enumerate() {
                    if let Some(items) = &self.items {
                        items.find_doubles(&format!("{path}[{i}]"), value, errors);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the key fields of an element of a list that is a map.
fn keys_of(value: &Value, keys: &[String]) -> Value {
    let given = keys.iter().filter_map(|key| Some((key.clone(), value.get(key)?.clone())));
    Value::Object(given.collect())
}

/// Reports the second occurrence of each value.
fn doubles_of(path: &str, values: Vec<Value>, errors: &mut Vec<FieldError>) {
    let mut seen = std::collections::HashMap::<String, usize>::new();
    for (i, value) in values.into_iter().enumerate() {
        let mut text = String::new();
        // Writing to memory cannot fail.
        let _ = write!(text, "{value}");
        let times = seen.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{i}]"), value));
        }
    }
}

#[cfg(test)]
mod tests;
