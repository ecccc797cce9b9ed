//! HTTP responses.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};

use crate::{kinds::Kind, request::Request, status::Failure};

/// Outcome of a request.
pub(crate) type Answer = Result<Response<Body>, Failure>;

/// Approximate size of each piece of a response, in bytes.
pub(crate) const PIECE: usize = 64 << 10;

/// Returns a JSON response.
pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    typed(code, "application/json", body)
}

pub(crate) fn value(code: u16, value: &Value) -> Response<Body> {
    json(code, value.to_string())
}

pub(crate) fn typed(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    respond(code, content_type, Body::from(body.into()))
}

fn respond(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds warnings to the response: those about deprecated kinds, and those that were collected in the request.
pub(crate) fn with_warnings(mut response: Response<Body>, kind: &Kind, request: &Request) -> Response<Body> {
    const ENDPOINTS: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    if kind.group.is_empty() && kind.kind == "Endpoints" {
        request.warn(ENDPOINTS);
    }
    if let Some(custom) = kind.custom.as_ref().filter(|custom| !custom.warning.is_empty()) {
        request.warn(&custom.warning);
    }
    for warning in request.warnings() {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// Returns the response for a failure.
pub(crate) fn failure(failure: &Failure) -> Response<Body> {
    if failure.reason.is_empty() && failure.code == 404 {
        return typed(404, "text/plain; charset=utf-8", format!("{}\n", failure.message));
    }
    let mut response = value(failure.code, &failure.to_value());
    if let Some(seconds) = failure.details.get("retryAfterSeconds").and_then(Value::as_u64) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns a list of encoded items, which are copied in pieces as the list is sent. Items of built-in kinds are sent
/// without `kind` and `apiVersion`.
pub(crate) fn list(kind: &Kind, metadata: &Value, items: Vec<Bytes>) -> Response<Body> {
    let version = kind.api_version();
    let head = json!({"kind": kind.list_kind, "apiVersion": version, "metadata": metadata}).to_string();
    let named = match kind.is_custom() {
        true => String::new(),
        false => format!("{{\"kind\":\"{}\",\"apiVersion\":\"{version}\",", kind.kind),
    };
    let mut first = head.into_bytes();
    first.pop();
    first.extend_from_slice(b",\"items\":[");
    let total: usize = items.iter().map(Bytes::len).sum();
    let mut items = items.into_iter();
    let mut piece = Some(first);
    let mut is_first = true;
    let mut next = move || {
        let mut buffer = piece.take()?;
        while buffer.len() < PIECE {
            match items.next() {
                Some(item) => {
                    if !is_first {
                        buffer.push(b',');
                    }
                    is_first = false;
                    match item.strip_prefix(named.as_bytes()).filter(|_| !named.is_empty()) {
                        Some(rest) => {
                            buffer.push(b'{');
                            buffer.extend_from_slice(rest);
                        }
                        None => buffer.extend_from_slice(&item),
                    }
                }
                None => {
                    buffer.extend_from_slice(b"]}");
                    return Some(Bytes::from(buffer));
                }
            }
        }
        piece = Some(Vec::with_capacity(PIECE + 4096));
        Some(Bytes::from(buffer))
    };
    if total < PIECE / 2 {
        return json(200, next().unwrap_or_default());
    }
    let pieces = stream::iter(std::iter::from_fn(next).map(Ok::<_, Infallible>));
    respond(200, "application/json", Body::from_stream(pieces))
}

/// Returns a stream of events.
pub(crate) fn events(
    pieces: impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response<Body> {
    respond(200, "application/json", Body::from_stream(pieces))
}
