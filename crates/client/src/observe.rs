//! Hooks for metrics and traces.

use std::{fmt, time::Duration};

use http::{Method, StatusCode};

use crate::error::ApiError;

/// Receives measurements of requests.
pub trait RequestMeter: fmt::Debug + Send + Sync {
    /// Records the time that a request waited for the rate limiter.
    fn waited(&self, method: &Method, waited: Duration);

    /// Records the status code of a response; `None` if there was no response.
    fn answered(&self, method: &Method, code: Option<StatusCode>);

    /// Records the end of a request that is not a stream: its duration and the sizes of both bodies in bytes.
    /// `received` is `None` if the request failed.
    fn ended(&self, method: &Method, took: Duration, sent: usize, received: Option<usize>);
}

/// Creates spans for requests.
pub trait RequestTracer: fmt::Debug + Send + Sync {
    /// Begins the span of a request; `None` if the current task is not traced. `path` has no query.
    fn begin(&self, method: &Method, path: &str) -> Option<Box<dyn RequestSpan>>;
}

/// The span of one request. Dropping the span also ends it.
pub trait RequestSpan: Send {
    /// Returns the value of the `traceparent` header (W3C Trace Context).
    fn traceparent(&self) -> String;

    /// Ends the span with the outcome of the request.
    fn end(self: Box<Self>, error: Option<&ApiError>);
}
