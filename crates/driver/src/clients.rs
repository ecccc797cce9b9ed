//! The API clients of a scheduler.

use std::{sync::Arc, time::Duration};

use harbormaster_client::{ApiClient, ClientError, ConnectionConfig, WriteGate, observe::RequestMeter};
use harbormaster_metrics::{
    Metrics,
    client::{ClientMeter, Verb},
};
use http::{Method, StatusCode};

use crate::traces;

/// Maximum number of concurrent bindings at the API server; a higher limit would only open more connections.
pub const BINDINGS_AT_ONCE: usize = 64;

/// Maximum number of idle connections of a [`Reader`].
const CONNECTIONS_OF_READER: usize = 4;

/// One API client for each kind of traffic.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Client for lists, watches, bindings and status patches.
    pub main: ApiClient,
    /// Client for events. It has its own rate limit, so that events do not delay bindings.
    pub events: ApiClient,
    /// Client for the leader's lease. It shares neither connections nor a rate limit with the other clients, so that
    /// nothing delays a renewal.
    pub leases: ApiClient,
}

impl Clients {
    /// Returns the clients for a configuration. Does not connect yet.
    ///
    /// # Errors
    /// If no configuration is found, or the configuration is invalid.
    pub async fn new(config: &ConnectionConfig) -> Result<Self, ClientError> {
        let main = config.client(2 * BINDINGS_AT_ONCE).await?;
        Ok(Self {
            events: main.with_limiter(config.limiter()),
            leases: main.with_own_connections().with_limiter(config.limiter()),
            main,
        })
    }

    /// Returns the same clients behind `gate`. While the gate is closed, they write only the lease.
    pub(crate) fn gated_by(&self, gate: Arc<dyn WriteGate>) -> Self {
        let gated = |client: &ApiClient| client.with_gate(gate.clone());
        Self { main: gated(&self.main), events: gated(&self.events), leases: self.leases.clone() }
    }

    /// Returns the same clients with their requests counted in `metrics` and included in the traces of the tasks that
    /// send the requests.
    pub fn observed(&self, metrics: &Metrics) -> Self {
        let meter = MetricsOfClient::of(&self.main, metrics);
        let observed = |client: &ApiClient| {
            let client = client.with_meter(meter.clone());
            match traces::request_tracer() {
                Some(tracer) => client.with_tracer(tracer),
                None => client,
            }
        };
        Self { main: observed(&self.main), events: observed(&self.events), leases: observed(&self.leases) }
    }
}

/// A client that cannot write: it sends only `GET` requests.
#[derive(Clone, Debug)]
pub struct Reader(ApiClient);

impl Reader {
    /// Returns the reader for a configuration. Does not connect yet.
    ///
    /// # Errors
    /// If no configuration is found, or the configuration is invalid.
    pub async fn new(config: &ConnectionConfig) -> Result<Self, ClientError> {
        Ok(Self::of(&config.client(CONNECTIONS_OF_READER).await?))
    }

    /// Returns a reader that uses the connections of `client`.
    pub fn of(client: &ApiClient) -> Self {
        Self(client.only_reading())
    }

    /// Returns the client.
    pub fn client(&self) -> &ApiClient {
        &self.0
    }

    /// Returns the same reader with its requests counted in `metrics`.
    pub fn observed(&self, metrics: &Metrics) -> Self {
        Self(self.0.with_meter(MetricsOfClient::of(&self.0, metrics)))
    }
}

/// Counts requests in the metrics of a scheduler.
#[derive(Debug)]
struct MetricsOfClient(ClientMeter);

impl MetricsOfClient {
    fn of(client: &ApiClient, metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self(metrics.client(client.host())))
    }
}

impl RequestMeter for MetricsOfClient {
    fn waited(&self, method: &Method, waited: Duration) {
        if let Some(verb) = Verb::of(method.as_str()) {
            self.0.waited(verb, waited);
        }
    }

    fn answered(&self, method: &Method, code: Option<StatusCode>) {
        if let Some(verb) = Verb::of(method.as_str()) {
            self.0.answered(verb, code.map(|code| code.as_u16()));
        }
    }

    fn ended(&self, method: &Method, took: Duration, sent: usize, received: Option<usize>) {
        if let Some(verb) = Verb::of(method.as_str()) {
            self.0.ended(verb, took, sent, received);
        }
    }
}
