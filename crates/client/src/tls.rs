//! TLS for clients: trust in server certificates, and the client's own certificate.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
};
use thiserror::Error;

/// Trust in a server's certificate, and the client's own certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Certificates of the authorities, in PEM; the system's authorities if absent.
    pub authorities: Option<Vec<u8>>,
    /// Certificate and key of the client.
    pub identity: Option<Identity>,
    /// Name for which the server's certificate must be valid; the host in the address if absent.
    pub server_name: Option<String>,
    /// True if every certificate is accepted.
    pub insecure: bool,
}

/// A client's certificate and its private key.
#[derive(Clone)]
pub struct Identity {
    /// Certificate, followed by intermediate certificates, in PEM.
    pub chain: Vec<u8>,
    /// Private key, in PEM: PKCS #8, PKCS #1 or SEC 1.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The reason why certificates cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The authorities are not PEM.
    #[error("{0}")]
    Authorities(#[source] pem::Error),
    /// The given data contains no certificate.
    #[error("the certificate authorities contain no certificate")]
    NoAuthority,
    /// The system has no authorities.
    #[error("the system's certificate authorities cannot be read: {0}")]
    System(#[source] io::Error),
    /// The client's certificate or key is not PEM.
    #[error("{field}: {source}")]
    Identity {
        /// `client-certificate` or `client-key`.
        field: &'static str,
        /// The cause.
        source: pem::Error,
    },
    /// TLS does not accept a certificate authority, or the client's certificate and key.
    #[error(transparent)]
    Refused(#[from] rustls::Error),
    /// The name is not a valid server name.
    #[error("tls-server-name {name:?} is not a valid server name: {source}")]
    ServerName {
        /// The name as given.
        name: String,
        /// The cause.
        source: rustls::pki_types::InvalidDnsNameError,
    },
}

impl TlsOptions {
    /// Returns the configuration for connections.
    ///
    /// # Errors
    /// If the certificates or the key cannot be used.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.with_root_certificates(self.roots()?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let failed = |field| move |source| TlsError::Identity { field, source };
                let chain: Result<_, _> = CertificateDer::pem_slice_iter(&identity.chain).collect();
                let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(failed("client-key"))?;
                builder.with_client_auth_cert(chain.map_err(failed("client-certificate"))?, key)?
            }
        };
        if self.insecure {
            accept_every_certificate(&mut config);
        }
        Ok(config)
    }

    /// Returns the name for which the server's certificate must be valid; `None` means the host in the address.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn expected_name(&self) -> Result<Option<ServerName<'static>>, TlsError> {
        let Some(name) = &self.server_name else { return Ok(None) };
        let parsed = ServerName::try_from(name.clone());
        parsed.map(Some).map_err(|source| TlsError::ServerName { name: name.clone(), source })
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            // If every certificate is accepted, no authorities are needed.
            _ if self.insecure => {}
            Some(authorities) => {
                for authority in CertificateDer::pem_slice_iter(authorities) {
                    roots.add(authority.map_err(TlsError::Authorities)?)?;
                }
                if roots.is_empty() {
                    return Err(TlsError::NoAuthority);
                }
            }
            None => {
                let system = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(system.certs);
                if roots.is_empty() {
                    let why = system.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                    return Err(TlsError::System(io::Error::other(why)));
                }
            }
        }
        Ok(roots)
    }
}

/// Makes `tls` accept every certificate.
pub fn accept_every_certificate(tls: &mut ClientConfig) {
    let unchecked = AcceptAll(tls.crypto_provider().clone());
    tls.dangerous().set_certificate_verifier(Arc::new(unchecked));
}

#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
