//! OpenTelemetry traces of individual pods.
//!
//! ```text
//! Scheduling attempt ── PreFilter, Filter, … ── a plugin at that point
//!         └───────────── Binding cycle ── PreBind, Bind, PostBind ── a plugin ── its requests
//! ```
//!
//! kube-scheduler has no traces of pods, so pod traces are off unless OpenTelemetry's environment variables enable
//! them; see `docs/operating.md`. The sampling decision is made when an attempt begins; nothing is measured for an
//! attempt that is not sampled. Spans are put into a bounded queue and sent by a separate thread: when the collector is
//! slow or unreachable, spans are dropped, and scheduling is not affected.
//!
//! Without the `otlp` feature, these functions do nothing, except that they warn about variables that would enable
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

/// Environment variables that set the endpoint; setting either of them enables spans.
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
