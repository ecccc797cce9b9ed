//! Write errors, summarized so that a failing server does not fill the log.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use tokio::time::Instant;

use harbormaster_client::ApiError;

/// Minimum interval between log lines about failures.
const PERIOD: Duration = Duration::from_secs(30);

/// Kinds of failure to write an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// The write failed and will be retried.
    Failed,
    /// The event was dropped because the backlog was full.
    Dropped,
    /// The API server rejected the event.
    Rejected,
    /// The write has failed too often or for too long.
    GivenUp,
}

/// Failures that have not been logged yet.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sums: BTreeMap<Trouble, Sum>,
    /// Time of the last log lines.
    logged: Option<Instant>,
}

/// Failures of one kind since the kind was last logged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    by_reason: BTreeMap<&'static str, usize>,
    last_error: String,
}

impl Tally {
    pub(super) fn note(&mut self, trouble: Trouble, reason: &'static str, error: Option<&ApiError>) {
        let sum = self.sums.entry(trouble).or_default();
        *sum.by_reason.entry(reason).or_default() += 1;
        if let Some(error) = error {
            sum.last_error = error.to_string();
        }
    }

    /// Returns the time of the next log lines, if there are failures to log. A failure is logged immediately if nothing
    /// has been logged for a while.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let after_the_last = self.logged.map_or(now, |logged| now.max(logged + PERIOD));
        (!self.sums.is_empty()).then_some(after_the_last)
    }

    /// Returns the failures to log now; empty before the next log lines are due.
    pub(super) fn take_due(&mut self, now: Instant) -> BTreeMap<Trouble, Sum> {
        if self.due(now).is_none_or(|due| due > now) {
            return BTreeMap::new();
        }
        self.logged = Some(now);
        self.take()
    }

    /// Returns all failures that have not been logged, due or not.
    pub(super) fn take(&mut self) -> BTreeMap<Trouble, Sum> {
        std::mem::take(&mut self.sums)
    }
}

/// Writes a log line for each kind of failure.
pub(super) fn log(sums: &BTreeMap<Trouble, Sum>) {
    for (trouble, sum) in sums {
        let (events, reasons, err) = (sum.count(), sum.reasons(), &sum.last_error);
        match trouble {
            Trouble::Failed => {
                tracing::error!(events, reasons, err, "Unable to write event (may retry after sleeping)");
            }
            Trouble::Dropped => tracing::error!(
                events,
                reasons,
                "Unable to record event: too many queued events, dropped event"
            ),
            Trouble::Rejected => {
                tracing::error!(events, reasons, err, "Server rejected event (will not retry!)");
            }
            Trouble::GivenUp => {
                tracing::error!(events, reasons, err, "Unable to write event (retry limit exceeded!)");
            }
        }
    }
}

impl Sum {
    /// Returns the number of failures; an event that failed twice is counted twice.
    pub(super) fn count(&self) -> usize {
        self.by_reason.values().sum()
    }

    /// Returns the number of failures by reason, for example `FailedScheduling: 3, Scheduled: 40`.
    pub(super) fn reasons(&self) -> String {
        let mut text = String::new();
        for (reason, count) in &self.by_reason {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{reason}: {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_are_logged_immediately_and_then_once_per_period_with_counts() {
        let mut tally = Tally::default();
        let begun = Instant::now();
        let mut summaries = Vec::new();
        assert_eq!(tally.due(begun), None);
        for second in 0..75 {
            let now = begun + Duration::from_secs(second);
            for _ in 0..100 {
                tally.note(Trouble::Dropped, "Scheduled", None);
            }
            tally.note(Trouble::Dropped, "FailedScheduling", None);
            for sum in tally.take_due(now).values() {
                summaries.push((second, sum.count(), sum.reasons()));
            }
        }
        let line = |failed: usize, scheduled: usize| {
            (failed + scheduled, format!("FailedScheduling: {failed}, Scheduled: {scheduled}"))
        };
        let expected = [(0, line(1, 100)), (30, line(30, 3000)), (60, line(30, 3000))];
        assert_eq!(summaries, expected.map(|(second, (count, text))| (second, count, text)));
        assert_eq!(tally.take()[&Trouble::Dropped].count(), 14 * 101);
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_failure_is_logged_with_its_last_error() {
        let mut tally = Tally::default();
        for text in ["first", "last"] {
            tally.note(Trouble::Failed, "Scheduled", Some(&ApiError::Unreachable(text.to_owned())));
        }
        tally.note(Trouble::Rejected, "Scheduled", Some(&ApiError::Unreachable("no".to_owned())));
        let due = tally.take_due(Instant::now());
        let errors: Vec<_> = due.values().map(|sum| (sum.count(), sum.last_error.as_str())).collect();
        assert_eq!(errors, [(2, "last"), (1, "no")]);
    }
}
