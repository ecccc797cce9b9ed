//! How the API server is reached: address, credentials and limits.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use harbormaster_metrics::Metrics;
use http::{HeaderValue, Request, Uri, header::USER_AGENT, uri::Scheme};
use http_body_util::BodyExt;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::{
    Config,
    client::ConfigExt,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls::{ClientConfig, pki_types::ServerName};
use thiserror::Error;
use tokio::{net::TcpStream, time::timeout};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};

use crate::{
    binder::BINDINGS_AT_ONCE,
    http::{ApiClient, RequestBody, Via},
    leader::Leadership,
    limiter::RateLimiter,
    unchecked::accept_every_certificate,
};

/// How long making a connection may take, TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a connection of watches may be silent before it is asked for a sign of life, over HTTP/2; the kernel asks on
/// all connections in the same rhythm, which a proxy in between may answer, however.
const PING_AFTER: Duration = Duration::from_secs(15);
/// How long it may take to answer that.
const PING_LIMIT: Duration = Duration::from_secs(10);
/// How often the kernel asks, in parts of [`PING_LIMIT`], before it gives up.
const KERNEL_PINGS: u32 = 3;

/// How the API server is reached.
#[derive(Clone, Debug, Default)]
pub struct ConnectionConfig {
    /// `clientConnection.kubeconfig` or `--kubeconfig`; in-cluster credentials are used without it.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: overrides the address in the kubeconfig.
    pub master: Option<String>,
    /// `clientConnection.qps`; negative: no limit.
    pub qps: f32,
    /// `clientConnection.burst`.
    pub burst: i32,
}

/// The clients of a scheduler.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Lists, watches, bindings and status patches.
    pub main: ApiClient,
    /// Events: they must not hold up bindings, hence the limit of their own.
    pub events: ApiClient,
    /// The lease of the leader: nothing must hold it up.
    pub leases: ApiClient,
}

impl Clients {
    /// The same, where nothing but the lease is written unless this instance leads.
    pub(crate) fn led_by(&self, leadership: &Leadership) -> Self {
        let Self { main, events, leases } = self;
        Self { main: main.led_by(leadership), events: events.led_by(leadership), leases: leases.clone() }
    }

    /// The same clients, their requests counted.
    pub fn measured(&self, metrics: &Metrics) -> Self {
        let meter = Arc::new(metrics.client(self.main.host()));
        let measured = |client: &ApiClient| client.measured_by(meter.clone());
        Self { main: measured(&self.main), events: measured(&self.events), leases: measured(&self.leases) }
    }
}

/// Why no client can be made.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Neither a kubeconfig nor an address is given, and this is no pod of a cluster.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment \
         variable"
    )]
    NoConfiguration,
    /// The kubeconfig is of no use.
    #[error("{}", kubeconfig_text(path, source))]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// The address is none.
    #[error("invalid address of the API server {address:?}: {source}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        source: http::uri::InvalidUri,
    },
    /// `tls-server-name` is no name.
    #[error("tls-server-name {name:?} of the kubeconfig is not the name of a server: {source}")]
    ServerName {
        /// As it was given.
        name: String,
        /// What is wrong with it.
        source: rustls::pki_types::InvalidDnsNameError,
    },
    /// Certificates or credentials are of no use.
    #[error("credentials for the API server: {0}")]
    Credentials(#[from] kube::Error),
}

impl ConnectionConfig {
    /// Reads the configuration and makes clients. Does not connect yet.
    ///
    /// # Errors
    /// When there is no configuration, or it is of no use.
    pub async fn clients(&self) -> Result<Clients, ClientError> {
        // Without this, a second provider that some dependency turns on would leave the process without a default.
        // Fails when a default is set already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let network = over_network(&self.kube_config().await?)?;
        let limiter = || RateLimiter::new(self.qps, self.burst);
        Ok(Clients {
            main: network.limited(limiter()),
            events: network.limited(limiter()),
            leases: network.apart().limited(limiter()),
        })
    }

    /// Whether the kubeconfig can be read, if there is one. Does not connect.
    ///
    /// # Errors
    /// When it is of no use.
    pub async fn check(&self) -> Result<(), ClientError> {
        match &self.kubeconfig {
            Some(path) => from_file(path).await.map(drop),
            None => Ok(()),
        }
    }

    async fn kube_config(&self) -> Result<Config, ClientError> {
        let mut config = match &self.kubeconfig {
            Some(path) => from_file(path).await?,
            None => match &self.master {
                Some(master) => Config::new(address(master)?),
                None => without_file()?,
            },
        };
        if let Some(master) = &self.master {
            config.cluster_url = address(master)?;
        }
        Ok(config)
    }
}

/// A client for questions about those who send requests to this process (TokenReview, SubjectAccessReview), as
/// kube-scheduler has one for each of `--authentication-kubeconfig` and `--authorization-kubeconfig`: with the credentials
/// of that file, or those of the pod that this process runs in. `None` if it is neither. 200 requests per second, 400 at
/// once.
///
/// # Errors
/// When the kubeconfig is of no use.
pub async fn reviewer(kubeconfig: Option<&Path>) -> Result<Option<ApiClient>, ClientError> {
    // See [`ConnectionConfig::clients`].
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match kubeconfig {
        Some(path) => from_file(&path.to_owned()).await?,
        None => match Config::incluster() {
            Ok(config) => config,
            Err(kube::config::InClusterError::ReadEnvironmentVariable(_)) => return Ok(None),
            Err(error) => {
                tracing::warn!(err = %error, "failed to read in-cluster kubeconfig for delegated reviews");
                return Ok(None);
            }
        },
    };
    Ok(Some(over_network(&config)?.limited(RateLimiter::new(200.0, 400))))
}

/// What is wrong with a kubeconfig, and what to do about it.
fn kubeconfig_text(path: &Path, error: &KubeconfigError) -> String {
    let path = path.display();
    match error {
        KubeconfigError::ReadConfig(error, _) => format!(
            "kubeconfig {path} cannot be read: {error}; name the right file with --kubeconfig, or with \
             clientConnection.kubeconfig in the file of --config, which wins"
        ),
        KubeconfigError::Parse(error) => format!("kubeconfig {path} is not a valid kubeconfig: {error}"),
        KubeconfigError::CurrentContextNotSet => format!(
            "kubeconfig {path} has no current-context: choose one of its contexts with \
             `kubectl config use-context NAME --kubeconfig {path}`"
        ),
        KubeconfigError::LoadContext(name) => {
            format!("kubeconfig {path}: current-context is {name:?}, but contexts has no such entry")
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!(
                "kubeconfig {path}: the current context is for the cluster {name:?}, but clusters has no such entry"
            )
        }
        KubeconfigError::MissingClusterUrl => {
            format!("kubeconfig {path}: the cluster of the current context has no server")
        }
        error => format!("kubeconfig {path}: {error}"),
    }
}

async fn from_file(path: &PathBuf) -> Result<Config, ClientError> {
    let failed = |source| ClientError::Kubeconfig { path: path.clone(), source };
    let file = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)
}

/// The service account of the pod that this process runs in, or the address that the environment names.
fn without_file() -> Result<Config, ClientError> {
    tracing::warn!(
        "Neither --kubeconfig nor --master was specified. Using the inClusterConfig. This might not work."
    );
    match Config::incluster() {
        Ok(config) => Ok(config),
        Err(error) => {
            if !matches!(error, kube::config::InClusterError::ReadEnvironmentVariable(_)) {
                tracing::warn!(err = %error, "error creating inClusterConfig, falling back to default config");
            }
            match std::env::var("KUBERNETES_MASTER") {
                Ok(master) if !master.is_empty() => Ok(Config::new(address(&master)?)),
                _ => Err(ClientError::NoConfiguration),
            }
        }
    }
}

/// An address without a scheme is plain HTTP, as for client-go.
fn address(given: &str) -> Result<Uri, ClientError> {
    let full = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    full.parse().map_err(|source| ClientError::Address { address: given.to_owned(), source })
}

fn over_network(config: &Config) -> Result<ApiClient, ClientError> {
    let dialler = Arc::new(Dialler::new(config)?);
    let network = service_fn(move |mut request: Request<RequestBody>| {
        // Not to be kept where the connections are: the age would keep itself alive.
        let via = request.extensions_mut().remove::<Via>();
        let reply = via.map(|via| {
            let pools = via.age.pools.get_or_init(|| dialler.pools());
            if via.is_stream { &pools.streams } else { &pools.requests }.request(request)
        });
        async move {
            let reply = reply.ok_or("a request that belongs to no age")?.await?;
            Ok(reply.map(|body| body.map_err(BoxError::from).boxed_unsync()))
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
    Ok(ApiClient::over(service).to(config.cluster_url.to_string()))
}

/// A new connection, or why there is none.
pub(crate) type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;
type Pool = legacy::Client<Connector, RequestBody>;

/// The connections of an age.
pub(crate) struct Pools {
    requests: Pool,
    streams: Pool,
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").finish_non_exhaustive()
    }
}

/// Makes connections.
struct Dialler {
    /// HTTP/1.1, where an exchange costs less than over HTTP/2, and bindings at once are bounded anyway.
    requests: Connector,
    /// HTTP/2 where the server has it: a connection can be asked whether it lives.
    streams: Connector,
}

impl Dialler {
    fn new(config: &Config) -> Result<Self, ClientError> {
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
        })
    }

    fn pools(&self) -> Pools {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(2 * BINDINGS_AT_ONCE)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_LIMIT)
            .http2_keep_alive_while_idle(true);
        Pools { requests: builder.build(self.requests.clone()), streams: builder.build(self.streams.clone()) }
    }
}

pub(crate) fn connector(tls: ClientConfig, name: Option<ServerName<'static>>, http2: bool) -> Connector {
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

/// In the form of Kubernetes' components: `name/version (os/arch) kubernetes/commit/purpose`.
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

    #[tokio::test]
    async fn without_any_configuration_the_message_is_that_of_kubernetes() {
        // The tests run in no pod and with no address in the environment.
        let error = ConnectionConfig::default().clients().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
        );
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_of_no_use_is_named_with_what_to_do() {
        let directory = std::env::temp_dir().join(format!("harbormaster-kubeconfig-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("config");
        let context = "contexts: [{name: a, context: {cluster: b}}]\n";
        let no_cluster = format!("current-context: a\n{context}");
        let no_server = format!("{no_cluster}clusters: [{{name: b, cluster: {{}}}}]\n");
        for (text, expected) in [
            (None, "cannot be read: No such file or directory"),
            (Some(""), "has no current-context: choose one"),
            (Some("clusters: nothing"), "is not a valid kubeconfig: "),
            (Some("current-context: a"), "current-context is \"a\", but contexts has no such entry"),
            (Some(&no_cluster), "the cluster \"b\", but clusters has no such entry"),
            (Some(&no_server), "the cluster of the current context has no server"),
        ] {
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let config = ConnectionConfig { kubeconfig: Some(path.clone()), ..Default::default() };
            let error = config.clients().await.unwrap_err().to_string();
            assert!(error.starts_with(&format!("kubeconfig {}", path.display())), "{error}");
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn an_address_without_a_scheme_is_plain_http() {
        let config = ConnectionConfig { master: Some("127.0.0.1:8080".into()), ..Default::default() };
        assert_eq!(config.kube_config().await.unwrap().cluster_url.to_string(), "http://127.0.0.1:8080/");
        assert!(address("http://a b").is_err());
    }

    #[tokio::test]
    async fn a_refused_connection_is_an_error_that_says_so() {
        let config =
            ConnectionConfig { master: Some("http://127.0.0.1:1".into()), qps: -1.0, ..Default::default() };
        let clients = config.clients().await.unwrap();
        let error = clients.main.get("/api/v1/pods").await.unwrap_err();
        assert!(error.is_passing());
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
