//! Sends spans to the collector. An outage is logged once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::{runtime::Handle, time::timeout};

/// Time limit of a request, response included; OpenTelemetry's default.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest reply that is read, in bytes: it says how many spans were taken.
const REPLY: usize = 1 << 20;

/// A client on the runtime that it was made in.
#[derive(Debug)]
pub(crate) struct Sender {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    is_away: AtomicBool,
}

impl Sender {
    pub(crate) fn new() -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        // Without certificates a collector behind TLS is refused, which is logged.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("traces: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, runtime: Handle::current(), is_away: AtomicBool::new(false) })
    }

    fn note(&self, outcome: &Result<Response<Bytes>, HttpError>, endpoint: &str) {
        let trouble = match outcome {
            Ok(reply) if reply.status().is_success() => None,
            Ok(reply) => Some(format!("it answers {}", reply.status())),
            Err(error) => Some(harbormaster_client::error_chain(&**error)),
        };
        let was_away = self.is_away.swap(trouble.is_some(), Ordering::Relaxed);
        match trouble {
            Some(why) if !was_away => tracing::warn!(
                endpoint,
                err = why,
                "Traces cannot be sent and are dropped until they can; scheduling goes on"
            ),
            None if was_away => tracing::info!(v = 0, endpoint, "Traces can be sent again"),
            _ => {}
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, endpoint) = (self.client.clone(), request.uri().to_string());
        let exchange = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, REPLY).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        // The caller is a thread without a runtime, and so without a timer for the limit.
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
