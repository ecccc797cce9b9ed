//! Sends spans to the collector, and logs an outage once.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;
use harbormaster_client::{
    TlsOptions,
    body::{RequestBody, whole},
    network::{Pool, connector},
};
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::{runtime::Handle, time::timeout};

/// Time limit for a request, including its response; OpenTelemetry's default.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of a reply in bytes. A reply contains little more than the number of rejected spans.
const REPLY: usize = 1 << 20;

/// A client that runs on the runtime in which it was created.
#[derive(Debug)]
pub(crate) struct Sender {
    pool: Pool,
    runtime: Handle,
    is_away: AtomicBool,
}

impl Sender {
    pub(crate) fn new() -> Result<Self, String> {
        let tls = TlsOptions::default().client_config().map_err(|error| format!("traces: {error}"))?;
        let pool = Pool::new(connector(tls, None, false));
        Ok(Self { pool, runtime: Handle::current(), is_away: AtomicBool::new(false) })
    }

    fn note(&self, outcome: &Result<Response<Bytes>, HttpError>, endpoint: &str) {
        let trouble = match outcome {
            Ok(reply) if reply.status().is_success() => None,
            Ok(reply) => Some(format!("the collector answered {}", reply.status())),
            Err(error) => Some(harbormaster_client::error_chain(&**error)),
        };
        let was_away = self.is_away.swap(trouble.is_some(), Ordering::Relaxed);
        match trouble {
            Some(why) if !was_away => tracing::warn!(
                endpoint,
                err = why,
                "Traces cannot be sent and are dropped until the collector accepts them; scheduling continues"
            ),
            None if was_away => tracing::info!(v = 0, endpoint, "Traces can be sent again"),
            _ => {}
        }
    }
}

async fn exchange(pool: &Pool, request: Request<RequestBody>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = pool.request(request).await?.into_parts();
    Ok(Response::from_parts(head, whole(body, REPLY).await?))
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (pool, endpoint) = (self.pool.clone(), request.uri().to_string());
        let exchange = async move { exchange(&pool, request.map(RequestBody::from)).await };
        // The caller is a thread without a runtime, and therefore without a timer for the time limit.
        let answer = self.runtime.spawn(async move { timeout(LIMIT, exchange).await }).await;
        let outcome = match answer {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(late)) => Err(HttpError::from(late)),
            Err(gone) => Err(HttpError::from(gone)),
        };
        self.note(&outcome, &endpoint);
        outcome
    }
}
