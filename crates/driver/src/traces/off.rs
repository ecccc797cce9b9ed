//! No-op versions of the tracing types, for programs that are built without traces.

use std::{env, future::Future, sync::Arc, time::SystemTime};

use harbormaster_client::observe::RequestTracer;
use harbormaster_core::Attempted;
use harbormaster_framework::meter::Stamp;
use harbormaster_metrics::AttemptTimes;

use super::{ENDPOINTS, SpanEnd, SpanInfo};

/// Traces that do nothing.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

impl Traces {
    /// Returns traces that are off. Warns if an environment variable sets an endpoint.
    ///
    /// # Errors
    /// Never.
    pub fn from_environment() -> Result<Self, String> {
        if let Some(variable) =
            ENDPOINTS.into_iter().find(|name| env::var_os(name).is_some_and(|set| !set.is_empty()))
        {
            tracing::warn!(
                "{variable} is set, but no traces are sent: this program was built without the feature `otlp`"
            );
        }
        Ok(Self(()))
    }

    /// Does nothing.
    pub async fn stop(self) {}

    pub(crate) fn begin_attempt(&self) -> Option<AttemptSpan> {
        None
    }

    pub(crate) fn of(&self, _: &str) -> Option<Trace> {
        None
    }
}

/// A span. It has no values, because there are no spans.
pub(crate) enum AttemptSpan {}

impl AttemptSpan {
    pub(crate) fn end(self, _: &Attempted, _: Option<AttemptTimes>, _: impl FnOnce(Stamp) -> SystemTime) {}
}

/// A trace. It has no values, because there are no traces.
pub(crate) enum Trace {}

pub(crate) async fn within<T>(_: Option<Trace>, work: impl Future<Output = T>) -> T {
    work.await
}

pub(crate) async fn traced<T>(
    _: impl FnOnce() -> SpanInfo,
    work: impl Future<Output = T>,
    _: impl FnOnce(&T) -> SpanEnd,
) -> T {
    work.await
}

pub(crate) fn request_tracer() -> Option<Arc<dyn RequestTracer>> {
    None
}
