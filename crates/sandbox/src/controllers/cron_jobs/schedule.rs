//! Schedules of CronJobs.

use std::time::Duration;

use harbormaster_api::{Timestamp, args::GoDuration};
use jiff::{Zoned, tz::TimeZone};
use serde_json::Value;

use super::cron::Cron;
use crate::{events::Kind, fields::text};

/// Problem that keeps a CronJob from starting Jobs: the kind, reason and message of the event that reports it.
pub(super) type Complaint = (Kind, &'static str, String);

/// Meaning of `spec.schedule` and `spec.timeZone`.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    /// Five fields, or a name such as `@hourly`.
    Cron(Cron, TimeZone),
    /// `@every 90s`, counted from the last start.
    Every(Duration),
}

impl Schedule {
    pub(super) fn of(cron_job: &Value) -> Result<Self, Complaint> {
        let zone = match text(cron_job, "/spec/timeZone") {
            "" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|error| {
                (Kind::Warning, "UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"))
            })?,
        };
        let given = text(cron_job, "/spec/schedule");
        let unparseable = |error: &dyn std::fmt::Display| {
            (Kind::Warning, "UnparseableSchedule", format!("unparseable schedule: {given:?} : {error}"))
        };
        if let Some(every) = given.strip_prefix("@every ") {
            let every: GoDuration = every.trim().parse().map_err(|error| unparseable(&error))?;
            // Fractions of seconds are dropped, and the interval is at least one second.
            let seconds = every.to_std().as_secs().max(1);
            return Ok(Self::Every(Duration::from_secs(seconds)));
        }
        let cron = Cron::parse(given).map_err(|error| unparseable(&error))?;
        let schedule = Self::Cron(cron, zone);
        match schedule.next(Timestamp::default()) {
            Some(_) => Ok(schedule),
            // For example, there is no February 31.
            None => Err((
                Kind::Warning,
                "InvalidSchedule",
                format!("invalid schedule: {given} : there is no such time"),
            )),
        }
    }

    /// Returns the first scheduled time after `behind`.
    pub(super) fn next(&self, behind: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron, zone) => stamp(&cron.first_after(&zoned(behind, zone)?)?),
            Self::Every(every) => Some(behind.truncate_to_second() + *every),
        }
    }

    /// Returns the last scheduled time that is after `earliest` and not after `now`.
    pub(super) fn latest(&self, earliest: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let latest = match self {
            Self::Cron(cron, zone) => stamp(&cron.last_until(&zoned(now, zone)?)?),
            Self::Every(every) => {
                let earliest = earliest.truncate_to_second();
                let times = now.since(earliest).as_secs() / every.as_secs();
                Some(earliest + Duration::from_secs(times.saturating_mul(every.as_secs())))
            }
        };
        latest.filter(|latest| *latest > earliest && *latest <= now)
    }

    /// Formats a time in the time zone of the schedule.
    pub(super) fn shown(&self, at: Timestamp) -> String {
        let zone = match self {
            Self::Cron(_, zone) => zone.clone(),
            Self::Every(_) => TimeZone::UTC,
        };
        match zoned(at, &zone) {
            Some(at) if at.offset().is_zero() => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            Some(at) => at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            None => String::new(),
        }
    }
}

fn zoned(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    Some(jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok()?.to_zoned(zone.clone()))
}

fn stamp(at: &Zoned) -> Option<Timestamp> {
    Some(Timestamp::from_secs(at.timestamp().as_second()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schedule(schedule: &str, zone: Option<&str>) -> Result<Schedule, Complaint> {
        Schedule::of(&json!({"spec": {"schedule": schedule, "timeZone": zone}}))
    }

    #[test]
    fn schedules_are_parsed_as_in_kubernetes() {
        let now = Timestamp::parse("2026-11-21T10:07:30Z").unwrap();
        for (given, zone, latest, next) in [
            ("*/5 * * * *", None, "2026-11-21T10:05:00Z", "2026-11-21T10:10:00Z"),
            ("7/20 * * * *", None, "2026-11-21T10:07:00Z", "2026-11-21T10:27:00Z"),
            ("@hourly", None, "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"),
            ("@midnight", None, "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"),
            ("0 9-17 * * MON-FRI", None, "2026-11-20T17:00:00Z", "2026-11-23T09:00:00Z"),
            // If both the day of the month and the day of the week are given, a match of either is enough.
            ("0 0 1 * SUN", None, "2026-11-15T00:00:00Z", "2026-11-22T00:00:00Z"),
            ("0 12 * * *", Some("Europe/Berlin"), "2026-11-20T11:00:00Z", "2026-11-21T11:00:00Z"),
            ("@every 90s", None, "2026-11-21T10:07:30Z", "2026-11-21T10:09:00Z"),
        ] {
            let schedule = schedule(given, zone).unwrap();
            let earliest = Timestamp::parse("2026-11-01T00:00:00Z").unwrap();
            let shown = |at: Option<Timestamp>| at.map(Timestamp::to_rfc3339).unwrap_or_default();
            assert_eq!(shown(schedule.latest(earliest, now)), latest, "{given}");
            assert_eq!(shown(schedule.next(now)), next, "{given}");
            assert_eq!(schedule.latest(now, now), None, "{given}");
        }
    }

    #[test]
    fn unparseable_schedules_are_reported() {
        for (given, zone, reason) in [
            ("* * * *", None, "UnparseableSchedule"),
            ("* * * * * *", None, "UnparseableSchedule"),
            ("@fortnightly", None, "UnparseableSchedule"),
            ("@every now", None, "UnparseableSchedule"),
            ("59 23 31 2 *", None, "InvalidSchedule"),
            ("* * * * *", Some("Atlantis/Capital"), "UnknownTimeZone"),
        ] {
            assert_eq!(schedule(given, zone).unwrap_err().1, reason, "{given}");
        }
    }

    #[test]
    fn times_are_shown_in_their_zone() {
        let at = Timestamp::parse("2026-11-21T10:00:00Z").unwrap();
        assert_eq!(schedule("@hourly", None).unwrap().shown(at), "2026-11-21T10:00:00Z");
        let berlin = schedule("@hourly", Some("Europe/Berlin")).unwrap();
        assert_eq!(berlin.shown(at), "2026-11-21T11:00:00+01:00");
    }
}
