//! Files that may change while the port is open: certificates, keys and authorities.
//!
//! The files are checked every five seconds ([`INTERVAL`]). In kube-scheduler, the kernel reports changes, and the
//! files are also checked every minute.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use harbormaster_serve::{CertificateFiles, WatchedFiles, files::INTERVAL};
use rustls::sign::CertifiedKey;

use crate::{
    certificates::{self, Certificates},
    client_certificate::Authorities,
    options::{Authentication, Options, RequestHeader},
    proxy::Proxies,
    tls::Policy,
    tls_state::TlsState,
    trust::Trust,
};

/// A server certificate that is read from files.
#[derive(Debug)]
struct NamedCertificate {
    files: CertificateFiles,
    /// Names that a flag assigns to the certificate.
    names: Vec<String>,
}

impl NamedCertificate {
    fn open(cert: &Path, key: &Path, names: &[String], policy: &Policy) -> Result<Self, String> {
        let files = CertificateFiles::open(cert, key, policy.provider().clone())?;
        Ok(Self { files, names: names.to_vec() })
    }

    /// Reads a new version, if there is one; logs an error if it cannot be used. Returns true if a new version was
    /// loaded.
    fn refresh(&mut self) -> bool {
        let refreshed = self.files.refresh();
        match &refreshed {
            Ok(true) => tracing::debug!(v = 2, files = self.files.names(), "Loaded a new cert/key pair"),
            Ok(false) => {}
            Err(why) => tracing::error!(
                err = why,
                files = self.files.names(),
                "The new certificate cannot be used; the old one stays in use"
            ),
        }
        refreshed.unwrap_or(false)
    }
}

/// All files of the port.
#[derive(Debug)]
pub(crate) struct Files {
    /// The default certificate if no flag names a certificate file; otherwise `None`.
    made: Option<Arc<CertifiedKey>>,
    pairs: Vec<NamedCertificate>,
    clients: Option<WatchedFiles>,
    proxies: Option<WatchedFiles>,
    headers: RequestHeader,
}

impl Files {
    /// Reads all files.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn open(options: &Options, policy: Policy) -> Result<(Self, TlsState), String> {
        let serving = &options.serving;
        let mut pairs = Vec::new();
        let mut made = None;
        match (&serving.cert_file, &serving.key_file) {
            (Some(cert), Some(key)) => pairs.push(NamedCertificate::open(cert, key, &[], &policy)?),
            (None, None) => made = Some(certificates::own(serving)?.parse(policy.provider())?),
            (Some(_), None) => {
                return Err(
                    "--tls-cert-file needs --tls-private-key-file: missing filename for serving cert"
                        .to_owned(),
                );
            }
            (None, Some(_)) => {
                return Err(
                    "--tls-private-key-file needs --tls-cert-file: missing filename for serving cert"
                        .to_owned(),
                );
            }
        }
        for pair in &serving.sni {
            let opened = NamedCertificate::open(&pair.cert_file, &pair.key_file, &pair.names, &policy);
            pairs.push(opened.map_err(|why| format!("failed to load SNI cert and key: {why}"))?);
        }
        let Authentication { client_ca_file, request_header, .. } = &options.authentication;
        let mut trust = Trust::default();
        let clients = bundle(client_ca_file.as_ref())
            .map_err(|why| format!("unable to load client CA provider: {why}"))?;
        let clients = clients.map(|(files, authorities)| {
            trust.clients = Some(authorities);
            files
        });
        let proxies = bundle(request_header.client_ca_file.as_ref())
            .map_err(|why| format!("unable to create request header authentication config: {why}"))?;
        let proxies = proxies.map(|(files, authorities)| {
            trust.proxies = Some(Proxies { authorities, headers: request_header.clone() });
            files
        });
        let files = Self { made, pairs, clients, proxies, headers: request_header.clone() };
        let asks = trust.clients.is_some() || trust.proxies.is_some() || !options.authentication.skip_lookup;
        let secured = TlsState::new(policy, files.certificates(), trust, asks).map_err(|e| e.to_string())?;
        Ok((files, secured))
    }

    /// Returns two flags: true if a file contains the authorities for clients, and true if a file contains the
    /// authorities for proxies.
    pub(crate) fn has_authorities(&self) -> (bool, bool) {
        (self.clients.is_some(), self.proxies.is_some())
    }

    fn certificates(&self) -> Certificates {
        let (default, named) = match &self.made {
            Some(made) => (made.clone(), &self.pairs[..]),
            None => (self.pairs[0].files.current().clone(), &self.pairs[1..]),
        };
        let named: Vec<_> =
            named.iter().map(|pair| (pair.names.clone(), pair.files.current().clone())).collect();
        Certificates::new(default, &named)
    }

    /// Reloads files whenever they change; never returns.
    pub(crate) async fn follow(mut self, secured: Arc<TlsState>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.look(&secured);
        }
    }

    pub(crate) fn look(&mut self, secured: &TlsState) {
        let mut changed = false;
        for pair in &mut self.pairs {
            changed |= pair.refresh();
        }
        if changed {
            secured.set_certificates(self.certificates());
        }
        if let Some(authorities) = self.clients.as_mut().and_then(renewed) {
            secured.change_trust(|trust| trust.clients = Some(authorities));
        }
        if let Some(authorities) = self.proxies.as_mut().and_then(renewed) {
            let headers = self.headers.clone();
            secured.change_trust(|trust| trust.proxies = Some(Proxies { authorities, headers }));
        }
    }
}

fn bundle(path: Option<&PathBuf>) -> Result<Option<(WatchedFiles, Authorities)>, String> {
    let Some(path) = path else { return Ok(None) };
    let (files, texts) = WatchedFiles::open(vec![path.clone()])?;
    let authorities =
        Authorities::parse(&texts.concat()).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(Some((files, authorities)))
}

/// Returns the authorities in a new version of a file, if there is one. Logs an error if the new version cannot be
/// used.
fn renewed(files: &mut WatchedFiles) -> Option<Authorities> {
    let now = files.changed()?;
    match now.and_then(|texts| Authorities::parse(&texts.concat())) {
        Ok(authorities) => {
            tracing::debug!(v = 2, file = files.names(), "Loaded a new CA Bundle and Verifier");
            Some(authorities)
        }
        Err(why) => {
            tracing::error!(
                err = why,
                file = files.names(),
                "The new authorities cannot be used; the old ones stay in use"
            );
            None
        }
    }
}
