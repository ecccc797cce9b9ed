//! A fake API server for tests, which answers requests by calling a function.

#![allow(clippy::unwrap_used, reason = "used in tests only")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use tower::BoxError;

use crate::{
    body::RequestBody,
    client::{ApiClient, ResponseBody},
};

/// A request that a [`FakeServer`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Method, in uppercase.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// `Content-Type`; empty if absent.
    pub content_type: String,
    /// `Accept`; empty if absent.
    pub accept: String,
    /// Body.
    pub body: String,
}

impl RecordedRequest {
    /// Parses the body.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Answer = Box<dyn FnMut(&RecordedRequest) -> Result<Response<ResponseBody>, BoxError> + Send>;

/// An API server that records requests and answers them by calling a function.
#[derive(Clone)]
pub struct FakeServer {
    answer: Arc<Mutex<Answer>>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    is_ready: Arc<Mutex<Box<dyn FnMut() -> bool + Send>>>,
}

impl FakeServer {
    /// Returns a server that answers requests with `answer`. An error from `answer` breaks the connection.
    pub fn new(
        answer: impl FnMut(&RecordedRequest) -> Result<Response<ResponseBody>, BoxError> + Send + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(Mutex::new(Box::new(answer))),
            requests: Arc::default(),
            is_ready: Arc::new(Mutex::new(Box::new(|| false))),
        }
    }

    /// Returns the same server, which refuses connections that ask for its readiness while `is_ready` returns false.
    /// Other servers always refuse them. These requests are not recorded.
    #[must_use]
    pub fn ready_if(self, is_ready: impl FnMut() -> bool + Send + 'static) -> Self {
        Self { is_ready: Arc::new(Mutex::new(Box::new(is_ready))), ..self }
    }

    /// Returns a server that answers every request and never breaks a connection.
    pub fn always(
        mut answer: impl FnMut(&RecordedRequest) -> Response<ResponseBody> + Send + 'static,
    ) -> Self {
        Self::new(move |seen| Ok(answer(seen)))
    }

    /// Returns a server that sends the given responses in order and then refuses connections.
    pub fn script(replies: Vec<Response<ResponseBody>>) -> Self {
        let mut replies = VecDeque::from(replies);
        Self::new(move |_| replies.pop_front().ok_or_else(|| refused_connection().into()))
    }

    /// Returns a client for this server.
    pub fn client(&self) -> ApiClient {
        let server = self.clone();
        ApiClient::over(tower::service_fn(move |request: Request<RequestBody>| {
            let server = server.clone();
            async move { server.answer(request).await }
        }))
    }

    /// Returns all requests received so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    async fn answer(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, BoxError> {
        if request.uri().path() == "/readyz" {
            return (self.is_ready.lock().unwrap())()
                .then(|| reply(200, "ok"))
                .ok_or_else(|| refused_connection().into());
        }
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let header = |name| {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let seen = RecordedRequest {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            content_type: header(http::header::CONTENT_TYPE),
            accept: header(http::header::ACCEPT),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        self.requests.lock().unwrap().push(seen.clone());
        (self.answer.lock().unwrap())(&seen)
    }
}

/// Returns the error of a refused connection.
pub fn refused_connection() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused")
}

/// Returns a response with the given status code and body.
pub fn reply(code: u16, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

/// Returns a response with a JSON body.
pub fn json(code: u16, body: &serde_json::Value) -> Response<ResponseBody> {
    reply(code, body.to_string())
}

/// Returns a response with a `metav1.Status`.
pub fn status(code: u16, reason: &str, message: &str) -> Response<ResponseBody> {
    json(code, &serde_json::json!({"kind": "Status", "code": code, "reason": reason, "message": message}))
}

/// Returns a stream over HTTP/2 that sends `pieces`, then ends or stays open forever.
pub fn streamed(pieces: Vec<String>, stays_open: bool) -> Response<ResponseBody> {
    let mut reply = streamed_over_http1(pieces, stays_open);
    *reply.version_mut() = http::Version::HTTP_2;
    reply
}

/// Returns a stream over HTTP/1.1 that sends `pieces`, then ends or stays open forever.
pub fn streamed_over_http1(pieces: Vec<String>, stays_open: bool) -> Response<ResponseBody> {
    let pieces = stream::iter(pieces).map(|p| Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(p))));
    let body = match stays_open {
        true => StreamBody::new(pieces.chain(stream::pending())).boxed_unsync(),
        false => StreamBody::new(pieces).boxed_unsync(),
    };
    Response::new(body)
}
