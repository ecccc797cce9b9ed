//! Connections over the network.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header::USER_AGENT, uri::Scheme};
use http_body_util::BodyExt;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::{Config, client::ConfigExt};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};

use crate::{
    client::{ApiClient, RequestBody, Route},
    config::ClientError,
    unchecked::accept_every_certificate,
};

/// Time limit for making a connection, TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Time for which a connection of watches may be silent before it is pinged over HTTP/2. The kernel probes all connections in
/// the same rhythm, but a proxy in between may answer those probes.
const PING_AFTER: Duration = Duration::from_secs(15);
/// Time limit for the answer to a ping.
const PING_LIMIT: Duration = Duration::from_secs(10);
/// Number of probes that the kernel sends within [`PING_LIMIT`] before it gives up.
const KERNEL_PINGS: u32 = 3;

/// Returns a client that reaches the server of `config` and keeps at most `idle_connections` idle connections.
pub(crate) fn over_network(config: &Config, idle_connections: usize) -> Result<ApiClient, ClientError> {
    let dialer = Arc::new(Dialer::new(config, idle_connections)?);
    let network = service_fn(move |mut request: Request<RequestBody>| {
        // Removed, since a pool that held it would keep itself alive.
        let route = request.extensions_mut().remove::<Route>();
        let response = route.map(|route| {
            let pools = route.connections.pools.get_or_init(|| dialer.pools());
            if route.is_stream { &pools.streams } else { &pools.requests }.request(request)
        });
        async move {
            let response = response.ok_or("a request without a route")?.await?;
            Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        }
    });
    let mut config = config.clone();
    config.headers.push((USER_AGENT, user_agent()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(network)
        .map_err(BoxError::from);
    Ok(ApiClient::over(service).at_address(config.cluster_url.to_string()))
}

/// Makes connections.
pub type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;
type Pool = legacy::Client<Connector, RequestBody>;

/// The connections of a [`ConnectionSet`](crate::connections::ConnectionSet).
pub(crate) struct Pools {
    requests: Pool,
    streams: Pool,
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").finish_non_exhaustive()
    }
}

/// Makes pools of connections.
struct Dialer {
    /// HTTP/1.1, where an exchange costs less than over HTTP/2. The caller bounds the number of requests at once.
    requests: Connector,
    /// HTTP/2 where the server supports it, since such a connection can be pinged.
    streams: Connector,
    idle_connections: usize,
}

impl Dialer {
    fn new(config: &Config, idle_connections: usize) -> Result<Self, ClientError> {
        let mut tls = config.rustls_client_config()?;
        if config.accept_invalid_certs && config.cluster_url.scheme() == Some(&Scheme::HTTPS) {
            tracing::warn!(
                server = %config.cluster_url,
                "The certificate of the API server is not checked (insecure-skip-tls-verify): whoever is in between can \
                 read and change everything"
            );
        }
        if config.accept_invalid_certs {
            accept_every_certificate(&mut tls);
        }
        let name = config.tls_server_name.clone().map(ServerName::try_from).transpose();
        let name = name.map_err(|source| ClientError::ServerName {
            name: config.tls_server_name.clone().unwrap_or_default(),
            source,
        })?;
        Ok(Self {
            requests: connector(tls.clone(), name.clone(), false),
            streams: connector(tls, name, true),
            idle_connections,
        })
    }

    fn pools(&self) -> Pools {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(self.idle_connections)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_LIMIT)
            .http2_keep_alive_while_idle(true);
        Pools { requests: builder.build(self.requests.clone()), streams: builder.build(self.streams.clone()) }
    }
}

/// Returns a connector that sends TCP keepalives and has a time limit. `name` is expected in the server's certificate; the host
/// of the address if absent.
pub fn connector(tls: ClientConfig, name: Option<ServerName<'static>>, http2: bool) -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING_AFTER));
    tcp.set_keepalive_interval(Some(PING_LIMIT / KERNEL_PINGS));
    tcp.set_keepalive_retries(Some(KERNEL_PINGS));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = name {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let both = match http2 {
        true => builder.enable_all_versions().wrap_connector(tcp),
        false => builder.enable_http1().wrap_connector(tcp),
    };
    BoxCloneSyncService::new(service_fn(move |address: Uri| {
        let connecting = both.clone().oneshot(address);
        async move {
            match timeout(CONNECT_LIMIT, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("no connection within {CONNECT_LIMIT:?}").into()),
            }
        }
    }))
}

/// Returns the user agent in the form of Kubernetes' components: `name/version (os/arch) kubernetes/commit/purpose`.
fn user_agent() -> HeaderValue {
    const ARCH: &str = match std::env::consts::ARCH.as_bytes() {
        b"x86_64" => "amd64",
        b"aarch64" => "arm64",
        b"powerpc64" => "ppc64le",
        _ => std::env::consts::ARCH,
    };
    let text = format!(
        "harbormaster/{} ({}/{ARCH}) kubernetes/v1.36/scheduler",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS
    );
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static("harbormaster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_has_the_form_of_kubernetes_components() {
        let text = user_agent();
        let text = text.to_str().unwrap();
        assert!(
            text.starts_with("harbormaster/") && text.ends_with(") kubernetes/v1.36/scheduler"),
            "{text}"
        );
    }
}
