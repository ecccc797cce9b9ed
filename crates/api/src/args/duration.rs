//! Durations in Go's syntax: `1h2m3.5s`, `300ms`, `0`.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

/// A signed duration in nanoseconds, written in [Go's syntax](https://pkg.go.dev/time#ParseDuration)
/// (`metav1.Duration` on the wire).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoDuration {
    nanos: i64,
}

/// Error for an invalid duration, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// Not a number with a unit, or out of range (about 292 years).
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A number with a unit that does not exist.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const SECOND: i64 = 1_000_000_000;
/// Maximum number of fractional digits that are parsed; further digits are ignored.
const MAX_FRACTION_DIGITS: usize = 18;

impl GoDuration {
    /// Creates a duration from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// Creates a duration from whole seconds, capped at the longest duration.
    pub const fn from_secs(seconds: i64) -> Self {
        Self { nanos: seconds.saturating_mul(SECOND) }
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// Converts to a standard duration; a negative duration becomes zero.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => i128::from(SECOND),
        "m" => 60 * i128::from(SECOND),
        "h" => 3600 * i128::from(SECOND),
        _ => return None,
    })
}

/// Splits `rest` after the leading characters for which `belongs` is true.
fn take_while(rest: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    rest.split_at(rest.find(|c| !belongs(c)).unwrap_or(rest.len()))
}

/// Parses one number with its unit. Returns nanoseconds and the rest of the text.
fn leading_term<'a>(rest: &'a str, text: &str) -> Result<(i128, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (whole, rest) = take_while(rest, |c| c.is_ascii_digit());
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => take_while(rest, |c| c.is_ascii_digit()),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let (unit, rest) = take_while(rest, |c| c != '.' && !c.is_ascii_digit());
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let scale = unit_nanos(unit)
        .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
    let parts: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| invalid())? };
    let below_one = parts * scale / 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    Ok((i128::from(whole) * scale + below_one, rest))
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(DurationError::Invalid(text.to_owned()));
        }
        let mut total = 0_i128;
        while !rest.is_empty() {
            let (nanos, after) = leading_term(rest, text)?;
            total += nanos;
            rest = after;
        }
        let signed = if negative { -total } else { total };
        let nanos = i64::try_from(signed).map_err(|_| DurationError::Invalid(text.to_owned()))?;
        Ok(Self { nanos })
    }
}

/// Formats `nanos` in units of `scale`, with as many decimals as needed.
fn decimal(nanos: u64, scale: u64) -> String {
    let digits = scale.ilog10() as usize;
    let (whole, below_one) = (nanos / scale, nanos % scale);
    if below_one == 0 {
        return whole.to_string();
    }
    format!("{whole}.{below_one:0digits$}").trim_end_matches('0').to_owned()
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = SECOND.unsigned_abs();
        let nanos = self.nanos.unsigned_abs();
        let sign = if self.nanos < 0 { "-" } else { "" };
        let text = match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", decimal(nanos, 1_000)),
            1_000_000..1_000_000_000 => format!("{}ms", decimal(nanos, 1_000_000)),
            _ => {
                let minutes = nanos / (60 * second);
                let seconds = decimal(nanos % (60 * second), second);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => format!("{seconds}s"),
                    (0, minutes) => format!("{minutes}m{seconds}s"),
                    (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
                }
            }
        };
        f.pad(&format!("{sign}{text}"))
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration in Go's syntax: 1h2m3.5s, 300ms, 0.",
            "type": "string",
            "pattern": "^[-+]?(0|([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$",
        })
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_printed_as_in_go() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("15s", 15 * SECOND, "15s"),
            ("1h2m3.5s", 3723 * SECOND + SECOND / 2, "1h2m3.5s"),
            ("300ms", 300_000_000, "300ms"),
            ("+1.5h", 5400 * SECOND, "1h30m0s"),
            ("-1m", -60 * SECOND, "-1m0s"),
            (".5s", SECOND / 2, "500ms"),
            ("5.s", 5 * SECOND, "5s"),
            ("1us", 1_000, "1µs"),
            ("1500ns", 1_500, "1.5µs"),
            ("7µs7μs", 14_000, "14µs"),
            ("0.000000001s", 1, "1ns"),
            ("0.00000000000000000000000000001s", 0, "0s"),
            ("1h", 3600 * SECOND, "1h0m0s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let duration: GoDuration = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((duration.nanos(), duration.to_string().as_str()), (nanos, written), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_the_messages_of_go() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".", r#"time: invalid duration ".""#),
            ("3", r#"time: missing unit in duration "3""#),
            ("3 s", r#"time: unknown unit " s" in duration "3 s""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1é", r#"time: unknown unit "é" in duration "1é""#),
            ("9999999999999999999s", r#"time: invalid duration "9999999999999999999s""#),
            ("2562048h", r#"time: invalid duration "2562048h""#),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), message);
        }
    }
}
