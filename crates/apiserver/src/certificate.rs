//! A certificate for a server on this machine, and the kubeconfig that trusts it.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use harbormaster_serve::{HTTP1, HTTP2};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// A self-signed certificate with its key.
pub struct Certificate {
    signed: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the private key.
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

impl Certificate {
    /// Creates a certificate for the given names and addresses, and for `localhost`, `127.0.0.1`, `::1` and
    /// `kubernetes`.
    ///
    /// # Errors
    /// When a name is invalid.
    pub fn self_signed(names: &[&str]) -> io::Result<Self> {
        let mut all =
            vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), "kubernetes".to_owned()];
        all.extend(names.iter().map(ToString::to_string));
        let signed = rcgen::generate_simple_self_signed(all).map_err(io::Error::other)?;
        Ok(Self { signed })
    }

    /// Returns the certificate that clients trust, as PEM.
    pub fn authority_pem(&self) -> String {
        self.signed.cert.pem()
    }

    pub(crate) fn server_config(&self) -> io::Result<ServerConfig> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.signed.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![self.signed.cert.der().clone()], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(config)
    }
}

/// Returns a kubeconfig for a server at the given address. Clients use HTTPS if an authority (PEM) is given. If no
/// token is given, they send a placeholder.
pub fn kubeconfig_yaml(address: SocketAddr, authority_pem: Option<&str>, token: Option<&str>) -> String {
    let (scheme, authority) = match authority_pem {
        Some(pem) => ("https", format!("\n    certificate-authority-data: {}", STANDARD.encode(pem))),
        None => ("http", String::new()),
    };
    // Without credentials, kubectl prompts for a user name and password.
    let token = token.unwrap_or("anybody");
    format!(
        "apiVersion: v1
kind: Config
current-context: harbormaster
clusters:
- name: harbormaster
  cluster:
    server: {scheme}://{address}{authority}
users:
- name: admin
  user:
    token: {token:?}
contexts:
- name: harbormaster
  context:
    cluster: harbormaster
    user: admin
"
    )
}
