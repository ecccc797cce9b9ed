//! Points in time as plain values.

use std::{fmt, ops::Add, time::Duration};

use serde::{Deserialize, Serialize};

/// Nanoseconds since the Unix epoch. The core never reads a clock; the host passes the current time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses RFC 3339, the form of `metav1.Time` and `metav1.MicroTime`.
    ///
    /// # Errors
    /// An error if the text is invalid.
    pub fn parse(text: &str) -> Result<Self, jiff::Error> {
        let at: jiff::Timestamp = text.parse()?;
        Ok(Self(i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)))
    }

    /// Formats the time as `metav1.Time`: RFC 3339 in UTC with whole seconds.
    pub fn to_rfc3339(self) -> String {
        self.in_utc("%Y-%m-%dT%H:%M:%SZ")
    }

    /// Formats the time as `metav1.MicroTime`: RFC 3339 in UTC with six fractional digits.
    pub fn to_rfc3339_micro(self) -> String {
        self.in_utc("%Y-%m-%dT%H:%M:%S.%6fZ")
    }

    fn in_utc(self, format: &str) -> String {
        jiff::Timestamp::from_nanosecond(i128::from(self.0))
            .map(|at| at.strftime(format).to_string())
            .unwrap_or_default()
    }

    /// Rounds down to a whole second.
    pub fn truncate_to_second(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1_000_000_000))
    }

    /// Time elapsed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Creates a timestamp from whole seconds since the Unix epoch.
    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339_micro())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_and_printed_as_in_kubernetes() {
        let at = Timestamp::parse("2026-11-21T02:00:00.250000Z").unwrap();
        assert_eq!(at.to_rfc3339(), "2026-11-21T02:00:00Z");
        assert_eq!(at.to_rfc3339_micro(), "2026-11-21T02:00:00.250000Z");
        assert_eq!(at.truncate_to_second().0, at.0 - 250_000_000);
        assert_eq!((at + Duration::from_secs(1)).since(at), Duration::from_secs(1));
    }
}
