//! Where the time of single pods goes: OpenTelemetry traces, for those who want them.
//!
//! ```text
//! Scheduling attempt ── PreFilter, Filter, … ── a plugin at that point
//!         └───────────── Binding cycle ── PreBind, Bind, PostBind ── a plugin ── its requests
//! ```
//!
//! kube-scheduler has none, so they are off unless the environment asks for them, with OpenTelemetry's own variables: see
//! `docs/operating.md`. Whether an attempt is sampled is known when it begins; of one that is not, nothing is measured. Spans
//! go into a bounded queue that a thread of its own empties: when the collector is away or slow, spans are dropped and pods
//! are not.
//!
//! Without the feature `otlp` all this is empty.

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

/// What a span is about.
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "there are no spans to tell it"))]
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(&'static str, String)>,
    /// Whether somebody else is asked for something.
    pub(crate) is_request: bool,
}

impl About {
    pub(crate) fn work(name: &str, attributes: Vec<(&'static str, String)>) -> Self {
        Self { name: name.to_owned(), attributes, is_request: false }
    }
}

/// How what a span is about went.
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "there are no spans to tell it"))]
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) attributes: Vec<(&'static str, String)>,
    /// Why it failed.
    pub(crate) error: Option<String>,
}
