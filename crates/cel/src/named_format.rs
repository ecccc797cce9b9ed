//! Named text formats, such as DNS labels, and the errors of texts that do not have them.

use std::fmt;

use harbormaster_api::labels::{
    has_subdomain_form, label_value_errors, qualified_name_errors, subdomain_form_error,
};

use crate::{time::Timestamp, url::Url};

/// A format.
pub(crate) struct NamedFormat {
    /// Name in expressions.
    pub(crate) id: &'static str,
    /// Name in Kubernetes, by which formats are compared and printed.
    pub(crate) name: &'static str,
    /// Returns the errors in a text; none if the text has this format.
    pub(crate) errors: fn(&str) -> Vec<String>,
    /// Size of the format's pattern, on which the cost of a validation is based.
    pub(crate) pattern_size: u64,
}

impl fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

const fn format(
    id: &'static str,
    name: &'static str,
    pattern_size: u64,
    errors: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat { id, name, errors, pattern_size }
}

/// All formats.
pub(crate) static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", "DNS1123Label", 30, label_errors),
    format("dns1123Subdomain", "DNS1123Subdomain", 60, subdomain_errors),
    format("dns1035Label", "DNS1035Label", 30, old_label_errors),
    format("qualifiedName", "QualifiedName", 60, qualified_name_errors),
    format("dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| label_errors(&without_dash(text))),
    format("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |text| {
        subdomain_errors(&without_dash(text))
    }),
    format("dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| old_label_errors(&without_dash(text))),
    format("labelValue", "LabelValue", 40, label_value_errors),
    format("uri", "URI", 1103, |text| Url::check_request(text).err().into_iter().collect()),
    format("uuid", "uuid", 70, |text| unless(is_uuid(text), "does not match the UUID format")),
    format("byte", "byte", 84, |text| unless(is_base64(text), "invalid base64")),
    format("date", "date", 71, |text| unless(is_date(text), "invalid date")),
    format("datetime", "datetime", 71, |text| unless(is_date_time(text), "invalid datetime")),
];

/// Returns the format with the name that expressions use.
pub(crate) fn find(id: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.id == id)
}

fn unless(is_valid: bool, error: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![error.to_owned()] }
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const OLD_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";

/// Replaces a dash at the end and the character before it with a letter, because a random suffix will follow.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut kept = rest.to_owned();
            kept.pop();
            kept + "a"
        }
        _ => text.to_owned(),
    }
}

fn is_label(text: &str) -> bool {
    !text.contains('.') && has_subdomain_form(text)
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} characters"))
}

fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::from_iter(too_long(text, 63));
    if !is_label(text) {
        errors.push(match has_subdomain_form(text) {
            true => "must not contain dots".to_owned(),
            false => format!(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                 validation is '{LABEL}')"
            ),
        });
    }
    errors
}

fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::from_iter(too_long(text, 253));
    errors.extend(subdomain_form_error(text));
    errors
}

fn old_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::from_iter(too_long(text, 63));
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        errors.push(format!(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '{OLD_LABEL}')"
        ));
    }
    errors
}

/// Returns true for a UUID. The dashes are optional.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (at, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..digits) {
            Some(group) if group.bytes().all(|c| c.is_ascii_hexdigit()) => rest = &rest[digits..],
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let is_data = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/');
    !data.is_empty()
        && text.len() - data.len() <= 2
        && text.len().is_multiple_of(4)
        && data.bytes().all(is_data)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time).unwrap_or(false)
}

fn is_time(text: &str) -> Option<bool> {
    let numbers = [text.get(..2)?, text.get(3..5)?, text.get(6..8)?];
    let has_form = text.get(2..3)? == ":"
        && text.get(5..6)? == ":"
        && numbers.iter().all(|number| number.bytes().all(|c| c.is_ascii_digit()));
    let is_in_range = numbers[0] <= "23" && numbers[1] <= "59" && numbers[2] <= "59";
    Some(has_form && is_in_range && is_zone_with_fraction(&text[8..]))
}

/// Returns true for `z` or an offset. A fraction of a second may precede it; any character except a line break can
/// introduce the fraction.
fn is_zone_with_fraction(text: &str) -> bool {
    let is_zone = |text: &str| match text.as_bytes() {
        b"z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|c| c.is_ascii_digit()),
        _ => false,
    };
    let mut chars = text.chars();
    let separator = chars.next();
    let rest = chars.as_str();
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    is_zone(text) || separator.is_some_and(|c| c != '\n') && after.len() < rest.len() && is_zone(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_a_format_have_no_errors() {
        for (id, good, bad) in [
            ("dns1123Label", "a-1", "A"),
            ("dns1123Subdomain", "a.b-c", "a..b"),
            ("dns1035Label", "a-1", "1-a"),
            ("qualifiedName", "a.b/C_d", "a/b/c"),
            ("dns1123LabelPrefix", "a-", "-a"),
            ("dns1123SubdomainPrefix", "a.b-", ".a"),
            ("dns1035LabelPrefix", "ab-", "1a-"),
            ("labelValue", "A_b", "-"),
            ("uri", "https://a/b", "a"),
            ("uuid", "123e4567-e89b-12d3-A456-426614174000", "123e4567"),
            ("byte", "aGVsbG8=", "aGVsbG8"),
            ("date", "2024-02-29", "2023-02-29"),
            ("datetime", "2024-02-29T12:00:00.5Z", "2024-02-29"),
        ] {
            let format = find(id).unwrap();
            assert_eq!((format.errors)(good), Vec::<String>::new(), "{id}");
            assert_eq!((format.errors)(bad).len(), 1, "{id}");
        }
    }
}
