//! OpenTelemetry traces of individual pods.
//!
//! ```text
//! Scheduling attempt ── PreFilter, Filter, … ── a plugin at that point
//!         └───────────── Binding cycle ── PreBind, Bind, PostBind ── a plugin ── its requests
//! ```
//!
//! kube-scheduler does not trace pods, so tracing is off unless OpenTelemetry's environment variables enable it; see
//! `docs/operating.md`. The sampling decision is made when an attempt begins; for an attempt that is not sampled,
//! nothing is measured for tracing. Spans are put into a bounded queue and sent by a separate thread: when the
//! collector is slow or unreachable, spans are dropped, and scheduling is not affected.
//!
//! Without the `otlp` feature, this module records nothing; it only warns if an environment variable would have enabled
//! traces.

#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod sender;

#[cfg(not(feature = "otlp"))]
pub use off::Traces;
#[cfg(not(feature = "otlp"))]
pub(crate) use off::{AttemptSpan, request_tracer, traced, within};
#[cfg(feature = "otlp")]
pub use otlp::Traces;
#[cfg(feature = "otlp")]
pub(crate) use otlp::{AttemptSpan, request_tracer, traced, within};

/// Environment variables that set the endpoint; setting either of them enables spans, unless another variable disables
/// them.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Name and attributes of a span.
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "there are no spans"))]
#[derive(Debug)]
pub(crate) struct SpanInfo {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(&'static str, String)>,
    /// True for a request to another process.
    pub(crate) is_request: bool,
}

impl SpanInfo {
    pub(crate) fn work(name: &str, attributes: Vec<(&'static str, String)>) -> Self {
        Self { name: name.to_owned(), attributes, is_request: false }
    }
}

/// Outcome of a span.
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "there are no spans"))]
#[derive(Debug, Default)]
pub(crate) struct SpanEnd {
    pub(crate) attributes: Vec<(&'static str, String)>,
    /// The error, if the work failed.
    pub(crate) error: Option<String>,
}
