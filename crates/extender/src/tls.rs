//! The certificate of the server, and whose clients may ask.

use std::{
    fs,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio::time::sleep;

use crate::server::TlsFiles;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// The certificate that clients get now.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    now: RwLock<(Pem, Arc<CertifiedKey>)>,
}

#[derive(Clone, PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn open(files: &TlsFiles) -> Result<Arc<Self>, String> {
        let provider = Arc::new(ring::default_provider());
        let pem = Pem::read(files)?;
        let key = pem.parse(&provider).map_err(|why| format!("{}: {why}", files.certificate.display()))?;
        Ok(Arc::new(Self { files: files.clone(), provider, now: RwLock::new((pem, key)) }))
    }

    /// How connections are made. Who the clients' authority is, is read once.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.files.client_ca {
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone()).build();
                let verifier = verifier.map_err(|error| format!("{}: {error}", path.display()))?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Takes over new versions of the files, for ever. A version that cannot be used is told of once.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut told = None;
        loop {
            sleep(LOOK).await;
            match self.look() {
                Ok(true) => {
                    tracing::info!(file = %self.files.certificate.display(), "A new certificate is in use");
                    told = None;
                }
                Ok(false) => told = None,
                Err(why) if told.as_ref() == Some(&why) => {}
                Err(why) => {
                    tracing::error!(why, "The new certificate cannot be used; the old one stays");
                    told = Some(why);
                }
            }
        }
    }

    /// Whether there is a new version; it is in use then.
    fn look(&self) -> Result<bool, String> {
        let pem = Pem::read(&self.files)?;
        if self.now.read().unwrap_or_else(PoisonError::into_inner).0 == pem {
            return Ok(false);
        }
        let key = pem.parse(&self.provider)?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = (pem, key);
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now.read().unwrap_or_else(PoisonError::into_inner).1.clone())
    }
}

impl Pem {
    fn read(files: &TlsFiles) -> Result<Self, String> {
        let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(Self { certificate: read(&files.certificate)?, key: read(&files.key)? })
    }

    fn parse(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| format!("the certificate is not PEM: {error}"))?;
        if chain.is_empty() {
            return Err("the file has no PEM block \"CERTIFICATE\"".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| format!("its private key is not PEM, or of no known kind: {error}"))?;
        let pair = CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| format!("the certificate and its key cannot be used: {error}"))?;
        Ok(Arc::new(pair))
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("the file has no PEM block \"CERTIFICATE\"".to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(files: &TlsFiles, name: &str) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        fs::write(&files.certificate, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    }

    fn files(directory: &tempfile::TempDir) -> TlsFiles {
        let path = |name: &str| directory.path().join(name);
        TlsFiles { certificate: path("tls.crt"), key: path("tls.key"), client_ca: None }
    }

    #[test]
    fn a_new_certificate_is_taken_over_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(&directory);
        write(&files, "a");
        let certificate = Certificate::open(&files).unwrap();
        let first = certificate.now.read().unwrap().1.cert.clone();
        assert_eq!(certificate.look(), Ok(false));
        write(&files, "b");
        assert_eq!(certificate.look(), Ok(true));
        let second = certificate.now.read().unwrap().1.cert.clone();
        assert_ne!(first, second);
        fs::write(&files.key, "x").unwrap();
        assert!(certificate.look().unwrap_err().contains("private key"));
        assert_eq!(certificate.now.read().unwrap().1.cert, second);
    }

    #[test]
    fn files_that_are_of_no_use_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = files(&directory);
        assert!(Certificate::open(&files).unwrap_err().contains("tls.crt: No such file"));
        write(&files, "a");
        files.client_ca = Some(files.key.clone());
        let certificate = Certificate::open(&files).unwrap();
        assert!(certificate.server_config().unwrap_err().contains("tls.key: the file has no PEM block"));
        files.client_ca = Some(files.certificate.clone());
        assert!(Certificate::open(&files).unwrap().server_config().is_ok());
    }
}
