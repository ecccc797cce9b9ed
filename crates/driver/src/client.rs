//! How the API server is reached: address, credentials and limits.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Uri, header::USER_AGENT};
use http_body_util::BodyExt;
use hyper_util::{client::legacy, client::legacy::connect::HttpConnector, rt::TokioExecutor, rt::TokioTimer};
use kube::{
    Config,
    client::ConfigExt,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use crate::{
    binder::BINDINGS_AT_ONCE,
    http::{ApiClient, RequestBody},
    limiter::RateLimiter,
};

/// How long connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How often a silent connection is probed, so that one to a vanished server is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

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
    #[error("kubeconfig {}: {source}", path.display())]
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
        Ok(Clients { main: network.limited(limiter()), events: network.limited(limiter()) })
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
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    connector.set_keepalive(Some(KEEP_ALIVE));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    // HTTP/1.1 with kept connections: an exchange costs less than on HTTP/2, and bindings at once are bounded anyway.
    let http: legacy::Client<_, RequestBody> = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(2 * BINDINGS_AT_ONCE)
        .build(connector);
    let mut config = config.clone();
    config.headers.push((USER_AGENT, user_agent()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http)
        .map_response(|reply| reply.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        .map_err(BoxError::from);
    Ok(ApiClient::over(service))
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
    async fn a_missing_kubeconfig_is_named() {
        let config = ConnectionConfig { kubeconfig: Some("/nowhere/config".into()), ..Default::default() };
        let error = config.clients().await.unwrap_err().to_string();
        assert!(error.starts_with("kubeconfig /nowhere/config: "), "{error}");
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
