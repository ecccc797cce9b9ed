//! Forms of names.

use harbormaster_api::labels::qualified_name_errors;

use super::super::{
    Errors,
    checks::check_form,
    meta::{label_errors, long_name_errors},
};
use crate::FieldError;

/// Maximum length of a driver's name.
const LONGEST_DRIVER: usize = 63;
/// Maximum length of a pool's name.
const LONGEST_POOL: usize = 253;
/// Maximum length of an identifier, in bytes.
const LONGEST_IDENTIFIER: usize = 32;

/// Checks a DNS subdomain.
pub(super) fn check_subdomain(name: &str, place: &str, errors: &mut Errors) {
    check_form(name, place, long_name_errors, errors);
}

/// Checks a DNS label: the name of a device, a request or a counter.
pub(super) fn check_label(name: &str, place: &str, errors: &mut Errors) {
    check_form(name, place, label_errors, errors);
}

/// Checks a DNS label that must not be empty.
pub(super) fn check_given_label(name: &str, place: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else {
        check_label(name, place, errors);
    }
}

/// Checks the key of a label, a taint or a toleration, or the type of a condition.
pub(super) fn check_label_key(name: &str, place: &str, errors: &mut Errors) {
    check_form(name, place, qualified_name_errors, errors);
}

pub(super) fn check_class(name: &str, place: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(place, ""));
    } else {
        check_form(name, place, long_name_errors, errors);
    }
}

pub(super) fn check_driver(name: &str, place: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(place, ""));
        return;
    }
    if name.len() > LONGEST_DRIVER {
        errors.push(FieldError::too_long(place, LONGEST_DRIVER));
    }
    check_form(name, place, |name| long_name_errors(&name.to_lowercase()), errors);
}

/// Checks the name of a pool: subdomains between slashes.
pub(super) fn check_pool(name: &str, place: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(FieldError::required(place, ""));
        return;
    }
    if name.len() > LONGEST_POOL {
        errors.push(FieldError::too_long(place, LONGEST_POOL));
    }
    for part in name.split('/') {
        check_form(part, place, long_name_errors, errors);
    }
}

/// Checks the name of an attribute or a capacity: an identifier, optionally preceded by a domain and a slash.
pub(super) fn check_qualified(name: &str, place: &str, errors: &mut Errors) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [identifier] => check_identifier(identifier, place, errors),
        [domain, identifier] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(place, "", "the domain must not be empty"));
            } else {
                check_driver(domain, place, errors);
            }
            if identifier.is_empty() {
                errors.push(FieldError::invalid(place, "", "the name must not be empty"));
            } else {
                check_identifier(identifier, place, errors);
            }
        }
        // kube-apiserver accepts names with more than one slash.
        _ => {}
    }
}

/// Checks the name of an attribute with its domain.
pub(super) fn check_fully_qualified(name: &str, place: &str, errors: &mut Errors) {
    check_qualified(name, place, errors);
    if !name.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(place, name, why));
    }
}

fn check_identifier(name: &str, place: &str, errors: &mut Errors) {
    if name.len() > LONGEST_IDENTIFIER {
        errors.push(FieldError::too_long(place, LONGEST_IDENTIFIER));
    }
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !begins || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                   alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                   validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(FieldError::invalid(place, name, why));
    }
}

/// Checks the identity of a share of a device.
pub(super) fn check_share(uid: &str, place: &str, errors: &mut Errors) {
    let bytes = uid.as_bytes();
    let is_dash = |i: usize| matches!(i, 8 | 13 | 18 | 23);
    let fits = |lower: bool| {
        bytes.len() == 36
            && bytes.iter().enumerate().all(|(i, b)| match b {
                b'-' => is_dash(i),
                b'0'..=b'9' | b'a'..=b'f' => !is_dash(i),
                b'A'..=b'F' => !is_dash(i) && !lower,
                _ => false,
            })
    };
    if fits(true) {
        return;
    }
    let why = if fits(false) {
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal \
         characters"
            .to_owned()
    } else if matches!(bytes.len(), 36) {
        "error validating uid: invalid UUID format".to_owned()
    } else {
        format!("error validating uid: invalid UUID length: {}", bytes.len())
    };
    errors.push(FieldError::invalid(place, uid, why));
}
