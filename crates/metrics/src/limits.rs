//! Metrics and label values that the configuration hides.
//!
//! Limits are applied when a page is written; counting is not affected. kube-scheduler applies them when it counts. If
//! several series of a gauge end up with the same labels, kube-scheduler therefore shows the last value, and this
//! module shows their sum.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{Counter, Gauge, Histogram, Metric, MetricFamily, MetricType};

/// Label value that replaces all values that are not allowed.
const UNEXPECTED: &str = "unexpected";

/// Allowed label values, keyed by metric and label.
pub type AllowedLabelValues = BTreeMap<(String, String), BTreeSet<String>>;

/// Disabled metrics and allowed label values. By default, only the metrics that the release hides are hidden.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    disabled: BTreeSet<String>,
    allowed: AllowedLabelValues,
    shows_hidden: bool,
}

impl Limits {
    /// Creates limits. Empty metric names are ignored.
    pub fn new(disabled: impl IntoIterator<Item = String>, allowed: AllowedLabelValues) -> Self {
        let disabled = disabled.into_iter().filter(|name| !name.is_empty()).collect();
        Self { disabled, allowed, shows_hidden: false }
    }

    /// Sets whether the metrics that the release hides are shown.
    #[must_use]
    pub fn with_hidden(self, shows_hidden: bool) -> Self {
        Self { shows_hidden, ..self }
    }

    /// Returns true if the metrics that the release hides are shown.
    pub(crate) fn shows_hidden(&self) -> bool {
        self.shows_hidden
    }

    /// Number of disabled metrics, including metrics that do not exist.
    pub(crate) fn disabled(&self) -> usize {
        self.disabled.len()
    }

    /// Removes disabled families and merges series whose label values are not allowed.
    pub(crate) fn apply(&self, mut families: Vec<MetricFamily>) -> Vec<MetricFamily> {
        families.retain(|family| !self.disabled.contains(family.name()));
        families.iter_mut().for_each(|family| self.restrict(family));
        families
    }

    fn restrict(&self, family: &mut MetricFamily) {
        let name = family.name().to_owned();
        if !self.allowed.keys().any(|(metric, _)| *metric == name) {
            return;
        }
        let kind = family.get_field_type();
        let mut merged: Vec<Metric> = Vec::new();
        for mut metric in std::mem::take(family.mut_metric()) {
            for pair in metric.mut_label() {
                let allowed = self.allowed.get(&(name.clone(), pair.name().to_owned()));
                if allowed.is_some_and(|allowed| !allowed.contains(pair.value())) {
                    pair.set_value(UNEXPECTED.to_owned());
                }
            }
            match merged.iter_mut().find(|other| other.get_label() == metric.get_label()) {
                Some(other) => add(kind, other, &metric),
                None => merged.push(metric),
            }
        }
        family.set_metric(merged);
    }
}

/// Adds `other` to `to`.
fn add(kind: MetricType, to: &mut Metric, other: &Metric) {
    match kind {
        MetricType::COUNTER => {
            let mut sum = Counter::default();
            sum.set_value(to.get_counter().get_value() + other.get_counter().get_value());
            to.set_counter(sum);
        }
        MetricType::HISTOGRAM => {
            let sum = merged_histogram(to.get_histogram(), other.get_histogram());
            to.set_histogram(sum);
        }
        _ => {
            let mut sum = Gauge::default();
            sum.set_value(to.get_gauge().get_value() + other.get_gauge().get_value());
            to.set_gauge(sum);
        }
    }
}

/// Adds two histograms, which have the same buckets because they belong to one family.
fn merged_histogram(one: &Histogram, other: &Histogram) -> Histogram {
    let mut sum = Histogram::default();
    sum.set_sample_count(one.get_sample_count() + other.get_sample_count());
    sum.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
    let mut buckets = one.get_bucket().to_vec();
    for (bucket, more) in buckets.iter_mut().zip(other.get_bucket()) {
        bucket.set_cumulative_count(bucket.cumulative_count() + more.cumulative_count());
    }
    sum.set_bucket(buckets);
    sum
}

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;
    use crate::encode;

    fn page(limits: &Limits) -> String {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("pods_total", "h"), &["result", "profile"]).unwrap();
        let opts = HistogramOpts::new("waits", "h").buckets(vec![1.0, 2.0]);
        let histogram = HistogramVec::new(opts, &["plugin"]).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        registry.register(Box::new(histogram.clone())).unwrap();
        for (result, times) in [("good", 1), ("bad", 2), ("worse", 4)] {
            counter.with_label_values(&[result, "a"]).inc_by(times);
        }
        for (plugin, seconds) in [("x", 0.5), ("y", 1.5), ("z", 9.0)] {
            histogram.with_label_values(&[plugin]).observe(seconds);
        }
        let page = encode::page(&limits.apply(registry.gather()));
        page.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    }

    fn allowed(metric: &str, label: &str, values: &[&str]) -> AllowedLabelValues {
        let values = values.iter().map(ToString::to_string).collect();
        [((metric.to_owned(), label.to_owned()), values)].into()
    }

    #[test]
    fn disabled_metrics_are_removed() {
        let limits = Limits::new(
            ["waits".to_owned(), String::new(), "nonsense".to_owned()],
            AllowedLabelValues::new(),
        );
        assert!(!page(&limits).contains("waits") && page(&limits).contains("pods_total"));
        assert_eq!(limits.disabled(), 2);
    }

    #[test]
    fn label_values_that_are_not_allowed_are_merged() {
        let limits = Limits::new([], allowed("pods_total", "result", &["good", "never"]));
        assert!(page(&limits).starts_with(
            "pods_total{profile=\"a\",result=\"unexpected\"} 6\npods_total{profile=\"a\",result=\"good\"} 1\n"
        ));
        let limits = Limits::new([], allowed("waits", "plugin", &["x"]));
        let page = page(&limits);
        for line in [
            "waits_bucket{plugin=\"unexpected\",le=\"1\"} 0\n",
            "waits_bucket{plugin=\"unexpected\",le=\"2\"} 1\n",
            "waits_bucket{plugin=\"unexpected\",le=\"+Inf\"} 2\n",
            "waits_sum{plugin=\"unexpected\"} 10.5\n",
            "waits_count{plugin=\"x\"} 1\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
    }
}
