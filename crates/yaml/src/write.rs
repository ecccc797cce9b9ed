//! Converts JSON to YAML.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::scalar::{self, Scalar};

/// Formats a value as YAML in kubectl's style: keys are sorted, each level is indented by two columns, and lists are
/// indented as far as their keys.
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(&mut text, fields, 0, false),
        Value::Array(items) if !items.is_empty() => sequence(&mut text, items, 0, false),
        other => {
            leaf(&mut text, other);
            text.push('\n');
        }
    }
    text
}

/// Writes a mapping. `begun` is true if the first line follows a `- `.
fn mapping(text: &mut String, fields: &Map<String, Value>, indent: usize, begun: bool) {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for (i, (key, value)) in sorted.into_iter().enumerate() {
        if i > 0 || !begun {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        string(text, key);
        text.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                text.push('\n');
                mapping(text, fields, indent + 2, false);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                sequence(text, items, indent, false);
            }
            other => {
                text.push(' ');
                leaf(text, other);
                text.push('\n');
            }
        }
    }
}

fn sequence(text: &mut String, items: &[Value], indent: usize, begun: bool) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 || !begun {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => mapping(text, fields, indent + 2, true),
            Value::Array(items) if !items.is_empty() => sequence(text, items, indent + 2, true),
            other => {
                leaf(text, other);
                text.push('\n');
            }
        }
    }
}

fn leaf(text: &mut String, value: &Value) {
    match value {
        Value::String(value) => string(text, value),
        // Writing to a string cannot fail.
        other => drop(write!(text, "{other}")),
    }
}

fn string(text: &mut String, value: &str) {
    if is_plain(value) {
        return text.push_str(value);
    }
    text.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' => {
                text.push(c);
            }
            c if u32::from(c) > 0xffff => text.push(c),
            // Writing to a string cannot fail.
            c => drop(write!(text, "\\u{:04x}", u32::from(c))),
        }
    }
    text.push('"');
}

/// Returns true if every YAML reader reads the unquoted text as the same string.
fn is_plain(value: &str) -> bool {
    let begins_well = value.starts_with(|c: char| c.is_ascii_alphanumeric() || "/_.+-".contains(c));
    let is_quiet = |c: char| c.is_ascii_alphanumeric() || "/_.+-=@%()<>,;~^$".contains(c);
    // A colon before a space begins a value, and a colon among digits makes them a number or a time.
    let has_digits_and_colons = || value.bytes().all(|c| c.is_ascii_digit() || b":._+-".contains(&c));
    begins_well
        && !["-", "<<", "="].contains(&value)
        && !["- ", "---", "..."].iter().any(|marker| value.starts_with(marker))
        && value.split(' ').all(|word| !word.is_empty() && word.chars().all(|c| is_quiet(c) || c == ':'))
        && !value.contains(": ")
        && !value.ends_with(':')
        && !(value.contains(':') && has_digits_and_colons())
        && !scalar::is_date(value)
        && scalar::plain(value) == Scalar::Text
}
