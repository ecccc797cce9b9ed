//! Connections over the network.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{AUTHORIZATION, USER_AGENT},
    uri::{PathAndQuery, Scheme},
};
use http_body_util::BodyExt;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{net::TcpStream, time::timeout};
use tower::{BoxError, ServiceExt, service_fn, util::BoxCloneSyncService};

use crate::{
    access::ServerAccess,
    body::RequestBody,
    client::{Answer, ApiClient, ResponseBody, Transport},
    config::ClientError,
    connections::ConnectionSet,
    credentials::{Authorizer, CredentialsError},
    http2::Http2,
    tls::{TlsError, TlsOptions},
    wide::WideTcp,
};

/// Time limit for making a connection, including the TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Time from one ping over HTTP/2 to the next. The kernel probes silent connections after the same time, but an
/// intermediate proxy may answer those probes.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(15);
/// Time limit for the answer to a ping.
pub(crate) const PING_LIMIT: Duration = Duration::from_secs(10);
/// Number of probes that the kernel sends within [`PING_LIMIT`] before it gives up.
const KERNEL_PINGS: u32 = 3;

/// Returns a client for a server; the client keeps at most `idle_connections` idle connections. Makes no connection,
/// but runs the credentials plugin if there is one.
pub(crate) async fn over_network(
    mut access: ServerAccess,
    idle_connections: usize,
) -> Result<ApiClient, ClientError> {
    let (authorizer, identity) = Authorizer::new(access.credentials.clone()).await?;
    access.tls.identity = identity.or(access.tls.identity);
    let address = access.server.to_string();
    let dialer = Dialer::new(&access, idle_connections)?;
    let network = Network { headers: headers(&access)?, server: access.server, authorizer, dialer };
    Ok(ApiClient::by(Arc::new(network)).at_address(address))
}

/// Everything that is needed to send requests to a server.
struct Network {
    server: Uri,
    /// Headers of every request.
    headers: HeaderMap,
    authorizer: Authorizer,
    dialer: Dialer,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Transport for Network {
    fn send<'a>(
        &'a self,
        request: Request<RequestBody>,
        connections: &'a ConnectionSet,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(self.exchange(request, connections))
    }
}

impl Network {
    async fn exchange(&self, mut request: Request<RequestBody>, connections: &ConnectionSet) -> Answer {
        *request.uri_mut() = below(&self.server, request.uri())?;
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        if let Some(header) = self.authorizer.header().await? {
            request.headers_mut().insert(AUTHORIZATION, header);
        }
        let pool = connections.pool.get_or_init(|| self.dialer.pool());
        let response = pool.request(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.authorizer.refused().await;
        }
        Ok(response)
    }
}

fn headers(access: &ServerAccess) -> Result<HeaderMap, CredentialsError> {
    let mut headers = HeaderMap::from_iter([(USER_AGENT, user_agent())]);
    for (name, value) in &access.impersonation {
        headers.append(*name, HeaderValue::try_from(value.as_str())?);
    }
    Ok(headers)
}

/// Returns the URL of `path` on a server whose own address may contain a path.
fn below(server: &Uri, path: &Uri) -> Result<Uri, http::Error> {
    let mut parts = server.clone().into_parts();
    parts.path_and_query = match (server.path().trim_end_matches('/'), path.path_and_query()) {
        ("", Some(path)) => Some(path.clone()),
        (prefix, path) => Some(format!("{prefix}{}", path.map_or("/", PathAndQuery::as_str)).parse()?),
    };
    Ok(Uri::from_parts(parts)?)
}

/// Makes connections.
pub type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<WideTcp>>, BoxError>;

/// Connections to servers. All HTTP clients of the scheduler use this type, so that the HTTP code is compiled only once.
#[derive(Clone)]
pub struct Pool {
    /// The connection over HTTP/2, if that is tried first.
    http2: Option<Http2>,
    /// Connections over HTTP/1.1.
    http1: legacy::Client<Connector, RequestBody>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    /// Returns an empty pool of connections over HTTP/1.1.
    pub fn new(connector: Connector) -> Self {
        Self { http2: None, http1: builder().build(connector) }
    }

    /// Sends a request and returns the response, whose body has not been read yet.
    ///
    /// # Errors
    /// If no connection can be made, or the connection breaks.
    pub async fn request(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, BoxError> {
        let request = match &self.http2 {
            Some(http2) => match http2.request(request).await? {
                Ok(response) => return Ok(response),
                Err(unsent) => unsent,
            },
            None => request,
        };
        let response = self.http1.request(request).await?;
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }
}

fn builder() -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
    builder
}

/// Makes pools of connections.
struct Dialer {
    /// Connects over HTTP/2 if the server supports it. Such a connection can be pinged, and carries all watches and
    /// requests, so several messages can be sent and received at once. An API server answers 100 requests of a
    /// connection at the same time, watches included; others wait.
    http2: Connector,
    /// Connects over HTTP/1.1, for servers without HTTP/2.
    http1: Connector,
    /// Maximum number of idle connections over HTTP/1.1.
    idle_connections: usize,
}

impl Dialer {
    fn new(access: &ServerAccess, idle_connections: usize) -> Result<Self, TlsError> {
        let is_https = access.server.scheme() == Some(&Scheme::HTTPS);
        if access.tls.insecure && is_https {
            tracing::warn!(
                server = %access.server,
                "The certificate of the API server is not checked (insecure-skip-tls-verify): anyone in between can \
                 read and change all traffic"
            );
        }
        // The system's certificate authorities are read only if they are needed.
        let tls = TlsOptions { insecure: access.tls.insecure || !is_https, ..access.tls.clone() };
        let (tls, name) = (tls.client_config()?, tls.expected_name()?);
        let http2 = connector(tls.clone(), name.clone(), true);
        Ok(Self { http2, http1: connector(tls, name, false), idle_connections })
    }

    fn pool(&self) -> Pool {
        let mut http1 = builder();
        http1.pool_max_idle_per_host(self.idle_connections);
        Pool { http2: Some(Http2::new(self.http2.clone())), http1: http1.build(self.http1.clone()) }
    }
}

/// Returns a connector that enables TCP keepalives and has a time limit. The server's certificate must be valid for
/// `name` or, if `name` is absent, for the host in the address.
pub fn connector(tls: ClientConfig, name: Option<ServerName<'static>>, http2: bool) -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING_AFTER));
    tcp.set_keepalive_interval(Some(PING_LIMIT / KERNEL_PINGS));
    tcp.set_keepalive_retries(Some(KERNEL_PINGS));
    let tcp = tcp.map_response(|stream: TokioIo<TcpStream>| TokioIo::new(WideTcp::new(stream.into_inner())));
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

/// Returns the user agent in the form that Kubernetes components use, without their commit: `name/version (os/arch)
/// kubernetes/purpose`.
fn user_agent() -> HeaderValue {
    const ARCH: &str = match std::env::consts::ARCH.as_bytes() {
        b"x86_64" => "amd64",
        b"aarch64" => "arm64",
        b"powerpc64" => "ppc64le",
        _ => std::env::consts::ARCH,
    };
    let text = format!(
        "harbormaster/{} ({}/{ARCH}) kubernetes/scheduler",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS
    );
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static("harbormaster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_appended_to_the_path_of_the_server() {
        for (server, expected) in [
            ("https://a:6443", "https://a:6443/api/v1/pods?watch=1"),
            ("https://a:6443/", "https://a:6443/api/v1/pods?watch=1"),
            ("https://a/k8s/clusters/c-1/", "https://a/k8s/clusters/c-1/api/v1/pods?watch=1"),
        ] {
            let path = Uri::from_static("/api/v1/pods?watch=1");
            assert_eq!(below(&server.parse().unwrap(), &path).unwrap(), expected);
        }
    }

    #[test]
    fn the_user_agent_has_the_form_of_kubernetes_components() {
        let text = user_agent();
        let text = text.to_str().unwrap();
        assert!(text.starts_with("harbormaster/") && text.ends_with(") kubernetes/scheduler"), "{text}");
    }
}
