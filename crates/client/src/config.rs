//! Address, credentials and limits of a client.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use http::Uri;
use thiserror::Error;

use crate::{
    access::{InClusterError, ServerAccess},
    client::{ApiClient, Encoding},
    credentials::{Credentials, CredentialsError},
    kubeconfig::{self, KubeconfigError},
    limiter::RateLimiter,
    network::over_network,
    tls::TlsError,
};

/// Address, credentials and limits of a client.
#[derive(Clone, Debug, Default)]
pub struct ConnectionConfig {
    /// `clientConnection.kubeconfig` or `--kubeconfig`. If neither this nor `master` is given, the credentials of the
    /// pod are used.
    pub kubeconfig: Option<PathBuf>,
    /// Name of a context of the kubeconfig; the current context if none is given.
    pub context: Option<String>,
    /// `--master`: the address of the API server; overrides the address in the kubeconfig.
    pub master: Option<String>,
    /// `clientConnection.qps`; a negative value means no limit.
    pub qps: f32,
    /// `clientConnection.burst`.
    pub burst: i32,
    /// Preferred encoding (`clientConnection.contentType`).
    pub encoding: Encoding,
    /// Replacements for what the kubeconfig says.
    pub overrides: Overrides,
}

/// Credentials and trust that replace those of a kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// File that contains a bearer token. Replaces all credentials.
    pub token_file: Option<PathBuf>,
    /// File with the certificates of the authorities that may have signed the server's certificate, in PEM.
    pub authority: Option<PathBuf>,
    /// True if every certificate is accepted.
    pub insecure: bool,
}

impl Overrides {
    fn apply(&self, access: &mut ServerAccess) -> Result<(), ClientError> {
        if let Some(path) = &self.token_file {
            access.credentials = Credentials::TokenFile { path: path.clone(), fallback: None };
            access.tls.identity = None;
            access.impersonation.clear();
        }
        if let Some(path) = &self.authority {
            let read = fs::read(path);
            let authorities = read.map_err(|source| ClientError::Authority { path: path.clone(), source })?;
            access.tls.authorities = Some(authorities);
            access.tls.insecure = false;
        }
        access.tls.insecure |= self.insecure;
        Ok(())
    }
}

/// The reason why no client can be created.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is neither a kubeconfig nor an address, and the process does not run in a pod.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment \
         variable"
    )]
    NoConfiguration,
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {}{}{source}", path.display(), source.joint())]
    Kubeconfig {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: KubeconfigError,
    },
    /// The address is invalid.
    #[error("invalid address of the API server {address:?}: {source}")]
    Address {
        /// The address as given.
        address: String,
        /// The cause.
        source: http::uri::InvalidUri,
    },
    /// The certificates of the authorities cannot be read.
    #[error("certificate authority {}: {source}", path.display())]
    Authority {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("credentials for the API server: {0}")]
    Tls(#[from] TlsError),
    /// The credentials cannot be obtained or sent.
    #[error("credentials for the API server: {0}")]
    Credentials(#[from] CredentialsError),
}

impl ConnectionConfig {
    /// Reads the configuration and returns a client that keeps at most `idle_connections` idle connections. Does not
    /// connect yet.
    ///
    /// # Errors
    /// If there is no configuration, or the configuration cannot be used.
    pub async fn client(&self, idle_connections: usize) -> Result<ApiClient, ClientError> {
        install_crypto_provider();
        let client = over_network(self.access()?, idle_connections).await?;
        Ok(client.with_limiter(self.limiter()).with_encoding(self.encoding))
    }

    /// Returns a rate limiter with `qps` and `burst`.
    pub fn limiter(&self) -> Option<RateLimiter> {
        RateLimiter::new(self.qps, self.burst)
    }

    /// Reads the kubeconfig, if there is one. Does not connect.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub fn check(&self) -> Result<(), ClientError> {
        self.kubeconfig.as_deref().map_or(Ok(()), |path| from_file(path, self.context.as_deref()).map(drop))
    }

    fn access(&self) -> Result<ServerAccess, ClientError> {
        let mut access = match &self.kubeconfig {
            Some(path) => from_file(path, self.context.as_deref())?,
            None => match &self.master {
                Some(master) => ServerAccess::to(address(master)?),
                None => without_file()?,
            },
        };
        if let Some(master) = &self.master {
            access.server = address(master)?;
        }
        self.overrides.apply(&mut access)?;
        Ok(access)
    }
}

/// Returns a client for TokenReview and SubjectAccessReview, with the credentials of `kubeconfig` or of the pod in
/// which this process runs; `None` if there is no kubeconfig and the credentials of a pod cannot be read.
/// kube-scheduler has one such client for `--authentication-kubeconfig` and one for `--authorization-kubeconfig`. The
/// rate limit is 200 requests per second with a burst of 400.
///
/// # Errors
/// If the kubeconfig cannot be used.
pub async fn reviewer(
    kubeconfig: Option<&Path>,
    idle_connections: usize,
) -> Result<Option<ApiClient>, ClientError> {
    install_crypto_provider();
    let access = match kubeconfig {
        Some(path) => from_file(path, None)?,
        None => match ServerAccess::in_cluster() {
            Ok(access) => access,
            Err(InClusterError::NotInPod) => return Ok(None),
            Err(error) => {
                tracing::warn!(err = %error, "failed to read in-cluster kubeconfig for delegated reviews");
                return Ok(None);
            }
        },
    };
    let client = over_network(access, idle_connections).await?;
    Ok(Some(client.with_limiter(RateLimiter::new(200.0, 400))))
}

/// Sets the process's default crypto provider. rustls chooses a default only as long as no dependency enables a second
/// provider.
fn install_crypto_provider() {
    // Fails if a default is already set, which is equally good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn from_file(path: &Path, context: Option<&str>) -> Result<ServerAccess, ClientError> {
    kubeconfig::read(path, context)
        .map_err(|source| ClientError::Kubeconfig { path: path.to_owned(), source })
}

/// Returns access with the service account of the pod in which this process runs or, failing that, access to the
/// address in the environment.
fn without_file() -> Result<ServerAccess, ClientError> {
    tracing::warn!(
        "Neither --kubeconfig nor --master was specified. Using the inClusterConfig. This might not work."
    );
    match ServerAccess::in_cluster() {
        Ok(access) => Ok(access),
        Err(error) => {
            if !matches!(error, InClusterError::NotInPod) {
                tracing::warn!(err = %error, "error creating inClusterConfig, falling back to default config");
            }
            match std::env::var("KUBERNETES_MASTER") {
                Ok(master) if !master.is_empty() => Ok(ServerAccess::to(address(&master)?)),
                _ => Err(ClientError::NoConfiguration),
            }
        }
    }
}

/// Parses an address. An address without a scheme means plain HTTP, as in client-go.
fn address(given: &str) -> Result<Uri, ClientError> {
    let full = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    full.parse().map_err(|source| ClientError::Address { address: given.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_error_without_any_configuration_is_that_of_kubernetes() {
        // The tests do not run in a pod, and there is no address in the environment.
        let error = ConnectionConfig::default().client(8).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
        );
    }

    #[tokio::test]
    async fn the_error_for_an_unusable_kubeconfig_names_the_file_and_the_problem() {
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

    #[test]
    fn overrides_replace_credentials_and_trust() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let kubeconfig = file(
            "config",
            "current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\n\
             clusters: [{name: b, cluster: {server: 'https://a', insecure-skip-tls-verify: true}}]\n\
             users: [{name: c, user: {token: t, as: ann}}]\n",
        );
        let overrides = Overrides {
            token_file: Some(file("token", "t")),
            authority: Some(file("ca", "certificate")),
            insecure: false,
        };
        let config = ConnectionConfig { kubeconfig: Some(kubeconfig), overrides, ..Default::default() };
        let access = config.access().unwrap();
        assert!(
            matches!(access.credentials, Credentials::TokenFile { .. }) && access.impersonation.is_empty()
        );
        assert_eq!(
            (access.tls.authorities.as_deref(), access.tls.insecure),
            (Some(&b"certificate"[..]), false)
        );
    }

    #[test]
    fn an_address_without_a_scheme_is_plain_http() {
        let config = ConnectionConfig { master: Some("127.0.0.1:8080".into()), ..Default::default() };
        assert_eq!(config.access().unwrap().server.to_string(), "http://127.0.0.1:8080/");
        assert!(address("http://a b").is_err());
    }

    #[tokio::test]
    async fn the_error_for_a_refused_connection_mentions_the_refusal() {
        let config =
            ConnectionConfig { master: Some("http://127.0.0.1:1".into()), qps: -1.0, ..Default::default() };
        let client = config.client(8).await.unwrap();
        let error = client.get("/api/v1/pods").await.unwrap_err();
        assert!(error.is_passing());
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
