//! Texts of floating-point numbers, as Go reads and prints them.

use std::fmt::Write;

/// Parses a number as Go's `strconv.ParseFloat` does. A number that is too large is an error.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let (is_negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if is_negative { -1.0 } else { 1.0 };
    if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    if !are_underscores_valid(rest) {
        return None;
    }
    let digits = rest.replace('_', "");
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return parse_hex(hex).map(|value| sign * value);
    }
    let is_decimal =
        digits.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_decimal || digits.starts_with(['+', '-']) {
        return None;
    }
    let value: f64 = digits.parse().ok()?;
    value.is_finite().then_some(sign * value)
}

/// Returns true if every underscore is between digits or after a base prefix.
fn are_underscores_valid(text: &str) -> bool {
    let is_hex = text.starts_with("0x") || text.starts_with("0X");
    let is_digit =
        |c: u8| c.is_ascii_digit() || is_hex && (c.is_ascii_hexdigit() || matches!(c, b'x' | b'X'));
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, c)| **c == b'_').all(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        before.is_some_and(|c| is_digit(*c)) && bytes.get(at + 1).is_some_and(|c| is_digit(*c))
    })
}

/// Parses a hexadecimal number after its prefix. The exponent is required.
fn parse_hex(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let has_digits = exponent.trim_start_matches(['+', '-']).bytes().all(|c| c.is_ascii_digit());
    let exponent: i32 = exponent.parse().ok().filter(|_| has_digits)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let all = all.trim_start_matches('0');
    if whole.is_empty() && fraction.is_empty() || !all.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    // The first fifteen digits, and whether a nonzero digit follows them, determine how to round.
    let kept = &all[..all.len().min(15)];
    let rest = &all[kept.len()..];
    let mantissa =
        u64::from_str_radix(kept, 16).unwrap_or(0) << 1 | u64::from(rest.bytes().any(|c| c != b'0'));
    let shift = i64::from(exponent) - 1 + 4 * (rest.len() as i64 - fraction.len() as i64);
    let value = scale(mantissa as f64, shift);
    value.is_finite().then_some(value)
}

/// Multiplies by a power of two.
fn scale(mut value: f64, mut shift: i64) -> f64 {
    while shift != 0 && value != 0.0 && value.is_finite() {
        let step = shift.clamp(-1000, 1000);
        value *= 2f64.powi(step as i32);
        shift -= step;
    }
    value
}

/// Prints a number as Go's `%g` and `%v` do: with an exponent if the exponent is less than -4 or greater than 5.
pub(crate) fn print_general(value: f64) -> String {
    general(value, 6)
}

fn general(value: f64, largest: i32) -> String {
    if let Some(special) = special(value, "+Inf") {
        return special.to_owned();
    }
    let (digits, exponent) = shortest(value);
    if (-4..largest).contains(&exponent) {
        return print_positional(value);
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{exponent_sign}{:02}", exponent.unsigned_abs())
}

/// Prints a number without an exponent and with as few digits as possible, like Go's `strconv.FormatFloat(v, 'f', -1)`.
pub(crate) fn print_positional(value: f64) -> String {
    special(value, "+Inf").map_or_else(|| format!("{value}"), str::to_owned)
}

/// Prints a number with a fixed number of digits after the point, like Go's `%.6f`.
pub(crate) fn print_fixed(value: f64, digits: usize) -> String {
    special(value, "+Inf").map_or_else(|| format!("{value:.digits$}"), str::to_owned)
}

/// Returns the digits, including the point, and the exponent that Go's `%e` prints with this precision.
pub(crate) fn scientific(value: f64, digits: usize) -> (String, i32) {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or(0))
}

fn special(value: f64, infinity: &'static str) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some(infinity),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// Returns the fewest digits that identify the number, and the exponent of the first one.
fn shortest(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Appends an integer with commas between groups of three digits.
pub(crate) fn push_grouped(digits: &str, into: &mut String) {
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            into.push(',');
        }
        // Writing to a string cannot fail.
        let _ = write!(into, "{digit}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_go() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("-.5e1", Some(-5.0)),
            ("1_000.5", Some(1000.5)),
            ("0x1.8p1", Some(3.0)),
            ("+inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("infin", None),
            ("1e400", None),
            ("_1", None),
            ("1_", None),
            ("0x1", None),
            ("", None),
            ("--1", None),
            ("1 ", None),
        ] {
            assert_eq!(parse_double(text), expected, "{text}");
        }
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn large_and_small_numbers_are_printed_with_exponents() {
        for (value, expected) in [
            (1.5, "1.5"),
            (1e20, "1e+20"),
            (100_000.0, "100000"),
            (1.25e21, "1.25e+21"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-1e100, "-1e+100"),
            (-0.0, "-0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(print_general(value), expected);
        }
    }
}
