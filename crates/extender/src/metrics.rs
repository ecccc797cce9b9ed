//! Metrics: requests by verb and status code, request durations and failures.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder, core::Collector,
};

use crate::extender::Verb;

/// Histogram buckets in seconds. The schedulers' default time limit is 5 s.
const BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// The metrics of an extender. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    errors: IntCounterVec,
    durations: HistogramVec,
    pub(crate) in_flight: IntGauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let requests = Opts::new("extender_requests_total", "Requests by verb and HTTP status.");
        let errors = Opts::new(
            "extender_request_errors_total",
            "Failed requests by verb, including those answered with an Error.",
        );
        let durations = HistogramOpts::new(
            "extender_request_duration_seconds",
            "Time from the headers of a request to its answer, by verb.",
        );
        let in_flight = "Requests that are being read or answered.";
        Self {
            requests: registered(&registry, IntCounterVec::new(requests, &["verb", "code"])),
            errors: registered(&registry, IntCounterVec::new(errors, &["verb"])),
            durations: registered(&registry, HistogramVec::new(durations.buckets(BUCKETS.into()), &["verb"])),
            in_flight: registered(&registry, IntGauge::new("extender_requests_in_flight", in_flight)),
            registry,
        }
    }
}

/// Registers a metric. Cannot fail: all names are defined in this file, valid and distinct.
fn registered<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    let collector = made.expect("names of metrics and labels are valid");
    registry.register(Box::new(collector.clone())).expect("names of metrics differ");
    collector
}

impl Metrics {
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Creates the time series of a verb, so that they are on the page before the first request. Status codes other
    /// than 200 are added as they occur.
    pub(crate) fn prepare(&self, verb: Verb) {
        self.requests.with_label_values(&[verb.as_str(), "200"]);
        self.errors.with_label_values(&[verb.as_str()]);
        self.durations.with_label_values(&[verb.as_str()]);
    }

    pub(crate) fn answered(&self, verb: Verb, code: u16, failed: bool, took: Duration) {
        self.requests.with_label_values(&[verb.as_str(), &code.to_string()]).inc();
        self.durations.with_label_values(&[verb.as_str()]).observe(took.as_secs_f64());
        if failed {
            self.errors.with_label_values(&[verb.as_str()]).inc();
        }
    }

    /// Returns the metrics in the Prometheus text format.
    pub(crate) fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
