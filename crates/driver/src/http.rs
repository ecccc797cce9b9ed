//! One request to the API server.

use std::{
    error::Error,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use harbormaster_metrics::client::{ClientMeter, Verb};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use serde::Deserialize;
use thiserror::Error;
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt, util::BoxCloneSyncService};

use crate::{
    ages::{Age, Ages},
    leader::Leadership,
    limiter::RateLimiter,
    reachability::Reachability,
    traces::{self, About, Ending, traced},
};

/// What requests carry.
pub type RequestBody = Full<Bytes>;
/// What replies carry.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
/// Where requests go: the network, or a function in tests.
pub type HttpService = BoxCloneSyncService<Request<RequestBody>, Response<ResponseBody>, BoxError>;

/// How long an ordinary request may take, reply included; of one that may take longer, how long its reply may be silent.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// The most that is read of a reply that is an error, in bytes.
const ERROR_BODY: usize = 64 << 10;

/// Content type of a JSON body.
pub const JSON: &str = "application/json";
/// Content type of a patch in which fields that are `null` go (RFC 7386).
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Content type of a patch that knows how lists of Kubernetes objects are keyed.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// Why a request came to nothing.
#[derive(Clone, Debug, Error)]
pub enum ApiError {
    /// No reply: refused, reset or broken connections, TLS and name resolution.
    #[error("{0}")]
    Unreachable(String),
    /// No complete reply in time.
    #[error("{what}: no reply within {limit:?}")]
    TimedOut {
        /// Method and path.
        what: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The API server said no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It was not sent, or its reply is not waited for: another instance may lead.
    #[error("{0}: this instance does not lead")]
    NotLeading(String),
}

/// A reply that says no: `metav1.Status`, or what stands in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// `reason`, for example `Conflict`; empty if the reply was no `metav1.Status`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// The HTTP status code, if there was a reply.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Unreachable(_) | Self::TimedOut { .. } | Self::NotLeading(_) => None,
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            Self::Unreachable(_) | Self::TimedOut { .. } | Self::NotLeading(_) => None,
        }
    }

    /// Whether the same request may succeed a little later: no reply, 429 (too many requests) or 5xx.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut { .. } => true,
            Self::Refused(Refusal { code, .. }) => *code == 429 || *code >= 500,
            Self::NotLeading(_) => false,
        }
    }
}

/// A way to the API server. Clones share connections and the limit.
#[derive(Clone, Debug)]
pub struct ApiClient {
    service: HttpService,
    limiter: Option<Arc<RateLimiter>>,
    /// How long an ordinary request may take.
    limit: Duration,
    ages: Ages,
    reachability: Reachability,
    /// Whether anything may be written.
    leadership: Leadership,
    /// Who counts requests.
    meter: Option<Arc<ClientMeter>>,
}

/// Which connections a request is to use; it travels with the request.
#[derive(Clone, Debug)]
pub(crate) struct Via {
    pub(crate) age: Arc<Age>,
    /// Whether the reply is a stream that may stay open, and silent, for long.
    pub(crate) is_stream: bool,
}

/// A reply that comes piece by piece.
#[derive(Debug)]
pub struct Stream {
    /// The pieces.
    pub body: ResponseBody,
    /// Whether the body fails when its connection is dead (HTTP/2), or just stays silent (HTTP/1.1).
    pub is_probed: bool,
    pub(crate) age: Weak<Age>,
}

impl ApiClient {
    /// A client whose requests `service` answers. Paths are absolute on the API server, for example `/api/v1/pods`.
    pub fn over<S>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Error = BoxError>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        Self {
            service: BoxCloneSyncService::new(service),
            limiter: None,
            limit: REQUEST_LIMIT,
            ages: Ages::default(),
            reachability: Reachability::default(),
            leadership: Leadership::always(),
            meter: None,
        }
    }

    /// The same way, its requests counted.
    pub fn measured_by(&self, meter: Arc<ClientMeter>) -> Self {
        Self { meter: Some(meter), ..self.clone() }
    }

    /// The same way, where trouble is told of with the address of the server.
    pub(crate) fn to(self, server: String) -> Self {
        Self { reachability: Reachability::of(server), ..self }
    }

    /// The same way with a limit of its own.
    pub fn limited(&self, limiter: Option<RateLimiter>) -> Self {
        Self { limiter: limiter.map(Arc::new), ..self.clone() }
    }

    /// The same server over connections of its own.
    pub(crate) fn apart(&self) -> Self {
        Self { ages: Ages::default(), ..self.clone() }
    }

    /// The same way, where an ordinary request may take as long as that.
    pub(crate) fn within_limit(&self, limit: Duration) -> Self {
        Self { limit, ..self.clone() }
    }

    /// The same way, where nothing is written unless this instance leads. Whoever does not lead may read.
    pub fn led_by(&self, leadership: &Leadership) -> Self {
        Self { leadership: leadership.clone(), ..self.clone() }
    }

    /// The server as requests are counted for it: host and port.
    pub(crate) fn host(&self) -> String {
        let address: Option<http::Uri> = self.reachability.server().parse().ok();
        address.as_ref().and_then(|address| address.authority()).map(ToString::to_string).unwrap_or_default()
    }

    pub(crate) fn reachability(&self) -> &Reachability {
        &self.reachability
    }

    /// A stream turned out to be dead, or may be: so may be the connections that were made with it. Returns whether
    /// that is news.
    pub(crate) fn lose(&self, age: &Weak<Age>) -> bool {
        self.ages.lose(age)
    }

    /// `GET`: the whole reply.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get(&self, path: &str) -> Result<Bytes, ApiError> {
        self.get_within(path, self.limit).await
    }

    /// [`Self::get`] of something that may take long.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get_within(&self, path: &str, limit: Duration) -> Result<Bytes, ApiError> {
        traced(|| about(&Method::GET, path), self.read(path, limit), ending).await
    }

    async fn read(&self, path: &str, limit: Duration) -> Result<Bytes, ApiError> {
        let begun = Instant::now();
        let age = self.may_send(&Method::GET).await;
        let all = async {
            let request = request(Method::GET, path, Bytes::new())?;
            let silence = limit.min(REQUEST_LIMIT);
            let mut body =
                self.within(silence, &Method::GET, path, &age, self.send(request, &age, false)).await?;
            let mut read = BytesMut::new();
            while let Some(piece) = self
                .within(silence, &Method::GET, path, &age, next(&mut body.body, &Method::GET, path))
                .await?
            {
                read.extend_from_slice(&piece);
            }
            Ok(read.freeze())
        };
        let reply = self.within(limit, &Method::GET, path, &age, all).await;
        self.note_end(&Method::GET, begun, 0, &reply);
        reply
    }

    /// `POST` of a JSON body. The reply is read and dropped.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn post(&self, path: &str, body: Bytes) -> Result<(), ApiError> {
        self.exchange(Method::POST, path, JSON, body).await.map(drop)
    }

    /// `PATCH`. The reply is read and dropped.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn patch(&self, path: &str, content_type: &'static str, body: Bytes) -> Result<(), ApiError> {
        self.exchange(Method::PATCH, path, content_type, body).await.map(drop)
    }

    /// `DELETE` with `v1.DeleteOptions`. The reply is read and dropped.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn delete(&self, path: &str, options: Bytes) -> Result<(), ApiError> {
        self.exchange(Method::DELETE, path, JSON, options).await.map(drop)
    }

    /// `GET` whose reply is to be read piece by piece; the reply must begin within `limit`.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn open(&self, path: &str, limit: Duration) -> Result<Stream, ApiError> {
        let request = request(Method::GET, path, Bytes::new())?;
        let age = self.may_send(&Method::GET).await;
        self.within(limit, &Method::GET, path, &age, self.send(request, &age, true)).await
    }

    /// Any request with a body: the whole reply.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes, ApiError> {
        let described = method.clone();
        traced(|| about(&described, path), self.write(method, path, content_type, body), ending).await
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes, ApiError> {
        let (begun, sent) = (Instant::now(), body.len());
        let mut request = request(method.clone(), path, body)?;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let exchange = async {
            let age = self.may_send(&method).await;
            let reply = async {
                let mut stream = self.send(request, &age, false).await?;
                // Read to the end, so that the connection can be used again.
                let mut read = BytesMut::new();
                while let Some(piece) = next(&mut stream.body, &method, path).await? {
                    read.extend_from_slice(&piece);
                }
                Ok(read.freeze())
            };
            self.within(self.limit, &method, path, &age, reply).await
        };
        let outcome = tokio::select! {
            // First: it is asked each time before anything else goes on.
            biased;
            () = self.leadership.is_over() => Err(ApiError::NotLeading(format!("{method} {}", plain(path)))),
            outcome = exchange => outcome,
        };
        self.note_end(&method, begun, sent, &outcome);
        outcome
    }

    /// Waits for the limit; the connections to use then.
    async fn may_send(&self, method: &Method) -> Arc<Age> {
        if let Some(limiter) = &self.limiter {
            let waited = limiter.acquire().await;
            if let Some((meter, verb)) = self.measured(method) {
                meter.waited(verb, waited);
            }
        }
        self.ages.current()
    }

    fn measured(&self, method: &Method) -> Option<(&ClientMeter, Verb)> {
        Some((self.meter.as_deref()?, Verb::of(method.as_str())?))
    }

    fn note_end(&self, method: &Method, begun: Instant, sent: usize, reply: &Result<Bytes, ApiError>) {
        if let Some((meter, verb)) = self.measured(method) {
            meter.ended(verb, begun.elapsed(), sent, reply.as_ref().ok().map(Bytes::len));
        }
    }

    fn note_answer(&self, method: &Method, code: Option<StatusCode>) {
        if let Some((meter, verb)) = self.measured(method) {
            meter.answered(verb, code.map(|code| code.as_u16()));
        }
    }

    async fn send(
        &self,
        mut request: Request<RequestBody>,
        age: &Arc<Age>,
        is_stream: bool,
    ) -> Result<Stream, ApiError> {
        let what = (request.method().clone(), request.uri().path().to_owned());
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(JSON));
        if let Some(trace) = traces::header().and_then(|header| header.parse().ok()) {
            request.headers_mut().insert("traceparent", trace);
        }
        request.extensions_mut().insert(Via { age: age.clone(), is_stream });
        let answer = self.service.clone().oneshot(request).await;
        self.note_answer(&what.0, answer.as_ref().ok().map(Response::status));
        let outcome = match answer {
            Ok(reply) if reply.status().is_success() => Ok(Stream {
                is_probed: reply.version() == Version::HTTP_2,
                body: reply.into_body(),
                age: Arc::downgrade(age),
            }),
            Ok(reply) => Err(ApiError::Refused(refusal(reply).await)),
            Err(error) => Err(broken(&what.0, &what.1, &*error)),
        };
        self.reachability.note(&outcome);
        outcome
    }

    /// No reply in time, or none to be hoped for on these connections: new requests get new ones.
    async fn within<T>(
        &self,
        limit: Duration,
        method: &Method,
        path: &str,
        age: &Arc<Age>,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            done = work => done,
            () = sleep(limit) => {
                self.ages.give_up(age);
                let silent = Err(ApiError::TimedOut { what: format!("{method} {}", plain(path)), limit });
                self.reachability.note(&silent);
                silent
            }
            () = age.is_over() => {
                Err(ApiError::Unreachable(format!("{method} {path}: the connections of that time are dead")))
            }
        }
    }
}

/// A request in a trace.
fn about(method: &Method, path: &str) -> About {
    let attributes = vec![("http.request.method", method.to_string()), ("url.path", plain(path).to_owned())];
    About { name: method.to_string(), attributes, is_request: true }
}

/// Its end.
fn ending<T>(reply: &Result<T, ApiError>) -> Ending {
    let Err(error) = reply else { return Ending::default() };
    let code = error.code().map(|code| ("http.response.status_code", code.to_string()));
    Ending { attributes: code.into_iter().collect(), error: Some(error.to_string()) }
}

/// Without the query.
fn plain(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

fn request(method: Method, path: &str, body: Bytes) -> Result<Request<RequestBody>, ApiError> {
    Request::builder()
        .method(method)
        .uri(path)
        .body(Full::new(body))
        .map_err(|e| ApiError::Unreachable(format!("{path}: {e}")))
}

async fn next(body: &mut ResponseBody, method: &Method, path: &str) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(|e| broken(method, path, &*e))?.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

fn broken(method: &Method, path: &str, error: &(dyn Error + 'static)) -> ApiError {
    ApiError::Unreachable(format!("{method} {path}: {}", chain(error)))
}

/// An error with all its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// `metav1.Status`, as far as it is read.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Status {
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    details: Option<StatusDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[serde(default)]
    retry_after_seconds: u64,
}

impl Status {
    pub(crate) fn into_refusal(self) -> Refusal {
        let wait = self.details.map_or(0, |d| d.retry_after_seconds);
        Refusal {
            code: self.code,
            reason: self.reason,
            message: self.message,
            retry_after: (wait > 0).then(|| Duration::from_secs(wait)),
        }
    }
}

async fn refusal(reply: Response<ResponseBody>) -> Refusal {
    let code = reply.status();
    let header = retry_after(reply.headers().get(header::RETRY_AFTER));
    let body = beginning(reply.into_body()).await;
    let status: Status = serde_json::from_slice(&body).unwrap_or_default();
    let mut refusal = status.into_refusal();
    refusal.code = code.as_u16();
    refusal.retry_after = header.or(refusal.retry_after);
    if refusal.message.is_empty() {
        refusal.message = plain_message(code, &body);
    }
    refusal
}

/// `Retry-After` in seconds; the form with a date is not used by API servers.
fn retry_after(value: Option<&HeaderValue>) -> Option<Duration> {
    let seconds = value?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn beginning(mut body: ResponseBody) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < ERROR_BODY
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data);
        }
    }
    read
}

fn plain_message(code: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match text.trim() {
        "" => format!("the server answered {code}"),
        text => format!("the server answered {code}: {}", text.chars().take(200).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canned::{Canned, reply, status};

    #[tokio::test]
    async fn a_refusal_carries_the_status_of_the_server() {
        let server = Canned::always(|_| status(409, "Conflict", "the pod is taken"));
        let error = server.client().post("/x", Bytes::from_static(b"{}")).await.unwrap_err();
        let ApiError::Refused(refusal) = &error else { panic!("{error:?}") };
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert_eq!(error.to_string(), "the pod is taken");
        assert!(!error.is_passing());
    }

    #[tokio::test]
    async fn a_refusal_without_a_status_still_says_something() {
        let server = Canned::always(|_| reply(503, "upstream is away"));
        let error = server.client().get("/x").await.unwrap_err();
        assert_eq!(error.to_string(), "the server answered 503 Service Unavailable: upstream is away");
        assert!(error.is_passing());
    }

    #[tokio::test]
    async fn the_wish_to_be_left_alone_is_read_from_the_header() {
        let server = Canned::always(|_| {
            let mut busy = status(429, "TooManyRequests", "busy");
            busy.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
            busy
        });
        let error = server.client().get("/x").await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up() {
        let server = ApiClient::over(tower::service_fn(|_| async { std::future::pending().await }));
        let error = server.get("/x").await.unwrap_err();
        assert_eq!(error.to_string(), "GET /x: no reply within 30s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_answered_takes_its_connections_with_it() {
        let client = ApiClient::over(tower::service_fn(|_| async { std::future::pending().await }));
        let first = client.ages.current();
        let (write, read) = tokio::join!(client.post("/x", Bytes::new()), client.get("/y"));
        assert!(write.is_err() && read.is_err());
        let second = client.ages.current();
        assert!(!Arc::ptr_eq(&first, &second));
        let (waiting, _) = tokio::join!(client.get("/z"), async {
            sleep(Duration::from_secs(3)).await;
            client.lose(&Arc::downgrade(&second));
        });
        let error = waiting.unwrap_err();
        assert!(error.is_passing(), "it is to be tried again");
        assert_eq!(error.to_string(), "GET /z: the connections of that time are dead");
        assert!(
            client.limited(None).ages.current().pools.get().is_none(),
            "all clients have new connections"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_lead_reads_and_does_not_write() {
        let server = Canned::always(|_| reply(200, "{}"));
        let leadership = Leadership::default();
        let client = server.client().led_by(&leadership);
        let error = client.post("/x?y", Bytes::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "POST /x: this instance does not lead");
        assert!(!error.is_passing() && error.code().is_none());
        client.get("/x").await.unwrap();
        leadership.lead_until(tokio::time::Instant::now() + Duration::from_secs(10));
        client.post("/x", Bytes::new()).await.unwrap();
        leadership.end();
        assert!(client.delete("/x", Bytes::new()).await.is_err());
        let methods: Vec<_> = server.seen().into_iter().map(|seen| seen.method).collect();
        assert_eq!(methods, ["GET", "POST"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_the_limiter_when_leadership_ends_is_not_sent() {
        let server = Canned::always(|_| reply(200, "{}"));
        let leadership = Leadership::default();
        leadership.lead_until(tokio::time::Instant::now() + Duration::from_secs(2));
        let limited = server.client().limited(RateLimiter::new(1.0, 1)).led_by(&leadership);
        let writes = (0..6).map(|_| limited.post("/x", Bytes::new()));
        let outcomes = futures_util::future::join_all(writes).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
        assert_eq!(server.seen().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_when_leadership_ends_is_called_off() {
        let client = ApiClient::over(tower::service_fn(|_| async { std::future::pending().await }));
        let leadership = Leadership::default();
        leadership.lead_until(tokio::time::Instant::now() + Duration::from_secs(10));
        let (client, begun) = (client.led_by(&leadership), tokio::time::Instant::now());
        let (outcome, ()) = tokio::join!(client.post("/x", Bytes::new()), async {
            sleep(Duration::from_secs(3)).await;
            leadership.end();
        });
        assert!(matches!(outcome, Err(ApiError::NotLeading(_))));
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_reply_may_take_long_but_not_be_silent() {
        let slow = |pause: u64| {
            let pieces = futures_util::stream::unfold(0, move |n| async move {
                sleep(Duration::from_secs(pause)).await;
                let frame = http_body::Frame::data(Bytes::from_static(b"x"));
                (n < 10).then_some((Ok::<_, BoxError>(frame), n + 1))
            });
            Response::new(http_body_util::StreamBody::new(pieces).boxed_unsync())
        };
        let limit = Duration::from_secs(300);
        let steady = Canned::always(move |_| slow(20)).client();
        assert_eq!(steady.get_within("/x", limit).await.unwrap(), "x".repeat(10));
        assert!(steady.get("/x").await.is_err(), "an ordinary one may not");
        let silent = Canned::always(move |_| slow(31)).client();
        let error = silent.get_within("/x", limit).await.unwrap_err();
        assert_eq!(error.to_string(), "GET /x: no reply within 30s");
    }
}
