//! Access to an API server: its address, trust in its certificate, and credentials.

use std::{env, fs, io, net::IpAddr, path::PathBuf};

use http::Uri;
use thiserror::Error;

use crate::{credentials::Credentials, tls::TlsOptions};

/// Access to an API server: its address, trust in its certificate, and credentials.
#[derive(Clone, Debug)]
pub(crate) struct ServerAccess {
    /// Address; its path is a prefix of the path of every request.
    pub server: Uri,
    pub tls: TlsOptions,
    pub credentials: Credentials,
    /// Names and values of the headers that make the server treat requests as those of another user.
    pub impersonation: Vec<(&'static str, String)>,
}

/// Folder where the kubelet mounts a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The reason why the credentials of a pod cannot be used.
#[derive(Debug, Error)]
pub(crate) enum InClusterError {
    /// The process does not run in a pod.
    #[error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined")]
    NotInPod,
    #[error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT form the invalid address {0:?}")]
    Address(String),
    #[error("open {path}: {source}")]
    Read { path: String, source: io::Error },
}

impl ServerAccess {
    /// Returns access to `server`, without credentials.
    pub(crate) fn to(server: Uri) -> Self {
        let (tls, credentials) = (TlsOptions::default(), Credentials::None);
        Self { server, tls, credentials, impersonation: Vec::new() }
    }

    /// Returns access with the service account of the pod in which this process runs.
    pub(crate) fn in_cluster() -> Result<Self, InClusterError> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let host = variable("KUBERNETES_SERVICE_HOST").ok_or(InClusterError::NotInPod)?;
        let port = variable("KUBERNETES_SERVICE_PORT").ok_or(InClusterError::NotInPod)?;
        let server = address(&host, &port);
        let server = server.parse().map_err(|_| InClusterError::Address(server))?;
        let read = |name: &str| {
            let path = format!("{SERVICE_ACCOUNT}/{name}");
            fs::read(&path).map_err(|source| InClusterError::Read { path, source })
        };
        read("token")?;
        let path = PathBuf::from(SERVICE_ACCOUNT).join("token");
        Ok(Self {
            tls: TlsOptions { authorities: Some(read("ca.crt")?), ..TlsOptions::default() },
            credentials: Credentials::TokenFile { path, fallback: None },
            ..Self::to(server)
        })
    }
}

/// Returns the address of the server that a pod's environment variables describe.
fn address(host: &str, port: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V6(host)) => format!("https://[{host}]:{port}"),
        _ => format!("https://{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_is_put_in_brackets() {
        assert_eq!(address("10.0.0.1", "443"), "https://10.0.0.1:443");
        assert_eq!(address("fd00::1", "443"), "https://[fd00::1]:443");
        assert_eq!(address("kubernetes.default", "6443"), "https://kubernetes.default:6443");
    }
}
