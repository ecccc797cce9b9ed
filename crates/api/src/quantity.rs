//! Kubernetes quantities: `100m`, `1.5Gi`, `1e3`.
//!
//! Grammar, rounding and overflow follow the API's definition (`resource.Quantity` in apimachinery): amounts are
//! rounded away from zero to multiples of 1n, amounts with a binary suffix are capped at the largest `i64`, and
//! conversions to integers round away from zero, except for some negative amounts. Like the API, this module has two
//! parsers, one with 64-bit integers and one with decimals of any length. The parser that accepts the text determines
//! the result of an overflow.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount as written in a manifest.
///
/// Compares by amount; the notation affects only [`fmt::Display`]. Amounts beyond about 10^29 units compare and print
/// as the largest amount that can be represented; [`Quantity::value`] and [`Quantity::milli_value`] are unaffected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    value: i64,
    milli: i64,
    notation: Notation,
}

/// Notation in which a quantity is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Notation {
    /// `1k`, `100m`.
    #[default]
    DecimalSi,
    /// `1Ki`.
    BinarySi,
    /// `1e3`.
    DecimalExponent,
}

/// Error for an invalid quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantity {text:?}: {problem}")]
pub struct QuantityError {
    /// The text.
    pub text: String,
    /// The problem.
    pub problem: QuantityProblem,
}

/// Problem with a quantity, with the API server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityProblem {
    /// Not a number followed by a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number has no digits.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix does not exist.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i32 = -9;
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Maximum number of decimal digits that always fit in an `i64`.
const SAFE_DIGITS: usize = 18;
/// Bound of the exponent; larger powers of ten make no difference.
const EXPONENT_BOUND: i32 = 400;

impl Quantity {
    /// Creates a whole number of units.
    pub fn from_units(units: i64) -> Self {
        Self::short(units, 0, Notation::DecimalSi)
    }

    /// Creates a whole number of thousandths.
    pub fn from_milli(thousandths: i64) -> Self {
        Self::short(thousandths, -3, Notation::DecimalSi)
    }

    /// Creates a whole number of units that prints with a binary suffix where possible.
    pub fn from_binary_units(units: i64) -> Self {
        Self::short(units, 0, Notation::BinarySi)
    }

    /// Creates a whole number of units in the notation of this quantity.
    #[must_use]
    pub fn with_units(&self, units: i64) -> Self {
        Self::short(units, 0, self.notation)
    }

    /// Units, rounded away from zero. On overflow and for some negative amounts, the result is the same wrong number as
    /// in Kubernetes.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// Thousandths, rounded away from zero. On overflow and for some negative amounts, the result is the same wrong
    /// number as in Kubernetes: zero for `1E`, for example.
    pub fn milli_value(&self) -> i64 {
        self.milli
    }

    /// Billionths, the finest resolution of a quantity. Amounts beyond about 10^29 units are capped.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Returns true if the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Creates the quantity `number * 10^exponent`, with the overflows of the 64-bit parser.
    fn short(number: i64, exponent: i32, notation: Notation) -> Self {
        let up = i64::from(exponent);
        Self {
            nanos: scale_i128(i128::from(number), up - i64::from(NANO)),
            value: scale_i64(number, up),
            milli: scale_i64(number, up + 3),
            notation,
        }
    }

    /// Creates a quantity from a decimal, with the overflows of the decimal parser.
    fn long(decimal: &Decimal, negative: bool, notation: Notation) -> Self {
        let magnitude = decimal.saturating_nanos();
        let read = |thousandths| decimal.integer(if thousandths { 3 } else { 0 }, negative);
        Self {
            nanos: if negative { -magnitude } else { magnitude },
            value: read(false),
            milli: read(true),
            notation,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text).map_err(|problem| QuantityError { text: text.to_owned(), problem })
    }
}

/// The text of a quantity, split into its parts.
struct ParsedText<'a> {
    negative: bool,
    /// True if the number has at least one digit. The 64-bit parser ignores this field.
    any_digit: bool,
    /// Digits before the point, without leading zeros.
    whole: &'a [u8],
    /// Digits after the point.
    fraction: &'a [u8],
    suffix: &'a str,
}

/// Factor that a suffix stands for.
#[derive(Clone, Copy)]
enum Factor {
    Ten(i32, Notation),
    Two(u32),
}

fn split(text: &str) -> Result<ParsedText<'_>, QuantityProblem> {
    if text.is_empty() {
        return Err(QuantityProblem::Format);
    }
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let significant = rest.trim_start_matches('0');
    let zeros = significant.len() < rest.len();
    let (whole, rest) = leading_digits(significant);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => leading_digits(rest),
        None => ("", rest),
    };
    let after = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let after = after.strip_prefix(['-', '+']).unwrap_or(after);
    if !after.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityProblem::Format);
    }
    let any_digit = zeros || !whole.is_empty() || !fraction.is_empty();
    Ok(ParsedText { negative, any_digit, whole: whole.as_bytes(), fraction: fraction.as_bytes(), suffix })
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len()))
}

fn factor(suffix: &str) -> Option<Factor> {
    const DECIMAL: [(&str, i32); 10] = [
        ("", 0),
        ("m", -3),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
        ("u", -6),
        ("n", -9),
    ];
    const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some(Factor::Ten(*exponent, Notation::DecimalSi));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Some(Factor::Two(*exponent));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // The API uses the low 32 bits of an exponent.
    Some(Factor::Ten(exponent as i32, Notation::DecimalExponent))
}

fn parse(text: &str) -> Result<Quantity, QuantityProblem> {
    let parts = split(text)?;
    let factor = factor(parts.suffix).ok_or(QuantityProblem::Suffix)?;
    if let Some(quick) = parse_short(&parts, factor) {
        return Ok(quick);
    }
    if !parts.any_digit {
        return Err(QuantityProblem::Number);
    }
    let mut amount = Decimal::new(&parts);
    let notation = match factor {
        Factor::Ten(exponent, notation) => {
            amount.shift(exponent);
            amount.round_up_to_nanos();
            notation
        }
        Factor::Two(exponent) => {
            amount.double(exponent);
            amount.round_up_to_nanos();
            amount.cap_at_max();
            if amount.is_below_one() { Notation::DecimalSi } else { Notation::BinarySi }
        }
    };
    Ok(Quantity::long(&amount, parts.negative, notation))
}

/// The 64-bit parser. It accepts at most 18 digits, nothing finer than 1n, and binary suffixes only on small integers.
fn parse_short(parts: &ParsedText<'_>, factor: Factor) -> Option<Quantity> {
    let digits = parts.whole.len().max(1) + parts.fraction.len();
    if digits > SAFE_DIGITS {
        return None;
    }
    let number =
        parts.whole.iter().chain(parts.fraction).fold(0, |n: i64, digit| n * 10 + i64::from(digit - b'0'));
    let number = if parts.negative { -number } else { number };
    match factor {
        Factor::Ten(exponent, notation) => {
            let exponent = exponent.wrapping_sub(i32::try_from(parts.fraction.len()).ok()?);
            (exponent >= NANO).then(|| Quantity::short(number, exponent, notation))
        }
        Factor::Two(exponent) => {
            // As in the API: 14 digits, of which every factor of 1024 takes three.
            let room = 14 - 3 * i64::from(exponent / 10);
            if !parts.fraction.is_empty() || i64::try_from(digits).ok()? > room {
                return None;
            }
            Some(Quantity::short(number.checked_mul(1 << exponent)?, 0, Notation::BinarySi))
        }
    }
}

/// Returns `number * 10^up`, rounded away from zero. On overflow, the result is that of the 64-bit parser: a wrapped
/// number if `up` is 1, 2, 3, 6 or 9, and otherwise zero.
fn scale_i64(number: i64, up: i64) -> i64 {
    if up < 0 {
        return match power_of_ten(-up) {
            Some(divisor) => number / divisor + (number % divisor).signum(),
            None => number.signum(),
        };
    }
    match power_of_ten(up) {
        Some(factor) => number.checked_mul(factor).unwrap_or(match up {
            1 | 2 | 3 | 6 | 9 => number.wrapping_mul(factor),
            _ => 0,
        }),
        None => 0,
    }
}

fn power_of_ten(exponent: i64) -> Option<i64> {
    10i64.checked_pow(u32::try_from(exponent).ok()?)
}

fn scale_i128(number: i128, up: i64) -> i128 {
    let factor = u32::try_from(up).ok().and_then(|up| 10i128.checked_pow(up));
    match factor.and_then(|factor| number.checked_mul(factor)) {
        Some(scaled) => scaled,
        None => i128::MAX * number.signum(),
    }
}

/// A decimal of any length, without a sign.
struct Decimal {
    /// Most significant first.
    digits: Vec<u8>,
    /// Number of digits after the point.
    fraction: usize,
}

impl Decimal {
    fn new(parts: &ParsedText<'_>) -> Self {
        let digits = parts.whole.iter().chain(parts.fraction).map(|digit| digit - b'0').collect();
        Self { digits, fraction: parts.fraction.len() }
    }

    /// Moves the decimal point. Huge exponents are clamped, which makes no observable difference.
    fn shift(&mut self, exponent: i32) {
        let bound = EXPONENT_BOUND + i32::try_from(self.digits.len()).unwrap_or(i32::MAX / 2);
        let exponent = exponent.clamp(-bound, bound);
        let steps = exponent.unsigned_abs() as usize;
        if exponent < 0 {
            self.fraction += steps;
        } else {
            let inside = steps.min(self.fraction);
            self.fraction -= inside;
            self.digits.resize(self.digits.len() + steps - inside, 0);
        }
    }

    /// Multiplies by `2^times`.
    fn double(&mut self, times: u32) {
        let mut carry = 0u128;
        for digit in self.digits.iter_mut().rev() {
            let product = (u128::from(*digit) << times) + carry;
            *digit = (product % 10) as u8;
            carry = product / 10;
        }
        while carry > 0 {
            self.digits.insert(0, (carry % 10) as u8);
            carry /= 10;
        }
    }

    /// Rounds up, or pads with zeros, to exactly nine digits after the point.
    fn round_up_to_nanos(&mut self) {
        let wanted = NANO.unsigned_abs() as usize;
        if self.digits.len() < self.fraction {
            let missing = self.fraction - self.digits.len();
            self.digits.splice(0..0, std::iter::repeat_n(0, missing));
        }
        if self.fraction <= wanted {
            self.digits.resize(self.digits.len() + wanted - self.fraction, 0);
        } else {
            let lost = self.digits.split_off(self.digits.len() - (self.fraction - wanted));
            if lost.iter().any(|digit| *digit != 0) {
                self.add_one();
            }
        }
        self.fraction = wanted;
    }

    fn add_one(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// The amount in nanos, at most the largest `i128`. Call this after rounding.
    fn saturating_nanos(&self) -> i128 {
        let finer = i64::from(-NANO) - i64::try_from(self.fraction).unwrap_or(i64::MAX);
        self.digits
            .iter()
            .try_fold(0i128, |n, digit| n.checked_mul(10)?.checked_add(i128::from(*digit)))
            .map_or(i128::MAX, |number| scale_i128(number, finer))
    }

    fn cap_at_max(&mut self) {
        if self.saturating_nanos() > i128::from(i64::MAX) * NANOS_PER_UNIT {
            self.digits = i64::MAX.to_string().bytes().map(|digit| digit - b'0').collect();
            self.fraction = 0;
        }
    }

    fn is_below_one(&self) -> bool {
        let nanos = self.saturating_nanos();
        0 < nanos && nanos < NANOS_PER_UNIT
    }

    /// Low 64 bits of the amount times `10^up` as an integer. Call this after rounding.
    ///
    /// Positive amounts are rounded up. Negative amounts are treated as in the API: the digits are cut to 64 bits, then
    /// divided. The quotient is rounded toward zero, and one is added if there is a remainder.
    fn integer(&self, up: usize, negative: bool) -> i64 {
        let sign = if negative { -1 } else { 1 };
        let lost = match self.fraction.checked_sub(up) {
            Some(lost) => lost.min(self.digits.len()),
            None => {
                let factor = power_of_ten((up - self.fraction) as i64).unwrap_or(0);
                return low_bits(&self.digits).wrapping_mul(sign).wrapping_mul(factor);
            }
        };
        if negative {
            let divisor = power_of_ten(lost as i64).unwrap_or(i64::MAX);
            let number = low_bits(&self.digits).wrapping_neg();
            return number / divisor + i64::from(number % divisor != 0);
        }
        let (kept, lost) = self.digits.split_at(self.digits.len() - lost);
        low_bits(kept).wrapping_add(i64::from(lost.iter().any(|digit| *digit != 0)))
    }
}

/// The low 64 bits of a number of any length.
fn low_bits(digits: &[u8]) -> i64 {
    digits.iter().fold(0i64, |n, digit| n.wrapping_mul(10).wrapping_add(i64::from(*digit)))
}

impl fmt::Display for Quantity {
    /// Writes the canonical form: the largest suffix for which the number has no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.pad("0");
        }
        let units = self.nanos / NANOS_PER_UNIT;
        if self.notation == Notation::BinarySi && self.nanos % NANOS_PER_UNIT == 0 && units.abs() >= 1024 {
            return f.pad(&binary(units));
        }
        f.pad(&decimal(self.nanos, self.notation))
    }
}

fn binary(units: i128) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut number, mut at) = (units, 0);
    while number % 1024 == 0 && at + 1 < SUFFIXES.len() {
        number /= 1024;
        at += 1;
    }
    format!("{number}{}", SUFFIXES[at])
}

fn decimal(nanos: i128, notation: Notation) -> String {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let (mut number, mut at) = (nanos, 0);
    while number % 1000 == 0 && (notation == Notation::DecimalExponent || at + 1 < SUFFIXES.len()) {
        number /= 1000;
        at += 1;
    }
    match notation {
        Notation::DecimalExponent if at == 3 => number.to_string(),
        Notation::DecimalExponent => format!("{number}e{}", at as i32 * 3 + NANO),
        _ => format!("{number}{}", SUFFIXES[at]),
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Accepts strings and numbers, as in the API. Whitespace around the text is ignored.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    /// Null is decoded as a quantity of zero.
    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}

#[cfg(test)]
#[path = "quantity/vectors.rs"]
mod vectors;
