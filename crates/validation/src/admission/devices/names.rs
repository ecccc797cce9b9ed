//! Forms of names.

use harbormaster_api::labels::{qualified_name_errors, subdomain_errors};

use super::super::{
    Errors,
    checks::check_form,
    meta::{check_declared_label, in_bytes, label_errors, long_name_errors},
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

/// Checks a DNS label that must not be empty, by a declared rule.
pub(super) fn check_given_label(name: &str, place: &str, errors: &mut Errors) {
    errors.declared(|errors| {
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
        } else {
            check_declared_label(name, place, errors);
        }
    });
}

/// Checks the key of a label, a taint or a toleration, or the type of a condition.
pub(super) fn check_label_key(name: &str, place: &str, errors: &mut Errors) {
    check_form(name, place, qualified_name_errors, errors);
}

/// Checks the key of a toleration, by a declared rule.
pub(super) fn check_toleration_key(name: &str, place: &str, errors: &mut Errors) {
    let form = match errors.has_declarations() {
        true => |name: &str| in_bytes(qualified_name_errors(name)),
        false => qualified_name_errors,
    };
    errors.declared(|errors| check_form(name, place, form, errors));
}

/// Checks the name of a device class, by a declared rule.
pub(super) fn check_declared_class(name: &str, place: &str, errors: &mut Errors) {
    if !errors.has_declarations() {
        return check_class(name, place, errors);
    }
    errors.declared(|errors| match name {
        "" => errors.push(FieldError::required(place, "")),
        name => check_form(name, place, subdomain_errors, errors),
    });
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

/// Like [`check_driver`], by declared rules.
pub(super) fn check_declared_driver(name: &str, place: &str, errors: &mut Errors) {
    if !errors.has_declarations() {
        return check_driver(name, place, errors);
    }
    errors.declared(|errors| {
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
            return;
        }
        check_form(name, place, caseless_name_errors, errors);
        if name.chars().count() > LONGEST_DRIVER {
            errors.push(FieldError::too_many_characters(place, LONGEST_DRIVER));
        }
    });
}

/// Returns the errors in a string that must be a DNS subdomain, except that it may have upper case letters.
fn caseless_name_errors(name: &str) -> Vec<String> {
    let errors = subdomain_errors(&name.to_ascii_lowercase()).into_iter();
    errors
        .map(|why| {
            why.replace("a lowercase RFC", "an RFC")
                .replace("lower case alphanumeric", "alphanumeric")
                .replace("'example.com'", "'Example.com'")
        })
        .collect()
}

/// Like [`check_pool`], by declared rules, whose errors tell the position of the part.
pub(super) fn check_declared_pool(name: &str, place: &str, errors: &mut Errors) {
    if !errors.has_declarations() {
        return check_pool(name, place, errors);
    }
    errors.declared(|errors| {
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
            return;
        }
        if name.len() > LONGEST_POOL {
            errors.push(FieldError::too_long(place, LONGEST_POOL));
        }
        for (i, part) in name.split('/').enumerate() {
            if part.is_empty() {
                errors.push(FieldError::invalid(place, name, format!("segment {i}: must not be empty")));
                continue;
            }
            let wrong = subdomain_errors(part).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(place, part, format!("segment {i}: {why}"))));
        }
    });
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

/// Checks the name of an attribute with its domain, by a declared rule.
pub(super) fn check_fully_qualified(name: &str, place: &str, errors: &mut Errors) {
    errors.declared(|errors| {
        if errors.has_declarations() {
            check_prefixed(name, place, errors);
        } else {
            check_qualified(name, place, errors);
        }
        if !name.contains('/') {
            let why = "a fully qualified name must be a domain and a name separated by a slash";
            errors.push(FieldError::invalid(place, name, why));
        }
    });
}

/// Like [`check_qualified`], in the words of declared rules, which allow no upper case letters in the domain.
fn check_prefixed(name: &str, place: &str, errors: &mut Errors) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [identifier] => check_identifier(identifier, place, errors),
        [prefix, identifier] => {
            if prefix.is_empty() {
                errors.push(FieldError::invalid(place, "", "prefix must not be empty"));
            } else {
                if prefix.len() > LONGEST_DRIVER {
                    errors.push(FieldError::too_long(place, LONGEST_DRIVER));
                }
                let wrong = subdomain_errors(prefix).into_iter();
                errors.extend(wrong.map(|why| FieldError::invalid(place, prefix, format!("prefix: {why}"))));
            }
            if identifier.is_empty() {
                errors.push(FieldError::invalid(place, "", "name must not be empty"));
            } else {
                check_identifier(identifier, place, errors);
            }
        }
        // As by the other rule, any name with more slashes is accepted.
        _ => {}
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

/// Checks the identity of a share of a device, by a declared rule.
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
    let why = if errors.has_declarations() {
        "must be a lowercase UUID in 8-4-4-4-12 format".to_owned()
    } else if fits(false) {
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal \
         characters"
            .to_owned()
    } else if matches!(bytes.len(), 36) {
        "error validating uid: invalid UUID format".to_owned()
    } else {
        format!("error validating uid: invalid UUID length: {}", bytes.len())
    };
    errors.declared(|errors| errors.push(FieldError::invalid(place, uid, why)));
}
