//! Certificates and certificate authorities in PEM.

use std::{fmt, path::Path, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use crate::files::WatchedFiles;

/// A certificate and its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct PemPair {
    /// The certificate, followed by the intermediate certificates.
    pub cert: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

impl fmt::Debug for PemPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key must not appear in logs.
        f.debug_struct("PemPair").finish_non_exhaustive()
    }
}

impl PemPair {
    /// Parses the certificate and the key.
    ///
    /// # Errors
    /// If the certificate or the key cannot be used, or they do not match.
    pub fn parse(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.cert).collect();
        let chain = chain.map_err(|e| format!("the certificate is not PEM: {e}"))?;
        if chain.is_empty() {
            return Err("the certificate file has no PEM block \"CERTIFICATE\"".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|e| format!("the private key is not PEM or has an unknown type: {e}"))?;
        let pair = CertifiedKey::from_der(chain, key, provider)
            .map_err(|e| format!("the certificate and its key cannot be used: {e}"))?;
        Ok(Arc::new(pair))
    }
}

/// Parses the certificates of certificate authorities.
///
/// # Errors
/// If there is no certificate, or a certificate cannot be used.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| format!("not PEM: {e}"))?;
        roots.add(certificate).map_err(|e| format!("a certificate cannot be used: {e}"))?;
    }
    if roots.is_empty() {
        return Err("no PEM block \"CERTIFICATE\"".to_owned());
    }
    Ok(roots)
}

/// A certificate and its key, in files whose content may be renewed.
#[derive(Debug)]
pub struct CertificateFiles {
    files: WatchedFiles,
    provider: Arc<CryptoProvider>,
    current: Arc<CertifiedKey>,
}

impl CertificateFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// If the files cannot be read or used; the message contains their paths.
    pub fn open(cert: &Path, key: &Path, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let (files, texts) = WatchedFiles::open(vec![cert.to_owned(), key.to_owned()])?;
        let current = parse(texts, &provider).map_err(|why| format!("{}: {why}", files.names()))?;
        Ok(Self { files, provider, current })
    }

    /// Returns the last usable certificate that was read.
    pub fn current(&self) -> &Arc<CertifiedKey> {
        &self.current
    }

    /// Returns the paths, for messages.
    pub fn names(&self) -> String {
        self.files.names()
    }

    /// Reads the files again. Returns true if there is a new version.
    ///
    /// # Errors
    /// If the new version cannot be used; each unusable version is reported once. The previous certificate stays in
    /// use.
    pub fn refresh(&mut self) -> Result<bool, String> {
        let Some(now) = self.files.changed() else { return Ok(false) };
        self.current = parse(now?, &self.provider)?;
        Ok(true)
    }
}

fn parse(texts: Vec<Vec<u8>>, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, String> {
    match <[Vec<u8>; 2]>::try_from(texts) {
        Ok([cert, key]) => PemPair { cert, key }.parse(provider),
        Err(_) => Err("not a certificate and its key".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::crypto::ring;

    use super::*;

    fn pair(name: &str) -> PemPair {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        PemPair { cert: made.cert.pem().into_bytes(), key: made.signing_key.serialize_pem().into_bytes() }
    }

    fn parsed(pair: &PemPair) -> Result<Arc<CertifiedKey>, String> {
        pair.parse(&ring::default_provider())
    }

    #[test]
    fn a_certificate_and_a_key_that_do_not_match_are_refused() {
        let (one, other) = (pair("a"), pair("b"));
        assert!(parsed(&one).is_ok());
        let mixed = PemPair { cert: one.cert.clone(), key: other.key };
        assert!(parsed(&mixed).unwrap_err().contains("cannot be used"));
        let no_key = PemPair { cert: one.cert.clone(), key: b"x".to_vec() };
        assert!(parsed(&no_key).unwrap_err().contains("private key"));
        let no_cert = PemPair { cert: one.key.clone(), key: one.key };
        assert!(parsed(&no_cert).unwrap_err().contains("CERTIFICATE"));
    }

    #[test]
    fn a_new_certificate_is_used_and_a_broken_one_is_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let write = |name: &str| {
            let pair = pair(name);
            fs::write(&cert, pair.cert).unwrap();
            fs::write(&key, pair.key).unwrap();
        };
        let provider = Arc::new(ring::default_provider());
        let missing = CertificateFiles::open(&cert, &key, provider.clone()).unwrap_err();
        assert!(missing.contains("tls.crt: No such file"), "{missing}");
        write("a");
        let mut files = CertificateFiles::open(&cert, &key, provider).unwrap();
        let first = files.current().clone();
        assert_eq!(files.refresh(), Ok(false));
        write("b");
        assert_eq!(files.refresh(), Ok(true));
        let second = files.current().clone();
        assert_ne!(first.cert, second.cert);
        fs::write(&key, "x").unwrap();
        assert!(files.refresh().unwrap_err().contains("private key"));
        assert_eq!(files.refresh(), Ok(false));
        assert!(Arc::ptr_eq(files.current(), &second));
    }
}
