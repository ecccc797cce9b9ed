//! The meaning of plain scalars, as in `sigs.k8s.io/yaml`: YAML 1.1 with a few exceptions.

/// The value of a plain scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i128),
    /// A floating-point number, which may be infinite or NaN.
    Float(f64),
    Text,
}

/// Returns the value of a scalar without quotes.
pub(crate) fn plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes()[0] {
        // In numbers that begin with a period, underscores must separate digits; elsewhere, all underscores are
        // ignored.
        b'.' if separates_digits(text) => float(&without_underscores(text)),
        b'0'..=b'9' | b'+' | b'-' => number(&without_underscores(text)),
        _ => Scalar::Text,
    }
}

/// Returns true if a text looks like a date. Other YAML readers do not read dates as strings.
pub(crate) fn is_date(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits == 4 && text.as_bytes().get(4) == Some(&b'-')
}

fn without_underscores(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

fn separates_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_digit);
    let lies_between =
        |at: usize| is_digit(at.checked_sub(1).and_then(|at| bytes.get(at))) && is_digit(bytes.get(at + 1));
    text.match_indices('_').all(|(at, _)| lies_between(at))
}

fn number(text: &str) -> Scalar {
    // A sign may also follow this prefix.
    let binary = || text.strip_prefix("0b").and_then(|digits| signed(digits, |digits| (2, digits)));
    match signed(text, radix).or_else(binary) {
        Some(number) => Scalar::Int(number),
        None => float(text),
    }
}

/// Parses a 64-bit integer. Without a sign, the full range of `u64` is allowed.
fn signed(text: &str, radix: impl Fn(&str) -> (u32, &str)) -> Option<i128> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (Some(-1), &text[1..]),
        b'+' => (Some(1), &text[1..]),
        _ => (None, text),
    };
    let (radix, digits) = radix(rest);
    // The standard library would accept a second sign.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude: i128 = u64::from_str_radix(digits, radix).ok()?.into();
    match sign {
        None => Some(magnitude),
        Some(sign) => i64::try_from(sign * magnitude).ok().map(i128::from),
    }
}

/// Returns the base that a number's prefix stands for, and the digits after the prefix.
fn radix(text: &str) -> (u32, &str) {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1).map(u8::to_ascii_lowercase)) {
        (Some(b'0'), Some(b'b')) => (2, &text[2..]),
        (Some(b'0'), Some(b'o')) => (8, &text[2..]),
        (Some(b'0'), Some(b'x')) => (16, &text[2..]),
        (Some(b'0'), Some(b'0'..=b'9')) => (8, &text[1..]),
        _ => (10, text),
    }
}

/// Parses a decimal number. A number that is too large becomes a string, because it may be an abbreviated hash, such as
/// `123e456`.
fn float(text: &str) -> Scalar {
    let value = if is_decimal(text) { text.parse::<f64>().ok() } else { None };
    value.filter(|value| value.is_finite()).map_or(Scalar::Text, Scalar::Float)
}

/// Returns true if the text matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['-', '+']).unwrap_or(text).to_owned();
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa = unsigned(mantissa);
    let is_mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => are_digits(fraction),
        Some((whole, fraction)) => are_digits(whole) && (fraction.is_empty() || are_digits(fraction)),
        None => are_digits(&mantissa),
    };
    is_mantissa && exponent.is_none_or(|exponent| are_digits(&unsigned(exponent)))
}
