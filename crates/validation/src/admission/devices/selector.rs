//! Device selectors, taints, tolerations and opaque configuration: parts that several kinds of objects share.

use harbormaster_api::labels::label_value_errors;
use harbormaster_cel::{Features, Selector};
use serde_json::Value;

use super::{super::Errors, each, names};
use crate::{
    FieldError,
    admission::checks::{check_form, elements},
    value::text,
};

/// Maximum number of elements in a list of selectors, requests, constraints or configurations.
pub(super) const MOST: usize = 32;
/// Maximum length of an expression, in bytes.
const LONGEST_EXPRESSION: usize = 10 << 10;
/// Maximum size of an object with opaque parameters or with data of a device, in bytes.
const LARGEST_OBJECT: usize = 10 << 10;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

pub(super) fn check(selectors: &Value, place: &str, errors: &mut Errors) {
    each(selectors, place, MOST, errors, |selector, place, errors| match selector.get("cel") {
        None | Some(Value::Null) => errors.push(FieldError::required(format!("{place}.cel"), "")),
        Some(cel) => check_expression(text(cel, "/expression"), &format!("{place}.cel.expression"), errors),
    });
}

/// Checks that an expression is short and compiles. The cost of expressions is not estimated.
fn check_expression(expression: &str, place: &str, errors: &mut Errors) {
    if expression.len() > LONGEST_EXPRESSION {
        errors.push(FieldError::too_long(place, LONGEST_EXPRESSION));
        return;
    }
    if let Err(error) = Selector::compile(expression, Features::default()) {
        errors.push(FieldError::invalid(place, expression, error.to_string()));
    }
}

pub(super) fn check_tolerations(tolerations: &Value, place: &str, errors: &mut Errors) {
    for (place, toleration) in elements(tolerations, place) {
        check_toleration(toleration, &place, errors);
    }
}

fn check_toleration(toleration: &Value, place: &str, errors: &mut Errors) {
    let (key, value) = (text(toleration, "/key"), text(toleration, "/value"));
    if !key.is_empty() {
        names::check_toleration_key(key, &format!("{place}.key"), errors);
    }
    match text(toleration, "/operator") {
        "Exists" if !value.is_empty() => {
            let why = "must be empty for operator `Exists`";
            errors.push(FieldError::invalid(format!("{place}.value"), value, why));
        }
        "Exists" => {}
        "Equal" => check_form(value, &format!("{place}.value"), label_value_errors, errors),
        operator => errors.declared(|errors| {
            check_choice(operator, &["Equal", "Exists"], &format!("{place}.operator"), errors);
        }),
    }
    let effect = text(toleration, "/effect");
    if !effect.is_empty() {
        errors.declared(|errors| check_choice(effect, &EFFECTS, &format!("{place}.effect"), errors));
    }
}

pub(super) fn check_taint(taint: &Value, place: &str, errors: &mut Errors) {
    names::check_label_key(text(taint, "/key"), &format!("{place}.key"), errors);
    check_form(text(taint, "/value"), &format!("{place}.value"), label_value_errors, errors);
    let effect = text(taint, "/effect");
    errors.declared(|errors| check_choice(effect, &EFFECTS, &format!("{place}.effect"), errors));
}

/// Checks that a string is one of the known ones.
pub(super) fn check_choice(text: &str, known: &[&str], place: &str, errors: &mut Errors) {
    if text.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else if !known.contains(&text) {
        errors.push(FieldError::unsupported(place, text, known));
    }
}

/// Checks a configuration, which is opaque to Kubernetes.
pub(super) fn check_configuration(configuration: &Value, place: &str, errors: &mut Errors) {
    match configuration.get("opaque") {
        None | Some(Value::Null) => errors.push(FieldError::required(format!("{place}.opaque"), "")),
        Some(opaque) => {
            names::check_declared_driver(text(opaque, "/driver"), &format!("{place}.opaque.driver"), errors);
            let parameters = opaque.get("parameters").unwrap_or(&Value::Null);
            check_object(parameters, &format!("{place}.opaque.parameters"), errors);
        }
    }
}

/// Checks a JSON object whose format the driver defines.
pub(super) fn check_object(object: &Value, place: &str, errors: &mut Errors) {
    match object {
        Value::Null => errors.push(FieldError::required(place, "")),
        object if object.to_string().len() > LARGEST_OBJECT => {
            errors.push(FieldError::too_long(place, LARGEST_OBJECT));
        }
        Value::Object(_) => {}
        _ => errors.push(FieldError::invalid(place, "<value omitted>", "must be a valid JSON object")),
    }
}
