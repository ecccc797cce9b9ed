//! `/metrics/slis`: results of health checks.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// Counts results of health checks.
#[derive(Debug)]
pub(crate) struct Slis {
    /// Start time in seconds since 1970.
    started: f64,
    checks: Mutex<BTreeMap<(&'static str, &'static str), Tally>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    passing: bool,
    failed: u64,
    passed: u64,
}

impl Slis {
    pub(crate) fn new(started: SystemTime) -> Self {
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        // Rounded to hundredths of a second, the precision of the start time that kube-scheduler reads from the kernel.
        Self { started: (started.as_secs_f64() * 100.0).round() / 100.0, checks: Mutex::default() }
    }

    /// Records the result of a check of an endpoint (`healthz`, `livez` or `readyz`).
    pub(crate) fn observe(&self, name: &'static str, endpoint: &'static str, passed: bool) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = checks.entry((name, endpoint)).or_default();
        tally.passing = passed;
        *(if passed { &mut tally.passed } else { &mut tally.failed }) += 1;
    }

    pub(crate) fn reset(&self) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the page in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        // Writing to a string cannot fail.
        if !checks.is_empty() {
            text.push_str(
                "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
                 # TYPE kubernetes_healthcheck gauge\n",
            );
            for ((name, endpoint), tally) in &checks {
                let passing = u8::from(tally.passing);
                let _ =
                    writeln!(text, "kubernetes_healthcheck{{name=\"{name}\",type=\"{endpoint}\"}} {passing}");
            }
            text.push_str(
                "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n\
                 # TYPE kubernetes_healthchecks_total counter\n",
            );
            for (name, status, endpoint, count) in counts(&checks) {
                let count = go_float(count as f64);
                let _ = writeln!(
                    text,
                    "kubernetes_healthchecks_total{{name=\"{name}\",status=\"{status}\",type=\"{endpoint}\"}} {count}"
                );
            }
        }
        let _ = writeln!(
            text,
            "# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.\n\
             # TYPE process_start_time_seconds gauge\n\
             process_start_time_seconds {}",
            go_float(self.started)
        );
        text
    }
}

/// Returns the nonzero counts with their names, statuses and endpoints, sorted.
fn counts(
    checks: &BTreeMap<(&'static str, &'static str), Tally>,
) -> Vec<(&'static str, &'static str, &'static str, u64)> {
    let both = checks.iter().flat_map(|((name, endpoint), tally)| {
        [(*name, "error", *endpoint, tally.failed), (*name, "success", *endpoint, tally.passed)]
    });
    let mut counts: Vec<_> = both.filter(|(.., count)| *count > 0).collect();
    counts.sort_unstable();
    counts
}

/// Formats a finite number as the Prometheus library for Go does: with the fewest digits, and with an exponent if the
/// number is at least a million or below 0.0001.
fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (number, text) in [
            (0.0, "0"),
            (2.0, "2"),
            (0.5, "0.5"),
            (123_456.0, "123456"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (1_795_367_846.43, "1.79536784643e+09"),
            (0.000_015, "1.5e-05"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }

    #[test]
    fn checks_are_counted_by_name_and_endpoint() {
        let slis = Slis::new(UNIX_EPOCH + Duration::from_millis(1_795_367_846_431));
        let start = "# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.\n\
                     # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79536784643e+09\n";
        assert_eq!(slis.render(), start);
        slis.observe("ping", "livez", true);
        slis.observe("sched-handler-sync", "readyz", false);
        slis.observe("sched-handler-sync", "readyz", false);
        slis.observe("sched-handler-sync", "readyz", true);
        let expected = [
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
            "# TYPE kubernetes_healthcheck gauge",
            r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
            r#"kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1"#,
            "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
            "# TYPE kubernetes_healthchecks_total counter",
            r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1"#,
            r#"kubernetes_healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 2"#,
            r#"kubernetes_healthchecks_total{name="sched-handler-sync",status="success",type="readyz"} 1"#,
        ];
        assert_eq!(slis.render(), format!("{}\n{start}", expected.join("\n")));
        slis.reset();
        assert_eq!(slis.render(), start);
    }
}
