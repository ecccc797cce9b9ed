//! Conditions of the form `metav1.Condition`.

use std::collections::BTreeSet;

use harbormaster_api::{Release, labels::qualified_name_errors};
use serde_json::Value;

use super::{
    Errors,
    checks::{check_form, elements},
};
use crate::{
    FieldError,
    value::{number, present, text},
};

/// Checks a list of conditions.
pub(super) fn check(conditions: &Value, place: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (place, condition) in elements(conditions, place) {
        let name = text(condition, "/type");
        if !seen.insert(name) {
            let field =
                if errors.release() >= Release::V1_37 { place.clone() } else { format!("{place}.type") };
            errors.push(FieldError::duplicate(field, name));
        }
        check_condition(condition, &place, errors);
    }
}

fn check_condition(condition: &Value, place: &str, errors: &mut Errors) {
    const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
    const LONGEST_MESSAGE: usize = 32 << 10;
    let tells_missing = errors.release() >= Release::V1_37;
    let (name, status) = (text(condition, "/type"), text(condition, "/status"));
    if name.is_empty() && tells_missing {
        errors.push(FieldError::required(format!("{place}.type"), "is required"));
    } else {
        check_form(name, &format!("{place}.type"), qualified_name_errors, errors);
    }
    if status.is_empty() && tells_missing {
        errors.push(FieldError::required(format!("{place}.status"), ""));
    } else if !STATUSES.contains(&status) {
        errors.push(FieldError::unsupported(format!("{place}.status"), status, &STATUSES));
    }
    let generation = number(condition, "/observedGeneration");
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(format!("{place}.observedGeneration"), generation, why));
    }
    if present(condition, "/lastTransitionTime").is_none() {
        errors.push(FieldError::required(format!("{place}.lastTransitionTime"), ""));
    }
    check_reason(text(condition, "/reason"), &format!("{place}.reason"), errors);
    if text(condition, "/message").len() > LONGEST_MESSAGE {
        errors.push(FieldError::too_long(format!("{place}.message"), LONGEST_MESSAGE));
    }
}

fn check_reason(reason: &str, place: &str, errors: &mut Errors) {
    const LONGEST: usize = 1 << 10;
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let bytes = reason.as_bytes();
    if bytes.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else if !bytes[0].is_ascii_alphabetic()
        || !bytes.last().is_some_and(is_word)
        || !bytes.iter().all(|b| is_word(b) || matches!(b, b',' | b':'))
    {
        let why = "a condition reason must start with alphabetic character, optionally followed by a string of \
                   alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
                   'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used \
                   for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        errors.push(FieldError::invalid(place, reason, why));
    }
    if bytes.len() > LONGEST {
        errors.push(FieldError::too_long(place, LONGEST));
    }
}
