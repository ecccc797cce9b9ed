//! String formats in schemas.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::LazyLock,
};

use harbormaster_api::Timestamp;
use regex::Regex;

/// String formats that are described by regular expressions, with the expressions.
const PATTERNS: &[(&str, &str)] = &[
    ("bsonobjectid", r"^[0-9a-f]{24}$"),
    ("creditcard", r"^(?:\D*\d){13,19}\D*$"),
    ("date", r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"),
    ("duration", r"^[+-]?(\d+(\.\d*)?\s*[a-zµμ]+\s*)+$"),
    ("email", r"^[^@\s<>]+@[^@\s<>]+$"),
    ("hexcolor", r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    (
        "hostname",
        r"^([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9])(\.([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9]))*$",
    ),
    ("isbn", r"^[\d -]{9,16}[\dX]$"),
    ("isbn10", r"^[\d -]{9,12}[\dX]$"),
    ("isbn13", r"^[\d -]{12,16}\d$"),
    ("k8slongname", r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
    ("k8sshortname", r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
    (
        "mac",
        r"^([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2,3})$",
    ),
    ("rgbcolor", r"^rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)$"),
    ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
    ("uri", r"^([a-zA-Z][a-zA-Z0-9+.-]*:\S+|/\S*)$"),
    ("uuid", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid3", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid4", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
    ("uuid5", r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
];

/// Formats without a regular expression.
const OTHERS: [&str; 6] = ["byte", "cidr", "datetime", "ipv4", "ipv6", "password"];

static COMPILED: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    PATTERNS.iter().filter_map(|(name, pattern)| Some((*name, Regex::new(pattern).ok()?))).collect()
});

/// Removes hyphens, because `date-time` and `datetime` are the same format.
fn plain(format: &str) -> String {
    format.replace('-', "")
}

/// Returns true if a format is defined for values of the type `of`, which may be empty.
pub(crate) fn is_known(format: &str, of: &str) -> bool {
    match of {
        "" | "string" => {
            let format = plain(format);
            OTHERS.contains(&format.as_str()) || PATTERNS.iter().any(|(known, _)| *known == format)
        }
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns the format if it is defined for values of the given types, or an empty string.
pub(super) fn known<'a>(format: &'a str, types: &[String]) -> &'a str {
    let of = match types {
        [one] => one,
        _ => "",
    };
    if is_known(format, of) { format } else { "" }
}

/// Returns true if a string conforms to a format, or if the format is unknown.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match plain(format).as_str() {
        "datetime" => Timestamp::parse(text).is_ok(),
        "ipv4" => text.contains('.') && text.parse::<IpAddr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, bits)| {
            let most = match address.parse() {
                Ok(IpAddr::V4(_)) => 32,
                Ok(IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            bits.parse::<u8>().is_ok_and(|bits| bits <= most)
        }),
        "byte" => {
            use base64::{Engine, engine::general_purpose::STANDARD};
            STANDARD.decode(text).is_ok()
        }
        format => {
            COMPILED.iter().find(|(known, _)| *known == format).is_none_or(|(_, form)| form.is_match(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_checked_against_their_format() {
        assert_eq!(COMPILED.len(), PATTERNS.len());
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02"),
            ("date", "2026-01-02", "2026-13-02"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("byte", "aGk=", "?"),
            ("uuid", "5b7b1b5c-0f5e-4d8b-9d5e-0123456789ab", "5b7b"),
            ("hostname", "a.example.com", "-a"),
            ("uri", "https://example.com/a", "a b"),
            ("email", "a@example.com", "a"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("duration", "22 ns", "x"),
            ("k8s-short-name", "a-b", "A"),
        ] {
            assert!(is_known(format, "string") && fits(format, good) && !fits(format, bad), "{format}");
        }
        assert!(
            !is_known("quaternion", "string") && !is_known("int32", "string") && is_known("int64", "integer")
        );
    }
}
