//! Address, credentials and limits of a client.

use std::path::{Path, PathBuf};

use http::Uri;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

use crate::{client::ApiClient, limiter::RateLimiter, network::over_network};

/// Address, credentials and limits of a client.
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

/// Reason why no client can be made.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is neither a kubeconfig nor an address, and the process does not run in a pod.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment \
         variable"
    )]
    NoConfiguration,
    /// The kubeconfig cannot be used.
    #[error("{}", kubeconfig_text(path, source))]
    Kubeconfig {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: KubeconfigError,
    },
    /// The address is invalid.
    #[error("invalid address of the API server {address:?}: {source}")]
    Address {
        /// The address as given.
        address: String,
        /// Cause.
        source: http::uri::InvalidUri,
    },
    /// `tls-server-name` is not a valid name.
    #[error("tls-server-name {name:?} of the kubeconfig is not the name of a server: {source}")]
    ServerName {
        /// The name as given.
        name: String,
        /// Cause.
        source: rustls::pki_types::InvalidDnsNameError,
    },
    /// Certificates or credentials cannot be used.
    #[error("credentials for the API server: {0}")]
    Credentials(#[from] kube::Error),
}

impl ConnectionConfig {
    /// Reads the configuration and returns a client that keeps at most `idle_connections` idle connections. Does not connect
    /// yet.
    ///
    /// # Errors
    /// If there is no configuration, or it cannot be used.
    pub async fn client(&self, idle_connections: usize) -> Result<ApiClient, ClientError> {
        install_crypto_provider();
        let client = over_network(&self.kube_config().await?, idle_connections)?;
        Ok(client.with_limiter(self.limiter()))
    }

    /// Returns a rate limiter with `qps` and `burst`.
    pub fn limiter(&self) -> Option<RateLimiter> {
        RateLimiter::new(self.qps, self.burst)
    }

    /// Reads the kubeconfig, if there is one. Does not connect.
    ///
    /// # Errors
    /// If it cannot be used.
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

/// Returns a client for TokenReview and SubjectAccessReview, with the credentials of `kubeconfig` or those of the pod that
/// this process runs in; `None` if there are neither. kube-scheduler has one such client for each of
/// `--authentication-kubeconfig` and `--authorization-kubeconfig`. The rate limit is 200 requests per second, 400 at once.
///
/// # Errors
/// If the kubeconfig cannot be used.
pub async fn reviewer(
    kubeconfig: Option<&Path>,
    idle_connections: usize,
) -> Result<Option<ApiClient>, ClientError> {
    install_crypto_provider();
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
    let client = over_network(&config, idle_connections)?;
    Ok(Some(client.with_limiter(RateLimiter::new(200.0, 400))))
}

/// Sets the default provider of the process: without this, a second provider that some dependency enables would leave the
/// process without a default.
fn install_crypto_provider() {
    // Fails if a default is set already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns an error message with advice.
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

/// Returns the service account of the pod that this process runs in, or the address in the environment.
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

/// Parses an address. Without a scheme it is plain HTTP, as for client-go.
fn address(given: &str) -> Result<Uri, ClientError> {
    let full = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    full.parse().map_err(|source| ClientError::Address { address: given.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_any_configuration_the_message_is_that_of_kubernetes() {
        // The tests run in no pod and with no address in the environment.
        let error = ConnectionConfig::default().client(8).await.unwrap_err();
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
            let error = config.client(8).await.unwrap_err().to_string();
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
        let client = config.client(8).await.unwrap();
        let error = client.get("/api/v1/pods").await.unwrap_err();
        assert!(error.is_passing());
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
