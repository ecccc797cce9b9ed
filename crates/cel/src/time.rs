//! Times and durations.

use crate::number;

/// A point in time with the offset of the zone that it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Timestamp {
    /// Seconds since 1970.
    seconds: i64,
    nanos: u32,
    /// Seconds east of UTC.
    offset: i32,
}

/// A date and time of day in some zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: i64,
    /// 1 to 31.
    pub(crate) day: i64,
    /// 0 to 365.
    pub(crate) day_of_year: i64,
    /// Days since Sunday.
    pub(crate) weekday: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

/// Text of the error for times outside the years 1 to 9999.
pub(crate) const OUT_OF_RANGE: &str = "timestamp overflow";
/// Text of the error for durations that do not fit.
const OVERFLOW: &str = "integer overflow";
const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;
const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// Days until the calendar repeats.
const DAYS_IN_400_YEARS: i64 = 146_097;

impl Timestamp {
    pub(crate) fn of_unix(seconds: i64) -> Result<Self, &'static str> {
        Self::new(seconds, 0, 0)
    }

    fn new(seconds: i64, nanos: u32, offset: i32) -> Result<Self, &'static str> {
        match (FIRST_SECOND..=LAST_SECOND).contains(&seconds) {
            true => Ok(Self { seconds, nanos, offset }),
            false => Err(OUT_OF_RANGE),
        }
    }

    pub(crate) fn unix(&self) -> i64 {
        self.seconds
    }

    pub(crate) fn nanos(&self) -> u32 {
        self.nanos
    }

    /// Seconds east of UTC in the zone that the time was written in.
    fn own_offset(&self) -> i64 {
        self.offset.into()
    }

    /// The point in time, for comparisons.
    pub(crate) fn instant(&self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    /// Returns true if this is the beginning of the year 1.
    pub(crate) fn is_zero(&self) -> bool {
        self.instant() == (FIRST_SECOND, 0)
    }

    /// Parses a time such as `2006-01-02T15:04:05Z`. The outer `None` means that the text is not such a time.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        let mut reader = Reader { rest: text };
        let year = reader.digits(4)?;
        reader.expect("-")?;
        let month = reader.digits(2)?;
        reader.expect("-")?;
        let day = reader.digits(2)?;
        reader.expect("T")?;
        let hour = reader.digits(2).or_else(|| reader.digits(1))?;
        reader.expect(":")?;
        let minute = reader.digits(2)?;
        reader.expect(":")?;
        let second = reader.digits(2)?;
        let nanos = reader.fraction();
        let offset = reader.offset()?;
        let is_valid = (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60
            && reader.rest.is_empty();
        if !is_valid {
            return None;
        }
        let seconds = days_before(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
        Some(Self::new(seconds, nanos, offset as i32))
    }

    pub(crate) fn add(&self, duration: i64) -> Result<Self, &'static str> {
        let nanos = i64::from(self.nanos) + duration % SECOND;
        let seconds = self.seconds + duration / SECOND + nanos.div_euclid(SECOND);
        Self::new(seconds, nanos.rem_euclid(SECOND) as u32, self.offset)
    }

    pub(crate) fn subtract(&self, duration: i64) -> Result<Self, &'static str> {
        self.add(duration.checked_neg().ok_or(OVERFLOW)?)
    }

    /// Time since another point in time.
    pub(crate) fn since(&self, other: &Self) -> Result<i64, &'static str> {
        let seconds = self.seconds - other.seconds;
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        seconds.checked_mul(SECOND).and_then(|total| total.checked_add(nanos)).ok_or(OVERFLOW)
    }

    /// The date and time in a zone.
    pub(crate) fn civil(&self, offset: i64) -> Civil {
        let local = self.seconds.saturating_add(offset);
        let (days, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            day_of_year: days - days_before(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    /// Prints the time as it is written in expressions.
    pub(crate) fn print(&self) -> String {
        let Civil { year, month, day, hour, minute, second, .. } = self.civil(self.own_offset());
        let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        let zone = match self.offset {
            0 => "Z".to_owned(),
            offset => print_offset(offset, ":"),
        };
        format!("{date}{}{zone}", self.print_fraction())
    }

    fn print_fraction(&self) -> String {
        match self.nanos {
            0 => String::new(),
            nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
        }
    }

    /// Prints the time as Go's `%v` does.
    pub(crate) fn go_print(&self) -> String {
        let Civil { year, month, day, hour, minute, second, .. } = self.civil(self.own_offset());
        let date = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
        let offset = print_offset(self.offset, "");
        let zone = if self.offset == 0 { "UTC" } else { &offset };
        format!("{date}{} {offset} {zone}", self.print_fraction())
    }

    /// Seconds east of UTC in a zone. `zone` is a name such as `Europe/Berlin` or an offset such as `-08:00`.
    pub(crate) fn offset_in(&self, zone: &str) -> Result<i64, String> {
        let Some((hours, minutes)) = zone.split_once(':') else { return self.offset_in_named(zone) };
        let (hours, minutes) = (parse_int(hours)?, parse_int(minutes)?);
        let minutes = if zone.starts_with('-') { minutes.wrapping_neg() } else { minutes };
        Ok(hours.wrapping_mul(60).wrapping_add(minutes).wrapping_mul(60))
    }

    fn offset_in_named(&self, zone: &str) -> Result<i64, String> {
        if matches!(zone, "" | "UTC" | "Local") {
            return Ok(0);
        }
        if zone.contains("..") || zone.starts_with(['/', '\\']) {
            return Err("time: invalid location name".to_owned());
        }
        let unknown = || format!("unknown time zone {zone}");
        let found = jiff::tz::TimeZone::get(zone).map_err(|_| unknown())?;
        if found.iana_name() != Some(zone) {
            return Err(unknown());
        }
        // `jiff` excludes the last hours of the year 9999. The calendar repeats after 400 years.
        let at = jiff::Timestamp::from_second(self.seconds)
            .or_else(|_| jiff::Timestamp::from_second(self.seconds - DAYS_IN_400_YEARS * DAY))
            .map_err(|_| unknown())?;
        Ok(i64::from(found.to_offset(at).seconds()))
    }
}

/// Parses an integer as Go's `strconv.Atoi` does.
fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.Atoi: parsing {}: {why}", crate::printed::quoted(text))
    })
}

fn print_offset(offset: i32, separator: &str) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.unsigned_abs() / 60;
    format!("{sign}{:02}{separator}{:02}", minutes / 60, minutes % 60)
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn expect(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Reads a number with this many digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.rest.get(..count).filter(|it| it.bytes().all(|c| c.is_ascii_digit()))?;
        self.rest = &self.rest[count..];
        digits.parse().ok()
    }

    /// Reads a fraction of a second, if there is one. Digits after the ninth are ignored.
    fn fraction(&mut self) -> u32 {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let end = rest.bytes().position(|c| !c.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            return 0;
        }
        self.rest = &rest[end..];
        let nanos = format!("{:0<9}", &rest[..end.min(9)]);
        nanos.parse().unwrap_or(0)
    }

    fn offset(&mut self) -> Option<i64> {
        if self.expect("Z").is_some() {
            return Some(0);
        }
        let sign = if self.expect("-").is_some() { -1 } else { 1 };
        if sign == 1 {
            self.expect("+")?;
        }
        let hours = self.digits(2)?;
        self.expect(":")?;
        let minutes = self.digits(2)?;
        (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that a leap day is the last day of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_IN_400_YEARS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day from the days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_IN_400_YEARS);
    let day_of_era = days.rem_euclid(DAYS_IN_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Parses a duration such as `1h30m`, as Go does.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (whole, after) = leading_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => leading_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = unit_of(unit)?;
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut part = whole.checked_mul(unit).filter(|part| *part <= 1 << 63)?;
        part = part.checked_add(fraction_of(fraction, unit)).filter(|part| *part <= 1 << 63)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if is_negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

/// Returns a fraction of a unit, rounded as Go rounds it.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes() {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match next.filter(|next| *next <= i64::MAX as u64) {
            Some(next) => value = next,
            None => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|c| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_of(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Prints a duration in seconds, as CEL does.
pub(crate) fn print_duration(nanos: i64) -> String {
    format!("{}s", number::print_positional(in_units(nanos, SECOND)))
}

/// Converts nanoseconds to a larger unit, with the rounding of Go.
pub(crate) fn in_units(nanos: i64, unit: i64) -> f64 {
    (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64
}

/// Prints a duration as Go's `%v` does.
pub(crate) fn print_go_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let total = nanos.unsigned_abs();
    let fraction = |value: u64, digits: usize, unit: u64| {
        let text = format!("{}.{:0digits$}", value / unit, value % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match total {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{total}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(total, 3, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(total, 6, 1_000_000)),
        _ => {
            let minutes = total / 60_000_000_000;
            let seconds = fraction(total % 60_000_000_000, 9, 1_000_000_000);
            let hours = match minutes / 60 {
                0 => String::new(),
                hours => format!("{hours}h"),
            };
            let minutes = if minutes == 0 { String::new() } else { format!("{}m", minutes % 60) };
            format!("{sign}{hours}{minutes}{seconds}s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap().unwrap()
    }

    #[test]
    fn times_are_printed_in_the_zone_in_which_they_were_written() {
        for (text, printed) in [
            ("2024-02-29T23:59:59.120Z", "2024-02-29T23:59:59.12Z"),
            ("2024-01-01T5:00:00,5+02:00", "2024-01-01T05:00:00.5+02:00"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(time(text).print(), printed);
        }
        for text in ["2023-02-29T00:00:00Z", "2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        assert_eq!(Timestamp::parse("0000-01-01T00:00:00Z"), Some(Err(OUT_OF_RANGE)));
        assert_eq!(time("2024-02-29T12:00:00Z").civil(0).day_of_year, 59);
        assert_eq!(time("2024-02-29T12:00:00Z").civil(0).weekday, 4);
    }

    #[test]
    fn zones_have_names_or_offsets() {
        let summer = time("2024-07-01T00:00:00Z");
        assert_eq!(summer.offset_in("Europe/Berlin"), Ok(7200));
        assert_eq!(summer.offset_in("-08:30"), Ok(-8 * 3600 - 30 * 60));
        assert_eq!(time("9999-12-31T23:59:59Z").offset_in("Europe/Berlin"), Ok(3600));
        assert_eq!(time("0001-01-01T00:00:00Z").offset_in("Europe/Berlin"), Ok(3208));
        assert_eq!(summer.offset_in("europe/berlin").unwrap_err(), "unknown time zone europe/berlin");
        assert_eq!(summer.offset_in("x:0").unwrap_err(), "strconv.Atoi: parsing \"x\": invalid syntax");
    }

    #[test]
    fn durations_are_read_and_printed_as_in_go() {
        for (text, nanos, printed) in [
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("0", 0, "0s"),
            ("1µs2ns", 1_002, "1.002µs"),
            (".5ms", 500_000, "500µs"),
        ] {
            assert_eq!(parse_duration(text), Some(nanos), "{text}");
            assert_eq!(print_go_duration(nanos), printed);
        }
        for text in ["", "1", "s", "1d", "-", "9223372037s", "1.s2"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(print_duration(3_600_500_000_000), "3600.5s");
    }
}
