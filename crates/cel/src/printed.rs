//! Texts of values in errors, as Go prints them.

use crate::{
    number,
    value::{Text, Value},
};

/// Size in bytes beyond which the remaining parts of a printed value are omitted.
const LONGEST: usize = 1 << 20;

impl Value<'_> {
    /// Prints the value as Go's `%v` does.
    pub(crate) fn go_print(&self) -> String {
        let mut text = String::new();
        self.print_into(&mut text);
        text
    }

    fn print_into(&self, into: &mut String) {
        if into.len() > LONGEST {
            return;
        }
        match self {
            Self::Null => into.push('0'),
            Self::Bool(value) => into.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => into.push_str(&value.to_string()),
            Self::Uint(value) => into.push_str(&value.to_string()),
            Self::Double(value) => into.push_str(&number::print_general(*value)),
            Self::String(text) => into.push_str(text.as_str()),
            Self::Bytes(bytes) => {
                let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
                into.push_str(&format!("[{}]", bytes.join(" ")));
            }
            Self::Duration(nanos) => into.push_str(&crate::time::print_go_duration(*nanos)),
            Self::Timestamp(time) => into.push_str(&time.go_print()),
            Self::List(list) => {
                into.push('[');
                for (at, element) in list.iter().enumerate() {
                    if at > 0 {
                        into.push_str(", ");
                    }
                    element.print_into(into);
                }
                into.push(']');
            }
            Self::Map(map) => {
                into.push('{');
                for (at, (key, value)) in map.entries().iter().enumerate() {
                    if at > 0 {
                        into.push_str(", ");
                    }
                    key.print_into(into);
                    into.push_str(": ");
                    value.print_into(into);
                }
                into.push('}');
            }
            Self::Optional(None) => into.push_str("optional.none()"),
            Self::Optional(Some(value)) => {
                into.push_str("optional(");
                value.print_into(into);
                into.push(')');
            }
            Self::Type(name) => into.push_str(match name.as_str() {
                "list" => "list(dyn)",
                "map" => "map(dyn, dyn)",
                name => name,
            }),
            Self::Quantity(quantity) => into.push_str(&quantity.print()),
            Self::Url(url) => into.push_str(&url.to_string()),
            Self::Ip(ip) => into.push_str(&crate::cidr::print_ip(*ip)),
            Self::Cidr(cidr) => into.push_str(&cidr.to_string()),
            // Go also prints the address of a function, which differs between builds.
            Self::Format(format) => {
                into.push_str(&format!("{{{} 0x0 {}}}", format.name, format.pattern_size));
            }
            Self::Semver(version) => into.push_str(&version.to_string()),
            Self::Error(error) => into.push_str(error.text.as_str()),
        }
    }
}

/// Quotes a text as Go's `%q` does.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match escape(c) {
            Some(escape) => quoted.push_str(escape),
            None if is_printable(c) => quoted.push(c),
            None if (c as u32) < 0x20 || c as u32 == 0x7f => quoted.push_str(&format!("\\x{:02x}", c as u32)),
            None if (c as u32) < 0x1_0000 => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            None => quoted.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the escape sequence of a character that has one of its own.
pub(crate) fn escape(c: char) -> Option<&'static str> {
    Some(match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        _ => return None,
    })
}

/// Returns true if Go prints the character as it is. Go and Rust agree, except about characters of newer versions of
/// Unicode.
fn is_printable(c: char) -> bool {
    // Rust also escapes quotes, and it escapes combining characters only at the beginning of a text.
    matches!(c, ' '..='~') || ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

/// Borrows the text.
impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_in_go() {
        for (value, expected) in [
            (Value::Null, "0"),
            (Value::Double(1e9), "1e+09"),
            (Value::list(vec![Value::Int(1), Value::string("a")]), "[1, a]"),
            (Value::Bytes([97, 98].into()), "[97 98]"),
            (Value::optional(Value::Bool(true)), "optional(true)"),
            (Value::of_type("list"), "list(dyn)"),
        ] {
            assert_eq!(value.go_print(), expected);
        }
        assert_eq!(
            quoted("'a\"\\\n\u{1}\u{7f}ä\u{301}\u{200b}\u{3100}"),
            r#""'a\"\\\n\x01\x7fä́\u200b\u3100""#
        );
    }
}
