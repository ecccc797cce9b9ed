//! Values of literals.

use crate::{ast::Literal, number};

/// Parses an integer, which may begin with `-` and `0x`.
pub(crate) fn int(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses an unsigned integer without its suffix.
pub(crate) fn uint(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a floating-point number.
pub(crate) fn double(text: &str) -> Option<f64> {
    number::parse_double(text)
}

/// Returns the value of a string or bytes literal. `token` includes the quotes and prefixes.
pub(crate) fn text(token: &str, is_bytes: bool) -> Result<Literal, &'static str> {
    let token = if is_bytes { token.get(1..).unwrap_or_default() } else { token };
    let bytes = unquoted(token, is_bytes)?;
    if is_bytes {
        return Ok(Literal::Bytes(bytes));
    }
    String::from_utf8(bytes).map(Literal::String).map_err(|_| "invalid unicode code point")
}

const WRONG: &str = "unable to unescape string";
const WRONG_OCTAL: &str = "unable to unescape octal sequence in string";

fn unquoted(token: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let token = token.replace("\r\n", "\n").replace('\r', "\n");
    let (is_raw, token) = match token.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, token.as_str()),
    };
    let quotes = ["'''", "\"\"\"", "'", "\""];
    let inner = quotes.iter().find_map(|quote| {
        let is_long_enough = token.len() >= 2 * quote.len();
        token.strip_prefix(quote)?.strip_suffix(quote).filter(|_| is_long_enough)
    });
    let inner = inner.ok_or(WRONG)?;
    if is_raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        if first == '\\' {
            rest = unescape(rest, is_bytes, &mut bytes)?;
        } else {
            push(first, &mut bytes);
        }
    }
    Ok(bytes)
}

fn push(c: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Reads an escape sequence after its backslash, and returns the rest of the text.
fn unescape<'a>(text: &'a str, is_bytes: bool, bytes: &mut Vec<u8>) -> Result<&'a str, &'static str> {
    let kind = text.chars().next().ok_or("unable to unescape string, found '\\' as last character")?;
    let rest = &text[kind.len_utf8()..];
    let simple = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => kind as u8,
        'x' | 'X' | 'u' | 'U' | '0'..='3' => {
            let (digits, radix, first) = match kind {
                'x' | 'X' => (2, 16, 0),
                'u' => (4, 16, 0),
                'U' => (8, 16, 0),
                octal => (2, 8, octal.to_digit(8).unwrap_or_default() << 6),
            };
            let wrong = if radix == 8 { WRONG_OCTAL } else { WRONG };
            if is_bytes && matches!(kind, 'u' | 'U') {
                return Err(WRONG);
            }
            let number = rest.get(..digits).ok_or(wrong)?;
            if !number.bytes().all(|c| char::from(c).is_digit(radix)) {
                return Err(wrong);
            }
            let number = u32::from_str_radix(number, radix).map_err(|_| wrong)? + first;
            if is_bytes {
                bytes.push(u8::try_from(number).map_err(|_| wrong)?);
            } else {
                push(char::from_u32(number).ok_or("invalid unicode code point")?, bytes);
            }
            return Ok(&rest[digits..]);
        }
        _ => return Err(WRONG),
    };
    bytes.push(simple);
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_lose_their_quotes_and_escapes() {
        for (token, expected) in [
            (r#"'a"b'"#, "a\"b"),
            (r#""""a"b""""#, "a\"b"),
            (r"r'\n'", "\\n"),
            (r"'\n\t\\\x41\u00e4\U0001F600\101\?'", "\n\t\\Aä😀A?"),
            ("''", ""),
            ("'''a\r\nb'''", "a\nb"),
        ] {
            assert_eq!(text(token, false), Ok(Literal::String(expected.to_owned())), "{token}");
        }
        assert_eq!(text(r"b'\xff\101ä'", true), Ok(Literal::Bytes(b"\xffA\xc3\xa4".to_vec())));
        assert_eq!(text(r"'\ud800'", false), Err("invalid unicode code point"));
        assert_eq!(text(r"b'\u0041'", true), Err("unable to unescape string"));
    }

    #[test]
    fn numbers_have_64_bits() {
        assert_eq!(int("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(int("-0x8000000000000000"), Some(i64::MIN));
        assert_eq!(int("9223372036854775808"), None);
        assert_eq!(uint("0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(uint("18446744073709551616"), None);
        assert_eq!(double("1e400"), None);
    }
}
