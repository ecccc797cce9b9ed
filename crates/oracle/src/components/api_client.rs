//! A minimal blocking JSON client for kube-apiserver, for use in tests.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::tls::{TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use super::Error;

/// Time limit for a request, well above the duration of any request on loopback.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client for one kube-apiserver, to which it authenticates with a token. It does not verify the server's
/// certificate, which is self-signed; the server is on loopback. Clones share keep-alive connections.
#[derive(Clone)]
pub struct ApiClient {
    agent: Agent,
    /// Agent without a timeout, for watches.
    watch_agent: Agent,
    server: String,
    authorization: String,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ApiClient {
    /// Creates a client for `server`, for example `https://127.0.0.1:6443`.
    #[must_use]
    pub fn new(server: &str, token: &str) -> Self {
        Self {
            agent: agent(Some(TIMEOUT)),
            watch_agent: agent(None),
            server: server.to_owned(),
            authorization: format!("Bearer {token}"),
        }
    }

    /// Reads `path` as text, for example `/readyz`.
    pub fn get_text(&self, path: &str) -> Result<String, Error> {
        self.send("GET", path, None)
    }

    /// Reads an object or a list.
    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.send("GET", path, None).map(|body| parse(&body))
    }

    /// Reads an object or a list in the given content type.
    pub fn get_as(&self, path: &str, content_type: &str) -> Result<Vec<u8>, Error> {
        let unreachable = |source: ureq::Error| Error::Unreachable {
            method: "GET",
            path: path.to_owned(),
            source: Box::new(source),
        };
        let request = Request::builder()
            .uri(format!("{}{path}", self.server))
            .header("authorization", &self.authorization)
            .header("accept", content_type)
            .body(())
            .map_err(|error| unreachable(error.into()))?;
        let mut response = self.agent.run(request).map_err(unreachable)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec().map_err(unreachable)?;
        if (200..300).contains(&status) {
            Ok(body)
        } else {
            let body = String::from_utf8_lossy(&body).into_owned();
            Err(Error::Refused { method: "GET", path: path.to_owned(), status, body })
        }
    }

    /// Creates an object in the collection `path`, or posts to a subresource.
    pub fn post(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.send("POST", path, Some(("application/json", object))).map(|body| parse(&body))
    }

    /// Replaces the object at `path`.
    pub fn put(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.send("PUT", path, Some(("application/json", object))).map(|body| parse(&body))
    }

    /// Applies a JSON merge patch (RFC 7396) to the object at `path`.
    pub fn merge_patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        self.send("PATCH", path, Some(("application/merge-patch+json", patch))).map(|body| parse(&body))
    }

    /// Applies a strategic merge patch, which merges lists by their merge keys.
    pub fn strategic_patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        let kind = "application/strategic-merge-patch+json";
        self.send("PATCH", path, Some((kind, patch))).map(|body| parse(&body))
    }

    /// Deletes the object or collection at `path`. With `?gracePeriodSeconds=0` a bound pod is deleted immediately.
    pub fn delete(&self, path: &str) -> Result<Value, Error> {
        self.send("DELETE", path, None).map(|body| parse(&body))
    }

    /// Returns a reader for a response that does not end, for example a watch.
    pub fn stream(&self, path: &str) -> Result<impl BufRead + Send + use<>, Error> {
        let response = self.exchange(&self.watch_agent, "GET", path, None).map_err(|source| {
            Error::Unreachable { method: "GET", path: path.to_owned(), source: Box::new(source) }
        })?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        if (200..300).contains(&status) {
            let reader = body.into_with_config().limit(u64::MAX).reader();
            Ok(BufReader::with_capacity(1 << 16, reader))
        } else {
            let body = body.read_to_string().unwrap_or_default();
            Err(Error::Refused { method: "GET", path: path.to_owned(), status, body })
        }
    }

    fn send(&self, method: &'static str, path: &str, body: Option<(&str, &Value)>) -> Result<String, Error> {
        let unreachable = |source: ureq::Error| Error::Unreachable {
            method,
            path: path.to_owned(),
            source: Box::new(source),
        };
        let mut response = self.exchange(&self.agent, method, path, body).map_err(unreachable)?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(u64::MAX).read_to_string().map_err(unreachable)?;
        if (200..300).contains(&status) {
            Ok(text)
        } else {
            Err(Error::Refused { method, path: path.to_owned(), status, body: text })
        }
    }

    fn exchange(
        &self,
        agent: &Agent,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Response<Body>, ureq::Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header("authorization", &self.authorization);
        match body {
            Some((kind, value)) => agent.run(request.header("content-type", kind).body(value.to_string())?),
            None => agent.run(request.body(())?),
        }
    }
}

/// TLS settings that accept any certificate, because servers on loopback have self-signed ones.
#[must_use]
pub fn unchecked_tls() -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .disable_verification(true)
        .build()
}

fn agent(timeout: Option<Duration>) -> Agent {
    let config = Agent::config_builder()
        .tls_config(unchecked_tls())
        .proxy(None)
        .http_status_as_error(false)
        .timeout_global(timeout)
        .max_idle_connections_per_host(16)
        .build();
    config.into()
}

/// Parses JSON; turns anything else into a JSON string.
fn parse(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
}
