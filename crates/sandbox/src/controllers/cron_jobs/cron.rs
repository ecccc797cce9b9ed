//! Cron expressions as the CronJob controller reads them: five fields, or a name such as `@hourly`.
//!
//! When clocks are set forward, the skipped times match no expression. When clocks are set back, the repeated times
//! match twice.

use jiff::{SignedDuration, Zoned};

/// Maximum number of years to search. An expression that matches no time in this period is treated as never matching,
/// so that even the search for February 31 ends.
const YEARS: i16 = 5;

/// A cron expression.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// One field of an expression: the values that it matches.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// One bit per value.
    values: u64,
    /// True for `*` and `?`, unless there is a step greater than 1.
    any: bool,
}

/// Values that may appear in a field.
struct Bounds {
    min: u32,
    max: u32,
    /// Names of the values, starting with the lowest.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds = Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// The reason why the controller would not accept the expression.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            name if name.starts_with('@') => return Err(format!("unrecognized descriptor: {name}")),
            fields => fields,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        Ok(Self {
            minutes: Field::parse(minutes, &MINUTES)?,
            hours: Field::parse(hours, &HOURS)?,
            days: Field::parse(days, &DAYS)?,
            months: Field::parse(months, &MONTHS)?,
            weekdays: Field::parse(weekdays, &WEEKDAYS)?,
        })
    }

    /// Returns the first matching time after `after`, if there is one within five years.
    pub(super) fn first_after(&self, after: &Zoned) -> Option<Zoned> {
        let last_year = after.year().checked_add(YEARS)?;
        let mut at = later(&start_of_minute(after)?, 1)?;
        while at.year() <= last_year {
            at = if !self.has_day(&at) {
                at.tomorrow().and_then(|day| day.start_of_day()).ok()?
            } else if !self.hours.has(at.hour()) {
                later(&at, 60 - i64::from(at.minute()))?
            } else if !self.minutes.has(at.minute()) {
                later(&at, 1)?
            } else {
                return Some(at);
            };
        }
        None
    }

    /// Returns the last matching time that is not after `until`, if there is one within five years.
    pub(super) fn last_until(&self, until: &Zoned) -> Option<Zoned> {
        let first_year = until.year().checked_sub(YEARS)?;
        let mut at = start_of_minute(until)?;
        while at.year() >= first_year {
            at = if !self.has_day(&at) {
                later(&at.start_of_day().ok()?, -1)?
            } else if !self.hours.has(at.hour()) {
                later(&at, -1 - i64::from(at.minute()))?
            } else if !self.minutes.has(at.minute()) {
                later(&at, -1)?
            } else {
                return Some(at);
            };
        }
        None
    }

    /// Returns true if the month and the day match. If the expression restricts both the day of the month and the day
    /// of the week, a match of either is enough.
    fn has_day(&self, at: &Zoned) -> bool {
        let day = self.days.has(at.day());
        let weekday = self.weekdays.has(at.weekday().to_sunday_zero_offset());
        let either = !self.days.any && !self.weekdays.any;
        self.months.has(at.month()) && if either { day || weekday } else { day && weekday }
    }
}

impl Field {
    /// Parses a list of ranges.
    fn parse(list: &str, bounds: &Bounds) -> Result<Self, String> {
        let mut field = Self { values: 0, any: false };
        for range in list.split(',').filter(|range| !range.is_empty()) {
            let range = Self::parse_range(range, bounds)?;
            field = Self { values: field.values | range.values, any: field.any || range.any };
        }
        Ok(field)
    }

    /// Parses `*`, `?`, a value or `low-high`, each with or without `/step`.
    fn parse_range(text: &str, bounds: &Bounds) -> Result<Self, String> {
        let (range, step) = match text.split_once('/') {
            Some((_, step)) if step.contains('/') => return Err(format!("too many slashes: {text}")),
            Some((range, step)) => (range, Some(number(step)?)),
            None => (text, None),
        };
        let (low, high) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (bounds.min, bounds.max),
            Some((_, high)) if high.contains('-') => return Err(format!("too many hyphens: {text}")),
            Some((low, high)) => (bounds.value(low)?, bounds.value(high)?),
            None if step.is_some() => (bounds.value(range)?, bounds.max),
            None => (bounds.value(range)?, bounds.value(range)?),
        };
        let Bounds { min, max, .. } = *bounds;
        if low < min {
            return Err(format!("beginning of range ({low}) below minimum ({min}): {text}"));
        }
        if high > max {
            return Err(format!("end of range ({high}) above maximum ({max}): {text}"));
        }
        if low > high {
            return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
        }
        let step = match step.unwrap_or(1) {
            0 => return Err(format!("step of range should be a positive number: {text}")),
            step => step,
        };
        let values = (low..=high).step_by(step as usize).fold(0, |values, value| values | 1 << value);
        Ok(Self { values, any: (range == "*" || range == "?") && step == 1 })
    }

    fn has(self, value: i8) -> bool {
        self.values >> value & 1 == 1
    }
}

impl Bounds {
    fn value(&self, text: &str) -> Result<u32, String> {
        let is_name = |name: &&str| name.eq_ignore_ascii_case(text);
        match (self.min..).zip(self.names).find(|(_, name)| is_name(name)) {
            Some((value, _)) => Ok(value),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|error| format!("failed to parse int from {text}: {error}"))
}

fn start_of_minute(at: &Zoned) -> Option<Zoned> {
    let seconds = SignedDuration::from_secs(i64::from(at.second()));
    at.checked_sub(seconds + SignedDuration::from_nanos(i64::from(at.subsec_nanosecond()))).ok()
}

fn later(at: &Zoned, minutes: i64) -> Option<Zoned> {
    at.checked_add(SignedDuration::from_mins(minutes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Zoned {
        text.parse().unwrap()
    }

    #[test]
    fn the_next_and_the_last_time_are_found() {
        let now = "2026-11-21T10:07:30Z[UTC]"; // a Saturday
        for (cron, last, next) in [
            ("* * * * *", "2026-11-21T10:07", "2026-11-21T10:08"),
            ("7 10 * * *", "2026-11-21T10:07", "2026-11-22T10:07"),
            ("1-30/10,5 * * * *", "2026-11-21T10:05", "2026-11-21T10:11"),
            ("50/5 23 * * *", "2026-11-20T23:55", "2026-11-21T23:50"),
            ("0 0 31 * *", "2026-10-31T00:00", "2026-12-31T00:00"),
            ("0 0 29 feb ?", "2024-02-29T00:00", "2028-02-29T00:00"),
            ("0 0 13 * Fri", "2026-11-20T00:00", "2026-11-27T00:00"),
            ("0 0 */2 * 1", "2026-11-21T00:00", "2026-11-23T00:00"),
            ("@annually", "2026-01-01T00:00", "2027-01-01T00:00"),
            ("@weekly", "2026-11-15T00:00", "2026-11-22T00:00"),
        ] {
            let parsed = Cron::parse(cron).unwrap();
            let shown = |at: Option<Zoned>| at.unwrap().strftime("%Y-%m-%dT%H:%M").to_string();
            assert_eq!(shown(parsed.last_until(&at(now))), last, "{cron}");
            assert_eq!(shown(parsed.first_after(&at(now))), next, "{cron}");
        }
    }

    #[test]
    fn a_time_skipped_by_daylight_saving_does_not_occur_and_a_repeated_time_occurs_twice() {
        let cron = Cron::parse("30 2 * * *").unwrap();
        let next = |text: &str| cron.first_after(&at(text)).unwrap().to_string();
        let berlin = "2026-03-28T12:00:00+01:00[Europe/Berlin]";
        assert_eq!(next(berlin), "2026-03-30T02:30:00+02:00[Europe/Berlin]");
        let first = "2026-10-25T02:30:00+02:00[Europe/Berlin]";
        assert_eq!(next("2026-10-25T00:00:00+02:00[Europe/Berlin]"), first);
        assert_eq!(next(first), "2026-10-25T02:30:00+01:00[Europe/Berlin]");
    }

    #[test]
    fn the_search_for_a_date_that_does_not_exist_ends_after_five_years() {
        let cron = Cron::parse("59 23 31 2 *").unwrap();
        let now = at("2026-11-21T10:07:30Z[UTC]");
        assert_eq!((cron.first_after(&now), cron.last_until(&now)), (None, None));
    }

    #[test]
    fn expressions_that_the_controller_does_not_accept_are_errors() {
        for (cron, error) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
            ("@fortnightly", "unrecognized descriptor: @fortnightly"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("L * * * *", "failed to parse int from L: invalid digit found in string"),
        ] {
            assert_eq!(Cron::parse(cron).unwrap_err(), error, "{cron}");
        }
    }
}
