//! Amounts of quantities.
//!
//! Kubernetes computes with 64-bit integers as long as they suffice, and with decimals of any length otherwise. An
//! expression can tell the difference: only an amount of the first form can be an integer. Here, decimals have up to 38
//! digits, and larger amounts are capped.

use std::{cmp::Ordering, fmt};

/// An amount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    form: Form,
    notation: Notation,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// `value * 10^scale`.
    Short { value: i64, scale: i32 },
    /// `value / 10^fraction`.
    Long { value: i128, fraction: i32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    Decimal,
    Binary,
    Exponent,
}

const FORMAT: &str = "quantities must match the regular expression \
                      '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMBER: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

const DECIMAL: [(&str, i32); 10] =
    [("", 0), ("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Maximum number of digits after the decimal point.
const NANO: i32 = 9;
/// Number of digits that always fit in an `i64`.
const SAFE_DIGITS: i64 = 18;

/// The parts of a text.
struct Parts<'t> {
    is_negative: bool,
    /// True if there is any digit.
    has_digits: bool,
    /// Digits before the point, without leading zeros.
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl Amount {
    /// Parses a quantity.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let parts = Parts::of(text)?;
        if let Some((_, exponent)) = BINARY.iter().find(|(suffix, _)| *suffix == parts.suffix) {
            return parts.short_binary(*exponent).map_or_else(|| parts.long_binary(*exponent), Ok);
        }
        let decimal = DECIMAL.iter().find(|(suffix, _)| *suffix == parts.suffix);
        let (exponent, notation) = match decimal {
            Some((_, exponent)) => (*exponent, Notation::Decimal),
            None => {
                let digits = parts.suffix.strip_prefix(['e', 'E']).ok_or(SUFFIX)?;
                let exponent: i64 = digits.parse().map_err(|_| SUFFIX)?;
                // Kubernetes uses the low 32 bits.
                (exponent as i32, Notation::Exponent)
            }
        };
        parts.short_decimal(exponent, notation).map_or_else(|| parts.long_decimal(exponent, notation), Ok)
    }

    /// Returns the amount of a quantity of the API.
    pub(crate) fn of(quantity: &harbormaster_api::Quantity) -> Self {
        // The API server always writes the same text for an amount, and this text determines the form.
        Self::parse(&quantity.to_string()).unwrap_or(Self::of_int(0))
    }

    pub(crate) fn of_int(value: i64) -> Self {
        Self { form: Form::Short { value, scale: 0 }, notation: Notation::Exponent }
    }

    /// Value and number of digits after the point, which may be negative.
    fn decimal(&self) -> (i128, i32) {
        match self.form {
            Form::Short { value, scale } => (i128::from(value), scale.saturating_neg()),
            Form::Long { value, fraction } => (value, fraction),
        }
    }

    /// Returns true if Kubernetes prints the amount as `text`, from which it was parsed, and not in canonical form.
    pub(crate) fn is_printed_as(&self, text: &str) -> bool {
        let (Form::Short { scale, .. }, Ok(parts)) = (&self.form, Parts::of(text)) else { return false };
        match self.notation {
            Notation::Binary => parts.whole.parse::<i64>().is_ok_and(|whole| whole % 8 != 0),
            Notation::Decimal | Notation::Exponent => {
                scale % 3 == 0 && !parts.whole.is_empty() && !parts.digits().ends_with("000")
            }
        }
    }

    pub(crate) fn sign(&self) -> i64 {
        self.decimal().0.signum() as i64
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (self.decimal(), other.decimal());
        if a.0.signum() != b.0.signum() || a.0 == 0 {
            return a.0.signum().cmp(&b.0.signum());
        }
        let shift = i64::from(a.1) - i64::from(b.1);
        // The amount with fewer digits after the point gets more of them.
        let (a, b) = match shift {
            ..0 => (shifted(a.0, -shift), Some(b.0)),
            _ => (Some(a.0), shifted(b.0, shift)),
        };
        match (a, b) {
            (Some(a), Some(b)) => a.cmp(&b),
            (None, Some(b)) => 0.cmp(&b).reverse(),
            (Some(a), None) => a.cmp(&0).reverse(),
            (None, None) => Ordering::Equal,
        }
    }

    /// The amount as an integer; `None` if it has a fraction, is too large, or is a decimal.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self.form {
            Form::Short { value, scale } => scaled(value, scale),
            Form::Long { .. } => None,
        }
    }

    pub(crate) fn as_double(&self) -> f64 {
        let (base, exponent) = match self.form {
            Form::Short { value, scale } => (value as f64, scale),
            Form::Long { value, fraction } => (value as f64, -fraction),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        let notation = if self.sign() == 0 { other.notation } else { self.notation };
        if let (Form::Short { value: a, scale: m }, Form::Short { value: b, scale: n }) =
            (self.form, other.form)
            && let Some((value, scale)) = short_sum((a, m), (b, n))
        {
            return Self { form: Form::Short { value, scale }, notation };
        }
        let ((a, m), (b, n)) = (self.decimal(), other.decimal());
        let fraction = m.max(n);
        let aligned = |value: i128, digits: i32| {
            let shift = i64::from(fraction) - i64::from(digits);
            shifted(value, shift).unwrap_or(i128::MAX * value.signum())
        };
        let value = aligned(a, m).saturating_add(aligned(b, n));
        Self { form: Form::Long { value, fraction }, notation }
    }

    pub(crate) fn subtract(&self, other: &Self) -> Self {
        // Kubernetes negates with wrapping, so the smallest integer stays negative: it is added instead of subtracted,
        // if the sum fits in 64 bits.
        if matches!(other.form, Form::Short { value: i64::MIN, .. }) {
            let sum = self.add(other);
            if matches!(sum.form, Form::Short { .. }) {
                return sum;
            }
        }
        let negated = match other.form {
            Form::Short { value: i64::MIN, scale } => {
                Form::Long { value: -i128::from(i64::MIN), fraction: -scale }
            }
            Form::Short { value, scale } => Form::Short { value: -value, scale },
            Form::Long { value, fraction } => Form::Long { value: value.saturating_neg(), fraction },
        };
        self.add(&Self { form: negated, notation: other.notation })
    }
}

/// Adds amounts if the sum fits in 64 bits.
fn short_sum((a, m): (i64, i32), (b, n): (i64, i32)) -> Option<(i64, i32)> {
    match () {
        () if b == 0 => Some((a, m)),
        () if a == 0 => Some((b, n)),
        () if m >= n => Some((scaled(a, m - n)?.checked_add(b)?, n)),
        () => Some((a.checked_add(scaled(b, n - m)?)?, m)),
    }
}

/// Multiplies by a power of ten; `None` if the exponent is negative or the result does not fit.
fn scaled(value: i64, exponent: i32) -> Option<i64> {
    if value == 0 && exponent >= 0 {
        return Some(0);
    }
    10i64.checked_pow(u32::try_from(exponent).ok()?)?.checked_mul(value)
}

fn shifted(value: i128, exponent: i64) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)?.checked_mul(value)
}

/// A power of ten with the rounding of Go's `math.Pow10`.
fn power_of_ten(exponent: i32) -> f64 {
    let small = |n: u32| format!("1e{n}").parse::<f64>().unwrap_or(f64::INFINITY);
    match exponent {
        0..=308 => small(exponent as u32 / 32 * 32) * small(exponent as u32 % 32),
        -323..0 => {
            let n = exponent.unsigned_abs();
            format!("1e-{}", n / 32 * 32).parse::<f64>().unwrap_or(0.0) / small(n % 32)
        }
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT);
        }
        let is_negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let significant = rest.trim_start_matches('0');
        let (whole, after) = leading_digits(significant);
        let (fraction, suffix) = match after.strip_prefix('.') {
            Some(after) => leading_digits(after),
            None => ("", after),
        };
        let end = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let end = end.strip_prefix(['-', '+']).unwrap_or(end);
        if !end.bytes().all(|c| c.is_ascii_digit()) {
            return Err(FORMAT);
        }
        let has_digits = significant.len() < rest.len() || !whole.is_empty() || !fraction.is_empty();
        Ok(Self { is_negative, has_digits, whole, fraction, suffix })
    }

    fn signed<N: std::ops::Neg<Output = N>>(&self, value: N) -> N {
        if self.is_negative { -value } else { value }
    }

    /// Number of digits. At least one digit before the point is counted, even if there is none.
    fn size(&self) -> i64 {
        (self.whole.len().max(1) + self.fraction.len()) as i64
    }

    fn digits(&self) -> String {
        format!("{}{}", self.whole, self.fraction)
    }

    fn short_decimal(&self, exponent: i32, notation: Notation) -> Option<Amount> {
        let scale = exponent.wrapping_sub(self.fraction.len() as i32);
        if self.size() > SAFE_DIGITS || scale < -NANO {
            return None;
        }
        let value = self.signed(self.digits().parse::<i64>().unwrap_or(0));
        Some(Amount { form: Form::Short { value, scale }, notation })
    }

    fn short_binary(&self, exponent: u32) -> Option<Amount> {
        // Three digits are reserved for every factor of 1024.
        let room = 14 - 3 * i64::from(exponent / 10);
        if !self.fraction.is_empty() || self.size() > room {
            return None;
        }
        let value = self.signed(self.whole.parse::<i64>().unwrap_or(0).checked_mul(1 << exponent)?);
        Some(Amount { form: Form::Short { value, scale: 0 }, notation: Notation::Binary })
    }

    fn long_decimal(&self, exponent: i32, notation: Notation) -> Result<Amount, &'static str> {
        if !self.has_digits {
            return Err(NUMBER);
        }
        let digits = self.digits();
        let point = self.whole.len() as i64 + i64::from(exponent) + i64::from(NANO);
        let kept = usize::try_from(point).unwrap_or(0).min(digits.len());
        let (kept, rest) = digits.split_at(kept);
        let zeros = point - kept.len() as i64;
        let kept = kept.trim_start_matches('0');
        let rounded_up = i128::from(rest.bytes().any(|c| c != b'0'));
        let nanos = match kept {
            "" => Some(0),
            kept => kept.parse().ok().and_then(|value| shifted(value, zeros.max(0))),
        };
        let value = self.signed(nanos.map_or(i128::MAX, |nanos: i128| nanos.saturating_add(rounded_up)));
        Ok(Amount { form: Form::Long { value, fraction: NANO }, notation })
    }

    fn long_binary(&self, exponent: u32) -> Result<Amount, &'static str> {
        if !self.has_digits {
            return Err(NUMBER);
        }
        let largest = i128::from(i64::MAX);
        let whole = match self.whole {
            "" => Some(0),
            whole => whole.parse::<i64>().ok().map(|whole| i128::from(whole) << exponent),
        };
        let kept = &self.fraction[..self.fraction.len().min(18)];
        let is_inexact = self.fraction[kept.len()..].bytes().any(|c| c != b'0');
        let unit = 10i128.pow(kept.len() as u32);
        let fraction = kept.parse::<i128>().unwrap_or(0) << exponent;
        let nano = 10i128.pow(NANO as u32);
        let rest = fraction % unit * nano;
        let nanos = fraction / unit * nano + rest / unit + i128::from(rest % unit != 0 || is_inexact);
        let total =
            whole.and_then(|whole| whole.checked_mul(nano)).and_then(|whole| whole.checked_add(nanos));
        let form = match total {
            Some(total) if total <= largest * nano => {
                Form::Long { value: self.signed(total), fraction: NANO }
            }
            _ => Form::Long { value: self.signed(largest), fraction: 0 },
        };
        let is_below_one = total.is_some_and(|total| total < nano && total > 0);
        Ok(Amount { form, notation: if is_below_one { Notation::Decimal } else { Notation::Binary } })
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|c| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, fraction) = self.decimal();
        if value == 0 {
            return f.write_str("0");
        }
        let limit = Self::of_int(1024);
        let is_small = self.compare(&limit).is_lt() && limit.add(self).sign() > 0;
        let whole = match fraction {
            0.. => shifted(1, i64::from(fraction)).filter(|unit| value % unit == 0).map(|unit| value / unit),
            _ => shifted(value, -i64::from(fraction)),
        };
        if self.notation == Notation::Binary
            && !is_small
            && let Some(mut whole) = whole
        {
            let mut times = 0;
            while whole % 1024 == 0 {
                whole /= 1024;
                times += 1;
            }
            let suffix = BINARY.iter().find(|(_, exponent)| *exponent == times * 10).map_or("", |(s, _)| *s);
            return write!(f, "{whole}{suffix}");
        }
        let mut exponent = -fraction;
        while value % 10 == 0 {
            value /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            value = value.saturating_mul(10);
            exponent -= 1;
        }
        match (self.notation, exponent) {
            (Notation::Exponent, 0) => write!(f, "{value}"),
            (Notation::Exponent, _) => write!(f, "{value}e{exponent}"),
            _ => {
                let suffix = DECIMAL.iter().find(|(_, it)| *it == exponent).map_or("", |(suffix, _)| *suffix);
                write!(f, "{value}{suffix}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).unwrap()
    }

    #[test]
    fn the_smallest_integer_is_subtracted_as_in_kubernetes() {
        let smallest = Amount::of_int(i64::MIN);
        for (text, expected) in [("1E", "-8223372036854775808"), ("-1", "9223372036854775807")] {
            assert_eq!(amount(text).subtract(&smallest).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_kept_if_it_looks_canonical() {
        for (text, is_kept) in [
            (".5", false),
            ("0.5", false),
            ("1.5", false),
            ("1.500", true),
            ("1.000", false),
            ("1000", false),
            ("1500", true),
            ("+5", true),
            ("007", true),
            ("1E3", true),
            ("1e4", false),
            ("80Gi", false),
            ("81Gi", true),
            ("1.5Gi", false),
            ("1234567890123456789", false),
        ] {
            assert_eq!(amount(text).is_printed_as(text), is_kept, "{text}");
        }
    }

    #[test]
    fn amounts_keep_their_notation() {
        for (text, printed) in [
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("100Ti", "100Ti"),
            ("1e3", "1e3"),
            ("-", "0"),
            ("1000", "1k"),
            ("0.5Ki", "512"),
            ("0.1n", "1n"),
            ("-1.5", "-1500m"),
        ] {
            assert_eq!(amount(text).to_string(), printed, "{text}");
        }
        for (text, problem) in [("", FORMAT), ("1x", FORMAT), ("1K", SUFFIX), (".", NUMBER), ("1ee", SUFFIX)]
        {
            let parsed = Amount::parse(text).map(|amount| amount.to_string());
            assert_eq!(parsed.err().or(Some("")), Some(if text == "." { "" } else { problem }), "{text}");
        }
    }

    #[test]
    fn only_short_amounts_without_a_fraction_are_integers() {
        for (text, expected) in [
            ("50k", Some(50_000)),
            ("80Gi", Some(80 << 30)),
            ("1000m", None),
            ("100Ti", None),
            ("9999999999999999999999G", None),
        ] {
            assert_eq!(amount(text).as_int(), expected, "{text}");
        }
        assert_eq!(amount("50k").add(&Amount::of_int(20)).as_int(), Some(50_020));
        assert_eq!(amount("50k").subtract(&amount("1m")).to_string(), "49999999m");
    }

    #[test]
    fn amounts_of_all_forms_can_be_compared() {
        let sorted = ["-9E", "-1", "1n", "999m", "1", "1Ki", "1k1", "1e3"];
        assert!(Amount::parse(sorted[6]).is_err());
        for (a, b, order) in [
            ("-9E", "1n", Ordering::Less),
            ("1000m", "1", Ordering::Equal),
            ("1Ki", "1k", Ordering::Greater),
            ("1e100", "1e99", Ordering::Greater),
            ("1e100", "5", Ordering::Greater),
            ("-1e100", "-5", Ordering::Less),
        ] {
            assert_eq!(amount(a).compare(&amount(b)), order, "{a} {b}");
        }
    }
}
