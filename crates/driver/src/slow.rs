//! The log line about a slow attempt, as kube-scheduler writes it with `k8s.io/utils/trace`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harbormaster_api::{Timestamp, args::GoDuration};
use harbormaster_framework::pod::PodInfo;
use harbormaster_metrics::AttemptTimes;

/// Minimum duration of an attempt that is logged, as in kube-scheduler.
const LONG: Duration = Duration::from_millis(100);

/// Returns true if the attempt is slow enough to be logged.
pub(crate) fn is_long(times: &AttemptTimes) -> bool {
    times.search >= LONG
}

/// Writes the log line. `number` identifies the attempt in each part of the line; `begun` is the start of the attempt.
pub(crate) fn log(pod: &PodInfo, times: &AttemptTimes, number: u32, begun: SystemTime) {
    tracing::debug!(v = 2, unstructured = true, "{}", text(pod, times, number, begun));
}

fn text(pod: &PodInfo, times: &AttemptTimes, number: u32, begun: SystemTime) -> String {
    let AttemptTimes { search, scoring, filtered, .. } = times;
    let begun = Timestamp::default() + begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    let head = format!("Trace[{number}]:");
    let mut text = format!(
        "{head} \"Scheduling\" namespace:{},name:{} ({}) (total time: {}ms):",
        pod.namespace,
        pod.name,
        date_and_time(begun),
        search.as_millis()
    );
    let scoring_took = scoring.unwrap_or_default();
    let mut step = |name: &str, took: Duration, ended: Timestamp| {
        let (took, ended) = (took.as_millis(), time(&ended.to_rfc3339_micro()).to_owned());
        text.push_str(&format!("\n{head} ---{name:?} {took}ms ({ended})"));
    };
    if *filtered {
        let took = search.saturating_sub(scoring_took);
        step("Computing predicates done", took, begun + took);
    }
    if scoring.is_some() {
        step("Prioritizing done", scoring_took, begun + *search);
    }
    let total = GoDuration::from_nanos(i64::try_from(search.as_nanos()).unwrap_or(i64::MAX));
    text.push_str(&format!("\n{head} [{total}] [{total}] END"));
    text
}

/// Formats a time in UTC, for example `22-Nov-2026 19:00:00.000`.
fn date_and_time(at: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = at.to_rfc3339_micro();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{}-{}-{} {}", part(8..10), month.unwrap_or(&"???"), part(0..4), time(&text))
}

/// Returns the time of day of an RFC 3339 timestamp, with milliseconds.
fn time(rfc3339: &str) -> &str {
    rfc3339.get(11..23).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Pod;

    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn lines(times: &AttemptTimes) -> String {
        let pod = PodInfo::standalone(Pod { namespace: "ns".into(), name: "p".into(), ..Pod::default() });
        text(&pod, times, 7, UNIX_EPOCH + Duration::from_millis(1_795_226_400_250))
    }

    #[test]
    fn a_slow_attempt_is_logged_with_its_steps() {
        let times = AttemptTimes {
            search: Duration::from_micros(150_500),
            scoring: Some(ms(30)),
            filtered: true,
            ..AttemptTimes::default()
        };
        assert_eq!(
            lines(&times),
            "Trace[7]: \"Scheduling\" namespace:ns,name:p (21-Nov-2026 02:00:00.250) (total time: 150ms):\n\
             Trace[7]: ---\"Computing predicates done\" 120ms (02:00:00.370)\n\
             Trace[7]: ---\"Prioritizing done\" 30ms (02:00:00.400)\n\
             Trace[7]: [150.5ms] [150.5ms] END"
        );
    }

    #[test]
    fn steps_that_were_not_reached_are_not_logged() {
        let failed = AttemptTimes { search: ms(100), ..AttemptTimes::default() };
        assert_eq!(lines(&failed).lines().count(), 2);
        let one_node = AttemptTimes { filtered: true, ..failed };
        let text = lines(&one_node);
        assert!(text.contains("---\"Computing predicates done\" 100ms") && !text.contains("Prioritizing"));
    }
}
