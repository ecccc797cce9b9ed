//! The paths (one for each verb, `/healthz`, `/readyz` and `/metrics`), and the limits on requests.
//!
//! If the protocol has no field for an error, the error is returned as an HTTP status with the body `{"Error": "…"}`:
//! 400 (the request cannot be read), 404 (unknown path), 405 (wrong method), 413 (the request is too large), 500 (the
//! function failed or panicked), 503 (too many concurrent requests), 504 (the request took too long).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::Response,
    routing::{get, post},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinError},
    time::{Instant as Deadline, timeout_at},
};

use crate::{
    extender::{Extender, Outcome, Verb},
    metrics::Metrics,
    server::Limits,
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// Content type of the Prometheus text format.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// State shared by all requests.
#[derive(Debug)]
pub(crate) struct Shared {
    extender: Extender,
    limits: Limits,
    turns: Semaphore,
    ending: AtomicBool,
}

impl Shared {
    pub(crate) fn new(extender: Extender, limits: Limits) -> Arc<Self> {
        let turns = Semaphore::new(limits.requests);
        Arc::new(Self { extender, limits, turns, ending: AtomicBool::new(false) })
    }

    /// Makes `/readyz` fail from now on.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    fn metrics(&self) -> &Metrics {
        &self.extender.metrics
    }
}

/// Returns a router with all paths of an extender.
pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(async || page(StatusCode::OK, TEXT, "ok")))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics));
    for verb in shared.extender.handlers.keys().copied() {
        shared.metrics().prepare(verb);
        let answer = async move |State(shared): State<Arc<Shared>>, request: Request| {
            answer(&shared, verb, request).await
        };
        router = router.route(&shared.extender.path_of(verb), post(answer));
    }
    router.fallback(not_found).method_not_allowed_fallback(not_allowed).with_state(shared.clone())
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    if shared.ending.load(Ordering::Relaxed) {
        return page(StatusCode::SERVICE_UNAVAILABLE, TEXT, "ending");
    }
    match shared.extender.ready.as_ref().map_or(Ok(()), |check| check()) {
        Ok(()) => page(StatusCode::OK, TEXT, "ok"),
        Err(why) => page(StatusCode::SERVICE_UNAVAILABLE, TEXT, why),
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match shared.metrics().text() {
        Ok(text) => page(StatusCode::OK, METRICS, text),
        Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

async fn not_found(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let verbs: Vec<_> = shared.extender.handlers.keys().map(|verb| shared.extender.path_of(*verb)).collect();
    let path = request.uri().path();
    problem(StatusCode::NOT_FOUND, &format!("nothing is served at {path}; verbs are at {}", verbs.join(", ")))
}

async fn not_allowed(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    problem(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} {path}: use POST for verbs and GET for pages"))
}

/// Answers a request for a verb within the limits, and updates the metrics.
async fn answer(shared: &Shared, verb: Verb, request: Request) -> Response {
    let begun = Instant::now();
    shared.metrics().in_flight.inc();
    let _in_flight = OnDrop(|| shared.metrics().in_flight.dec());
    let (response, error) = match outcome(shared, verb, request).await {
        Ok(Outcome::Answer(text)) => (page(StatusCode::OK, JSON, text), None),
        Ok(Outcome::Failed(text, error)) => (page(StatusCode::OK, JSON, text), Some(error.to_string())),
        Ok(Outcome::Broken(error)) => refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        Ok(Outcome::Malformed(why)) => refused(StatusCode::BAD_REQUEST, why),
        Err((status, why)) => refused(status, why),
    };
    if let Some(error) = &error {
        tracing::warn!(%verb, code = response.status().as_u16(), error, "A request failed");
    }
    shared.metrics().answered(verb, response.status().as_u16(), error.is_some(), begun.elapsed());
    response
}

fn refused(status: StatusCode, why: String) -> (Response, Option<String>) {
    (problem(status, &why), Some(why))
}

/// Waits for a free slot, reads the request and calls the function, all within the time limit.
async fn outcome(shared: &Shared, verb: Verb, request: Request) -> Result<Outcome, (StatusCode, String)> {
    let Limits { request_timeout, requests, .. } = shared.limits;
    let deadline = Deadline::now() + request_timeout;
    let Ok(Ok(_turn)) = timeout_at(deadline, shared.turns.acquire()).await else {
        let why = format!("{requests} requests are already being processed");
        return Err((StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let too_late =
        |doing: &str| (StatusCode::GATEWAY_TIMEOUT, format!("{doing} took longer than {request_timeout:?}"));
    let body = timeout_at(deadline, body(shared, request)).await;
    let body = body.unwrap_or_else(|_| Err(too_late("reading the request")))?;
    let Some(handler) = shared.extender.handlers.get(&verb) else {
        return Err((StatusCode::NOT_FOUND, format!("{verb} is not served")));
    };
    // The extender's function runs in a separate task, so that a panic ends only this task.
    let task = tokio::spawn(handler(body));
    let _aborted = OnDrop({
        let task: AbortHandle = task.abort_handle();
        move || task.abort()
    });
    match timeout_at(deadline, task).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => {
            let why = format!("{verb} panicked: {}", panic_message(error));
            Err((StatusCode::INTERNAL_SERVER_ERROR, why))
        }
        Err(_) => Err(too_late(verb.as_str())),
    }
}

async fn body(shared: &Shared, request: Request) -> Result<Bytes, (StatusCode, String)> {
    let most = shared.limits.body_bytes;
    match Limited::new(request.into_body(), most).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request is larger than {most} bytes; nodeCacheCapable: true makes requests small"),
        )),
        Err(error) => Err((StatusCode::BAD_REQUEST, format!("the request ends early: {error}"))),
    }
}

fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the task was canceled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

fn problem(status: StatusCode, why: &str) -> Response {
    page(status, JSON, json!({"Error": why}).to_string())
}

fn page(status: StatusCode, kind: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Calls a function when dropped, including when the request is dropped because the client has disconnected.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

#[cfg(test)]
mod tests;
