//! Requests to the API server.

use std::{
    fmt,
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use harbormaster_api::protobuf;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt};

use crate::{
    body::RequestBody,
    connections::{ConnectionSet, Connections},
    error::{ApiError, Refusal},
    gate::{NeverOpen, WriteGate},
    limiter::RateLimiter,
    observe::{RequestMeter, RequestSpan, RequestTracer},
    reachability::Reachability,
};

/// Body of a response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
/// A response, or the reason why there is none.
pub(crate) type Answer = Result<Response<ResponseBody>, BoxError>;

/// Sends requests: over the network or, in tests, to a function.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    /// Sends a request over these connections.
    fn send<'a>(
        &'a self,
        request: Request<RequestBody>,
        connections: &'a ConnectionSet,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

/// A service that answers requests.
struct Local<S>(S);

/// Time limit for an ordinary request, including its response. A `GET` request with a longer limit fails if its
/// response is silent for this long.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Time limit for a request that asks whether the server is ready.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Content type of a JSON body.
pub const JSON: &str = "application/json";
/// Content types that a client accepts that prefers protobuf.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";
/// Content type of a patch in which `null` removes a field (RFC 7386).
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// Content type of a patch that merges the lists of Kubernetes objects by key.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// A client for one API server. Clones share connections and the rate limit.
#[derive(Clone, Debug)]
pub struct ApiClient {
    transport: Arc<dyn Transport>,
    limiter: Option<Arc<RateLimiter>>,
    /// Time limit for an ordinary request.
    limit: Duration,
    accepts_protobuf: bool,
    /// True while objects are sent in protobuf: until a server refuses it. `None` if all objects are sent and accepted
    /// in JSON.
    protobuf: Option<Arc<AtomicBool>>,
    connections: Connections,
    reachability: Reachability,
    gate: Option<Arc<dyn WriteGate>>,
    meter: Option<Arc<dyn RequestMeter>>,
    tracer: Option<Arc<dyn RequestTracer>>,
}

/// Encoding of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON, which every server has.
    Json,
    /// Kubernetes' protobuf, or JSON if a server or an object has no protobuf.
    #[default]
    Protobuf,
}

/// An object that a client creates.
pub trait Document {
    /// Returns the object in JSON.
    fn json(&self) -> Vec<u8>;

    /// Returns the object in [protobuf](protobuf::object).
    fn protobuf(&self) -> Vec<u8>;
}

impl<S> fmt::Debug for Local<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Local").finish()
    }
}

impl<S> Transport for Local<S>
where
    S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Error = BoxError>
        + Clone
        + Send
        + Sync,
    S::Future: Send,
{
    fn send<'a>(
        &'a self,
        request: Request<RequestBody>,
        _: &'a ConnectionSet,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(self.0.clone().oneshot(request))
    }
}

/// A response that is read piece by piece.
#[derive(Debug)]
pub struct Stream {
    /// Body of the response.
    pub body: ResponseBody,
    /// True if the body fails when its connection dies (HTTP/2); otherwise (HTTP/1.1), the body merely stays silent.
    pub is_probed: bool,
    /// True if the body is in protobuf.
    pub is_protobuf: bool,
    /// The set of connections that contains this stream's connection; see [`ApiClient::give_up_connections`].
    pub connections: Weak<ConnectionSet>,
}

impl ApiClient {
    /// Returns a client whose requests are answered by `service`. Paths are absolute on the API server, for example
    /// `/api/v1/pods`.
    pub fn over<S>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Error = BoxError>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        Self::by(Arc::new(Local(service)))
    }

    /// Returns a client whose requests are sent by `transport`.
    pub(crate) fn by(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            limiter: None,
            limit: REQUEST_LIMIT,
            accepts_protobuf: false,
            protobuf: Some(Arc::default()),
            connections: Connections::default(),
            reachability: Reachability::default(),
            gate: None,
            meter: None,
            tracer: None,
        }
    }

    /// Sets the address of the server, for log lines and [`Self::host`].
    pub(crate) fn at_address(self, server: String) -> Self {
        Self { reachability: Reachability::of(server), ..self }
    }

    /// Returns a client that accepts objects in protobuf, and in JSON from servers that do not have them in protobuf.
    /// Has no effect on a client that [uses only JSON](Self::with_encoding).
    #[must_use]
    pub fn accepting_protobuf(&self) -> Self {
        Self { accepts_protobuf: self.protobuf.is_some(), ..self.clone() }
    }

    /// Returns the same client with the encoding that it prefers. With [`Encoding::Protobuf`], it [creates](Self::create)
    /// objects in protobuf if the server takes them; with [`Encoding::Json`], it accepts no objects in protobuf either.
    #[must_use]
    pub fn with_encoding(&self, encoding: Encoding) -> Self {
        let protobuf = match encoding {
            Encoding::Json => None,
            Encoding::Protobuf => Some(Arc::new(AtomicBool::new(true))),
        };
        Self { protobuf, ..self.clone() }
    }

    /// Returns a client that accepts objects in JSON only.
    #[must_use]
    pub fn accepting_json(&self) -> Self {
        Self { accepts_protobuf: false, ..self.clone() }
    }

    /// Returns the same client with a different rate limit.
    pub fn with_limiter(&self, limiter: Option<RateLimiter>) -> Self {
        Self { limiter: limiter.map(Arc::new), ..self.clone() }
    }

    /// Returns a client for the same server with its own connections.
    pub fn with_own_connections(&self) -> Self {
        Self { connections: Connections::default(), ..self.clone() }
    }

    /// Returns the same client with a different time limit for ordinary requests.
    pub fn with_time_limit(&self, limit: Duration) -> Self {
        Self { limit, ..self.clone() }
    }

    /// Returns the same client, which writes only while `gate` is open. Reading is always allowed.
    pub fn with_gate(&self, gate: Arc<dyn WriteGate>) -> Self {
        Self { gate: Some(gate), ..self.clone() }
    }

    /// Returns the same client, which sends only `GET` requests. Every other request fails before anything is sent.
    #[must_use]
    pub fn only_reading(&self) -> Self {
        self.with_gate(Arc::new(NeverOpen))
    }

    /// Returns the same client, reporting its requests to `meter`.
    pub fn with_meter(&self, meter: Arc<dyn RequestMeter>) -> Self {
        Self { meter: Some(meter), ..self.clone() }
    }

    /// Returns the same client, creating spans with `tracer`.
    pub fn with_tracer(&self, tracer: Arc<dyn RequestTracer>) -> Self {
        Self { tracer: Some(tracer), ..self.clone() }
    }

    /// Returns the host and port of the server.
    pub fn host(&self) -> String {
        let address: Option<http::Uri> = self.reachability.server().parse().ok();
        address.as_ref().and_then(|address| address.authority()).map(ToString::to_string).unwrap_or_default()
    }

    /// Logs that the server does not allow the client to read `kind`; the log line also lists all other forbidden
    /// kinds.
    pub fn log_forbidden(&self, kind: &str, why: &str) {
        self.reachability.forbidden(kind, why);
    }

    /// Records that the server allows the client to read `kind`. If `kind` was the last forbidden kind, logs that
    /// everything is allowed again.
    pub fn log_allowed(&self, kind: &str) {
        self.reachability.allowed(kind);
    }

    /// Abandons the set of connections that contains a dead stream's connection, since all connections in the set may
    /// be dead. Returns true if new requests used this set until now.
    pub fn give_up_connections(&self, connections: &Weak<ConnectionSet>) -> bool {
        self.connections.lose(connections)
    }

    /// Waits before a failed request is sent again. An outage of the server ends the wait early: while the server is
    /// away, one of the callers that wait asks whether it is ready, and when it is, all go on within half a second.
    /// Returns true if the wait ended for this reason, so that the caller's delays start over.
    pub async fn rest(&self, delay: Duration) -> bool {
        let outage = async {
            loop {
                self.reachability.recovery().begun().await;
                if self.outage_ended().await {
                    return;
                }
            }
        };
        tokio::select! {
            () = sleep(delay) => false,
            () = outage => true,
        }
    }

    /// Returns true during an outage of the server.
    pub fn is_away(&self) -> bool {
        self.reachability.recovery().is_away()
    }

    async fn outage_ended(&self) -> bool {
        self.reachability.recovery().ended(|| self.is_ready()).await
    }

    /// Asks whether the server is ready. A server that refuses to say so is.
    async fn is_ready(&self) -> bool {
        let Ok(request) = request(Method::GET, "/readyz", Bytes::new()) else { return false };
        let connections = self.connections.current();
        let answer = pin!(async {
            let mut stream = self.send(request, &connections).await?;
            while next(&mut stream.body, &Method::GET, "/readyz").await?.is_some() {}
            Ok(())
        });
        match self.within(PROBE_LIMIT, &Method::GET, "/readyz", &connections, answer).await {
            Ok(()) => true,
            Err(error) => matches!(error.code(), Some(401 | 403 | 404)),
        }
    }

    /// Sends a `GET` request and returns the body of the response.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get(&self, path: &str) -> Result<Bytes, ApiError> {
        self.get_within(path, self.limit).await
    }

    /// Same as [`Self::get`], but with a different time limit, for responses that take a long time.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get_within(&self, path: &str, limit: Duration) -> Result<Bytes, ApiError> {
        let mut request = request(Method::GET, path, Bytes::new())?;
        let span = self.begin_span(&mut request);
        let outcome = self.read(request, path, limit).await;
        end_span(span, &outcome);
        outcome
    }

    async fn read(
        &self,
        request: Request<RequestBody>,
        path: &str,
        limit: Duration,
    ) -> Result<Bytes, ApiError> {
        let begun = Instant::now();
        let connections = self.wait_for_limiter(&Method::GET).await;
        let all = pin!(async {
            let silence = limit.min(REQUEST_LIMIT);
            let sent = pin!(self.send(request, &connections));
            let mut stream = self.within(silence, &Method::GET, path, &connections, sent).await?;
            let mut read = BytesMut::new();
            loop {
                let chunk = pin!(next(&mut stream.body, &Method::GET, path));
                match self.within(silence, &Method::GET, path, &connections, chunk).await? {
                    Some(chunk) => read.extend_from_slice(&chunk),
                    None => return Ok(read.freeze()),
                }
            }
        });
        let outcome = self.within(limit, &Method::GET, path, &connections, all).await;
        self.measure_end(&Method::GET, begun, 0, &outcome);
        outcome
    }

    /// Sends a `POST` request with a JSON body. The response is read and dropped.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn post(&self, path: &str, body: Bytes) -> Result<(), ApiError> {
        self.exchange(Method::POST, path, JSON, body).await.map(drop)
    }

    /// Creates an object with a `POST` request. The response is read and dropped. If the server takes no protobuf, it
    /// gets this object and all later ones in JSON.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn create(&self, path: &str, object: &impl Document) -> Result<(), ApiError> {
        if let Some(protobuf) = self.protobuf.as_ref().filter(|protobuf| protobuf.load(Ordering::Relaxed)) {
            match self.exchange(Method::POST, path, protobuf::CONTENT_TYPE, object.protobuf().into()).await {
                Err(error) if error.code() == Some(415) => protobuf.store(false, Ordering::Relaxed),
                other => return other.map(drop),
            }
        }
        self.post(path, object.json().into()).await
    }

    /// Sends a `PATCH` request. The response is read and dropped.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn patch(&self, path: &str, content_type: &'static str, body: Bytes) -> Result<(), ApiError> {
        self.exchange(Method::PATCH, path, content_type, body).await.map(drop)
    }

    /// Sends a `DELETE` request with `v1.DeleteOptions`. The response is read and dropped.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn delete(&self, path: &str, options: Bytes) -> Result<(), ApiError> {
        self.exchange(Method::DELETE, path, JSON, options).await.map(drop)
    }

    /// Sends a `GET` request and returns the response as a stream. The response must begin within `limit`.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn open(&self, path: &str, limit: Duration) -> Result<Stream, ApiError> {
        let request = request(Method::GET, path, Bytes::new())?;
        let connections = self.wait_for_limiter(&Method::GET).await;
        let sent = pin!(self.send(request, &connections));
        self.within(limit, &Method::GET, path, &connections, sent).await
    }

    /// Sends a request with a body and returns the body of the response.
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
        let size = body.len();
        let mut request = request(method, path, body)?;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let mut request = request.map(|body| body.behind(self.gate.clone()));
        let span = self.begin_span(&mut request);
        let outcome = self.write(request, path, size).await;
        end_span(span, &outcome);
        outcome
    }

    async fn write(&self, request: Request<RequestBody>, path: &str, size: usize) -> Result<Bytes, ApiError> {
        let (begun, method) = (Instant::now(), request.method().clone());
        let exchange = pin!(async {
            let connections = self.wait_for_limiter(&method).await;
            let response = pin!(async {
                let mut stream = self.send(request, &connections).await?;
                // The body is read to its end so that the connection can be reused.
                let mut read = BytesMut::new();
                while let Some(chunk) = next(&mut stream.body, &method, path).await? {
                    read.extend_from_slice(&chunk);
                }
                Ok(read.freeze())
            });
            self.within(self.limit, &method, path, &connections, response).await
        });
        let outcome = tokio::select! {
            // The gate is polled first, so that it is checked each time before the request proceeds.
            biased;
            reason = self.gate_closed() => {
                Err(ApiError::GateClosed(format!("{method} {}: {reason}", plain(path))))
            }
            outcome = exchange => outcome,
        };
        self.measure_end(&method, begun, size, &outcome);
        outcome
    }

    /// Waits for the end of an outage before a write is sent again. Returns early if writing is forbidden.
    pub(crate) async fn wait_for_server(&self) {
        tokio::select! {
            _ = self.outage_ended() => {}
            _ = self.gate_closed() => {}
        }
    }

    /// Resolves when writing is forbidden, and returns the reason.
    async fn gate_closed(&self) -> &'static str {
        match &self.gate {
            Some(gate) => {
                gate.closed().await;
                gate.reason()
            }
            None => std::future::pending().await,
        }
    }

    /// Begins a span for a request if the current task is traced.
    fn begin_span(&self, request: &mut Request<RequestBody>) -> Option<Box<dyn RequestSpan>> {
        let span = self.tracer.as_ref()?.begin(request.method(), request.uri().path())?;
        if let Ok(traceparent) = span.traceparent().parse() {
            request.headers_mut().insert("traceparent", traceparent);
        }
        Some(span)
    }

    /// Waits for the rate limiter, then returns the connections to use.
    async fn wait_for_limiter(&self, method: &Method) -> Arc<ConnectionSet> {
        if let Some(limiter) = &self.limiter {
            let waited = limiter.acquire().await;
            if let Some(meter) = &self.meter {
                meter.waited(method, waited);
            }
        }
        self.connections.current()
    }

    fn measure_end(&self, method: &Method, begun: Instant, sent: usize, outcome: &Result<Bytes, ApiError>) {
        if let Some(meter) = &self.meter {
            meter.ended(method, begun.elapsed(), sent, outcome.as_ref().ok().map(Bytes::len));
        }
    }

    fn measure_answer(&self, method: &Method, code: Option<StatusCode>) {
        if let Some(meter) = &self.meter {
            meter.answered(method, code);
        }
    }

    async fn send(
        &self,
        mut request: Request<RequestBody>,
        connections: &Arc<ConnectionSet>,
    ) -> Result<Stream, ApiError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let sends_protobuf =
            request.headers().get(header::CONTENT_TYPE).is_some_and(|of| of == protobuf::CONTENT_TYPE);
        let accepted = if self.accepts_protobuf || sends_protobuf { PROTOBUF_OR_JSON } else { JSON };
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accepted));
        let answer = self.transport.send(request, connections).await;
        self.measure_answer(&method, answer.as_ref().ok().map(Response::status));
        let outcome = match answer {
            Ok(response) if response.status().is_success() => Ok(Stream {
                is_probed: response.version() == Version::HTTP_2,
                is_protobuf: is_protobuf(&response),
                body: response.into_body(),
                connections: Arc::downgrade(connections),
            }),
            Ok(response) => Err(ApiError::Refused(Refusal::read(response).await)),
            Err(error) => Err(ApiError::broken(&method, uri.path(), &*error)),
        };
        self.reachability.note(&outcome);
        outcome
    }

    /// Does `work` within a time limit. If the limit expires, abandons `connections`, since they may be dead. Fails
    /// earlier if another request has found them dead. `work` is pinned, because it is large: by value, it would be
    /// copied several times.
    async fn within<T>(
        &self,
        limit: Duration,
        method: &Method,
        path: &str,
        connections: &Arc<ConnectionSet>,
        work: Pin<&mut impl Future<Output = Result<T, ApiError>>>,
    ) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            done = work => done,
            () = sleep(limit) => {
                self.connections.give_up(connections);
                let silent = Err(ApiError::TimedOut { what: format!("{method} {}", plain(path)), limit });
                self.reachability.note(&silent);
                silent
            }
            () = connections.are_lost() => {
                Err(ApiError::Unreachable(format!("{method} {path}: the connections to the server are dead")))
            }
        }
    }
}

fn end_span(span: Option<Box<dyn RequestSpan>>, outcome: &Result<Bytes, ApiError>) {
    if let Some(span) = span {
        span.end(outcome.as_ref().err());
    }
}

fn is_protobuf(response: &Response<ResponseBody>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(protobuf::CONTENT_TYPE.as_bytes()))
}

/// Returns the path without the query.
fn plain(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

fn request(method: Method, path: &str, body: Bytes) -> Result<Request<RequestBody>, ApiError> {
    /// Number of headers of a usual request.
    const HEADERS: usize = 6;
    let request = Request::builder().method(method).uri(path).body(body.into());
    let mut request = request.map_err(|e| ApiError::Unreachable(format!("{path}: {e}")))?;
    request.headers_mut().reserve(HEADERS);
    Ok(request)
}

async fn next(body: &mut ResponseBody, method: &Method, path: &str) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame.map_err(|e| ApiError::broken(method, path, &*e))?.into_data() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_server::{FakeServer, reply, status};

    #[tokio::test]
    async fn a_refusal_carries_the_status_of_the_server() {
        let server = FakeServer::always(|_| status(409, "Conflict", "the pod is taken"));
        let error = server.client().post("/x", Bytes::from_static(b"{}")).await.unwrap_err();
        let ApiError::Refused(refusal) = &error else { panic!("{error:?}") };
        assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
        assert_eq!(error.to_string(), "the pod is taken");
        assert!(!error.is_passing());
    }

    struct Thing;

    impl Document for Thing {
        fn json(&self) -> Vec<u8> {
            b"{}".to_vec()
        }

        fn protobuf(&self) -> Vec<u8> {
            b"k8s".to_vec()
        }
    }

    #[tokio::test]
    async fn objects_are_created_in_protobuf_until_a_server_refuses_it() {
        let takes_protobuf = Arc::new(AtomicBool::new(true));
        let answers = takes_protobuf.clone();
        let server = FakeServer::always(move |request| {
            match request.content_type == protobuf::CONTENT_TYPE && !answers.load(Ordering::Relaxed) {
                true => status(415, "UnsupportedMediaType", "only JSON"),
                false => reply(201, "{}"),
            }
        });
        let client = server.client().with_encoding(Encoding::Protobuf);
        client.create("/x", &Thing).await.unwrap();
        takes_protobuf.store(false, Ordering::Relaxed);
        client.create("/x", &Thing).await.unwrap();
        client.clone().create("/x", &Thing).await.unwrap();
        server.client().with_encoding(Encoding::Json).create("/x", &Thing).await.unwrap();
        let forms: Vec<_> = server
            .requests()
            .into_iter()
            .map(|request| (request.content_type, request.body, request.accept))
            .collect();
        let sent = |content_type: &str, body: &str, accept: &str| {
            (content_type.to_owned(), body.to_owned(), accept.to_owned())
        };
        let in_protobuf = sent(protobuf::CONTENT_TYPE, "k8s", PROTOBUF_OR_JSON);
        let in_json = sent(JSON, "{}", JSON);
        assert_eq!(forms, [in_protobuf.clone(), in_protobuf, in_json.clone(), in_json.clone(), in_json]);
    }

    #[tokio::test]
    async fn a_client_that_uses_only_json_accepts_no_protobuf() {
        let server = FakeServer::always(|_| reply(200, "{}"));
        server.client().with_encoding(Encoding::Json).accepting_protobuf().get("/x").await.unwrap();
        assert_eq!(server.requests()[0].accept, JSON);
    }

    #[tokio::test]
    async fn a_client_that_only_reads_sends_no_other_request() {
        let server = FakeServer::always(|_| reply(200, "{}"));
        let client = server.client().only_reading();
        let body = Bytes::from_static(b"{}");
        for sent in [
            client.post("/x", body.clone()).await,
            client.patch("/x", MERGE_PATCH, body.clone()).await,
            client.delete("/x", body.clone()).await,
            client.exchange(Method::PUT, "/x", JSON, body).await.map(drop),
        ] {
            let error = sent.unwrap_err();
            assert!(matches!(error, ApiError::GateClosed(_)), "{error:?}");
            assert!(error.to_string().contains("this client only reads"), "{error}");
        }
        client.get("/x").await.unwrap();
        client.open("/x", REQUEST_LIMIT).await.unwrap();
        let seen = server.requests();
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|request| request.method == "GET"), "{seen:?}");
    }

    #[tokio::test]
    async fn a_refusal_without_a_status_still_has_a_message() {
        let server = FakeServer::always(|_| reply(503, "upstream is away"));
        let error = server.client().get("/x").await.unwrap_err();
        assert_eq!(error.to_string(), "the server answered 503 Service Unavailable: upstream is away");
        assert!(error.is_passing());
    }

    #[tokio::test]
    async fn the_requested_delay_is_read_from_the_header() {
        let server = FakeServer::always(|_| {
            let mut busy = status(429, "TooManyRequests", "busy");
            busy.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
            busy
        });
        let error = server.client().get("/x").await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_to_a_server_that_never_answers_times_out() {
        let server = ApiClient::over(tower::service_fn(|_| async { std::future::pending().await }));
        let error = server.get("/x").await.unwrap_err();
        assert_eq!(error.to_string(), "GET /x: no reply within 30s");
    }

    #[tokio::test(start_paused = true)]
    async fn the_connections_of_an_unanswered_request_are_abandoned() {
        let client = ApiClient::over(tower::service_fn(|_| async { std::future::pending().await }));
        let first = client.connections.current();
        let (write, read) = tokio::join!(client.post("/x", Bytes::new()), client.get("/y"));
        assert!(write.is_err() && read.is_err());
        let second = client.connections.current();
        assert!(!Arc::ptr_eq(&first, &second));
        let (waiting, _) = tokio::join!(client.get("/z"), async {
            sleep(Duration::from_secs(3)).await;
            client.give_up_connections(&Arc::downgrade(&second));
        });
        let error = waiting.unwrap_err();
        assert!(error.is_passing(), "it may be retried");
        assert_eq!(error.to_string(), "GET /z: the connections to the server are dead");
        assert!(
            client.with_limiter(None).connections.current().pool.get().is_none(),
            "all clients have new connections"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_reply_may_take_long_but_must_not_be_silent() {
        let slow = |pause: u64| {
            let pieces = futures_util::stream::unfold(0, move |n| async move {
                sleep(Duration::from_secs(pause)).await;
                let frame = http_body::Frame::data(Bytes::from_static(b"x"));
                (n < 10).then_some((Ok::<_, BoxError>(frame), n + 1))
            });
            Response::new(http_body_util::StreamBody::new(pieces).boxed_unsync())
        };
        let limit = Duration::from_secs(300);
        let steady = FakeServer::always(move |_| slow(20)).client();
        assert_eq!(steady.get_within("/x", limit).await.unwrap(), "x".repeat(10));
        assert!(steady.get("/x").await.is_err(), "an ordinary request may not take that long");
        let silent = FakeServer::always(move |_| slow(31)).client();
        let error = silent.get_within("/x", limit).await.unwrap_err();
        assert_eq!(error.to_string(), "GET /x: no reply within 30s");
    }
}
