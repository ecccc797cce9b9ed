//! TLS: the server's certificate and the certificate authorities for clients.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_serve::{CertificateFiles, HTTP1, Latest, authorities, files::INTERVAL};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use tokio::time::sleep;

use crate::server::TlsFiles;

/// The certificate that is currently presented to clients.
#[derive(Debug)]
pub(crate) struct Certificate {
    paths: TlsFiles,
    provider: Arc<CryptoProvider>,
    files: Mutex<CertificateFiles>,
    current: Latest<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn open(paths: &TlsFiles) -> Result<Arc<Self>, String> {
        let provider = Arc::new(ring::default_provider());
        let files = CertificateFiles::open(&paths.certificate, &paths.key, provider.clone())?;
        let current = Latest::new(files.current().clone());
        Ok(Arc::new(Self { paths: paths.clone(), provider, files: Mutex::new(files), current }))
    }

    /// Returns the TLS configuration. Reads the file of client authorities, which is not reloaded when it changes.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.paths.client_ca {
            Some(path) => {
                let wrong = |why: String| format!("{}: {why}", path.display());
                let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
                let roots = Arc::new(authorities(&pem).map_err(wrong)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone()).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| wrong(error.to_string()))?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.clone());
        config.alpn_protocols = vec![HTTP1.to_vec()];
        Ok(config)
    }

    /// Keeps reloading the certificate and its key when their files change; never returns.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            sleep(INTERVAL).await;
            match self.refresh() {
                Ok(true) => {
                    tracing::info!(file = %self.paths.certificate.display(), "A new certificate is in use");
                }
                Ok(false) => {}
                Err(why) => {
                    tracing::error!(why, "The new certificate cannot be used; the old one stays in use");
                }
            }
        }
    }

    fn refresh(&self) -> Result<bool, String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = files.refresh()?;
        if is_new {
            self.current.set(files.current().clone());
        }
        Ok(is_new)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_contain_the_path_of_the_unusable_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut files = TlsFiles { certificate: path("tls.crt"), key: path("tls.key"), client_ca: None };
        assert!(Certificate::open(&files).unwrap_err().contains("tls.crt: No such file"));
        let made = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        fs::write(&files.certificate, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files.client_ca = Some(files.key.clone());
        let certificate = Certificate::open(&files).unwrap();
        assert!(certificate.server_config().unwrap_err().contains("tls.key: no PEM block"));
        files.client_ca = Some(files.certificate.clone());
        assert!(Certificate::open(&files).unwrap().server_config().is_ok());
    }
}
