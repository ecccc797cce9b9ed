//! String maps for labels, annotations and node selectors. Also the syntax of label keys and values, with the API
//! server's error messages.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Str;

/// An immutable string map, sorted by key. Cloning copies a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Str, Str)]>);

impl Labels {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&Str> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok().map(|at| &self.0[at].1)
    }

    /// All pairs, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Str)> + '_ {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Returns true if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if every pair of `self` is also in `other`, which is the rule for `spec.nodeSelector` and map
    /// selectors.
    pub fn subset_of(&self, other: &Labels) -> bool {
        self.iter().all(|(k, v)| other.get(k) == Some(v))
    }
}

impl<K: Into<Str>, V: Into<Str>> FromIterator<(K, V)> for Labels {
    /// The last of several equal keys takes precedence, as in a JSON object.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Str, Str)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        if pairs.is_empty() {
            return Self::default();
        }
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, first| later.0 == first.0);
        Self(pairs.into())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeMap::<Str, Str>::deserialize(from).map(Self::from_iter)
    }
}

/// Maximum number of bytes in the name part of a qualified name and in a label value.
const MAX_NAME: usize = 63;
/// Maximum number of bytes in a DNS subdomain.
const MAX_SUBDOMAIN: usize = 253;

const NAME_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character";
const NAME_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', ";
const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/// Returns true if `text` is a qualified name, the syntax of label keys and extended resource names: optionally a DNS
/// subdomain and a slash, then up to 63 letters, digits, `-`, `_` and `.` with a letter or digit at both ends.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// Returns true if `text` is empty, or consists of up to 63 letters, digits, `-`, `_` and `.` with a letter or digit at
/// both ends.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// Returns true if `text` is a lower-case DNS subdomain (RFC 1123).
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && has_subdomain_form(text)
}

/// Returns the API server's error messages for a qualified name; none if `text` is valid.
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let wrong_form = || format!("{NAME_WORDS} {NAME_EXAMPLES}regex used for validation is '{NAME_REGEX}')");
    let mut parts = text.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (None, name),
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        _ => {
            let form = wrong_form();
            let text = format!(
                "a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            );
            return vec![text];
        }
    };
    let mut errors = Vec::new();
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            errors.extend(subdomain_errors(prefix).into_iter().map(|e| format!("prefix part {e}")));
        }
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME {
        errors.push(format!("name part {}", too_long(MAX_NAME)));
    }
    if !has_name_form(name) {
        errors.push(format!("name part {}", wrong_form()));
    }
    errors
}

/// Returns the API server's error messages for a label value; none if `text` is valid.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > MAX_NAME {
        errors.push(too_long(MAX_NAME));
    }
    if !text.is_empty() && !has_name_form(text) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({NAME_REGEX})?')"
        ));
    }
    errors
}

/// Returns the API server's error messages for a DNS subdomain; none if `text` is valid.
pub fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > MAX_SUBDOMAIN {
        errors.push(too_long(MAX_SUBDOMAIN));
    }
    errors.extend(subdomain_form_error(text));
    errors
}

/// Returns the API server's error message if `text` does not have the form of a DNS subdomain. Ignores the length.
pub fn subdomain_form_error(text: &str) -> Option<String> {
    (!has_subdomain_form(text)).then(|| {
        format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{SUBDOMAIN_REGEX}')"
        )
    })
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && has_name_form(text)
}

fn has_name_form(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Returns true if `text` has the form of a DNS subdomain. Ignores the length.
pub fn has_subdomain_form(text: &str) -> bool {
    let is_inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_inner)
            && bytes.last().is_some_and(is_inner)
            && bytes.iter().all(|b| is_inner(b) || *b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_repeated_key_is_found() {
        let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.len(), 2);
        assert_eq!(labels.get("b").map(Str::as_str), Some("3"));
        assert_eq!(labels.get("c"), None);
    }

    #[test]
    fn label_keys_and_values_follow_the_api_syntax() {
        let long = "a".repeat(63);
        for good in ["a", "A.b_c-9", "example.com/MyName", "a-b.c/0", &long, "1"] {
            assert!(is_qualified_name(good), "{good}");
            assert_eq!(qualified_name_errors(good), Vec::<String>::new(), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in ["", "-a", "a-", "a/b/c", "/a", "a/", "Ex.com/a", "a..b/c", "a b", "é", &longer] {
            assert!(!is_qualified_name(bad), "{bad}");
            assert_ne!(qualified_name_errors(bad), Vec::<String>::new(), "{bad}");
        }
        for (value, good) in
            [("", true), ("a_b", true), ("a/b", false), ("a.", false), (longer.as_str(), false)]
        {
            assert_eq!(is_label_value(value), good, "{value}");
            assert_eq!(label_value_errors(value).is_empty(), good, "{value}");
        }
    }

    #[test]
    fn syntax_errors_read_as_the_api_server_prints_them() {
        let form = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        assert_eq!(
            qualified_name_errors("A_/"),
            [
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                 or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                    .to_owned(),
                "name part must be non-empty".to_owned(),
                format!("name part {form}"),
            ]
        );
    }
}
