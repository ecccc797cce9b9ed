//! An API server made of a function, for tests.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use tower::BoxError;

use crate::http::{ApiClient, RequestBody, ResponseBody};

/// A request as the server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Answer = Box<dyn FnMut(&Seen) -> Result<Response<ResponseBody>, BoxError> + Send>;

/// Answers requests by a function and remembers them.
#[derive(Clone)]
pub(crate) struct Canned {
    answer: Arc<Mutex<Answer>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Canned {
    pub(crate) fn new(
        answer: impl FnMut(&Seen) -> Result<Response<ResponseBody>, BoxError> + Send + 'static,
    ) -> Self {
        Self { answer: Arc::new(Mutex::new(Box::new(answer))), seen: Arc::default() }
    }

    pub(crate) fn always(mut answer: impl FnMut(&Seen) -> Response<ResponseBody> + Send + 'static) -> Self {
        Self::new(move |seen| Ok(answer(seen)))
    }

    /// One reply after the other; then it hangs up.
    pub(crate) fn script(replies: Vec<Response<ResponseBody>>) -> Self {
        let mut replies = VecDeque::from(replies);
        Self::new(move |_| replies.pop_front().ok_or_else(|| refused_connection().into()))
    }

    pub(crate) fn client(&self) -> ApiClient {
        let server = self.clone();
        ApiClient::over(tower::service_fn(move |request: Request<RequestBody>| {
            let server = server.clone();
            async move { server.take(request).await }
        }))
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    async fn take(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        let content_type = head.headers.get(http::header::CONTENT_TYPE);
        let seen = Seen {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            content_type: content_type.and_then(|t| t.to_str().ok()).unwrap_or_default().to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        self.seen.lock().unwrap().push(seen.clone());
        (self.answer.lock().unwrap())(&seen)
    }
}

pub(crate) fn refused_connection() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused")
}

pub(crate) fn reply(code: u16, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

pub(crate) fn json(code: u16, body: &serde_json::Value) -> Response<ResponseBody> {
    reply(code, body.to_string())
}

pub(crate) fn status(code: u16, reason: &str, message: &str) -> Response<ResponseBody> {
    json(code, &serde_json::json!({"kind": "Status", "code": code, "reason": reason, "message": message}))
}

/// A stream of pieces that ends after them, or stays open for ever, on a connection that is asked for signs of life.
pub(crate) fn streamed(pieces: Vec<String>, stays_open: bool) -> Response<ResponseBody> {
    let mut reply = streamed_over_http1(pieces, stays_open);
    *reply.version_mut() = http::Version::HTTP_2;
    reply
}

/// A stream of pieces that ends after them, or stays open for ever, whatever becomes of its connection.
pub(crate) fn streamed_over_http1(pieces: Vec<String>, stays_open: bool) -> Response<ResponseBody> {
    let pieces = stream::iter(pieces).map(|p| Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(p))));
    let body = match stays_open {
        true => StreamBody::new(pieces.chain(stream::pending())).boxed_unsync(),
        false => StreamBody::new(pieces).boxed_unsync(),
    };
    Response::new(body)
}
