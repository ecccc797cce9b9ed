//! Files that are followed: certificates, keys and authorities may be renewed while the port is open.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use rustls::sign::CertifiedKey;

use crate::{
    certificates::{self, Certificates, PemPair},
    client_certificate::Authorities,
    options::{Authentication, Options, RequestHeader},
    proxy::Proxies,
    secured::Secured,
    tls::Policy,
    trust::Trust,
};

/// How often files are looked at. kube-scheduler is told of changes by the kernel, and looks every minute.
const LOOK: Duration = Duration::from_secs(5);

/// Files, with what was in them when they were last looked at.
#[derive(Debug)]
struct Followed {
    paths: Vec<PathBuf>,
    last: Result<Vec<Vec<u8>>, String>,
}

impl Followed {
    fn open(paths: &[&PathBuf]) -> Result<(Self, Vec<Vec<u8>>), String> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
        let texts = read(&paths)?;
        Ok((Self { paths, last: Ok(texts.clone()) }, texts))
    }

    /// What is in the files if it is something else than last time.
    fn changed(&mut self) -> Option<Result<Vec<Vec<u8>>, String>> {
        let now = read(&self.paths);
        if now == self.last {
            return None;
        }
        self.last.clone_from(&now);
        Some(now)
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        names.join(", ")
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let texts = paths.iter().map(|path| match fs::read(path) {
        Ok(text) if text.is_empty() => Err(format!("{} is empty", path.display())),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("{}: {error}", path.display())),
    });
    texts.collect()
}

/// A certificate of the server that comes from files.
#[derive(Debug)]
struct Pair {
    files: Followed,
    /// For which it was given; for all if empty and it is the first.
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

impl Pair {
    fn open(cert: &PathBuf, key: &PathBuf, names: &[String], policy: &Policy) -> Result<Self, String> {
        let (files, texts) = Followed::open(&[cert, key])?;
        let parsed = parse(texts, policy).map_err(|why| format!("{}: {why}", files.names()))?;
        Ok(Self { files, names: names.to_vec(), key: parsed })
    }

    /// Takes a new version; a broken one is told of, and the old one kept.
    fn look(&mut self, policy: &Policy) -> bool {
        let Some(now) = self.files.changed() else { return false };
        match now.and_then(|texts| parse(texts, policy)) {
            Ok(key) => {
                tracing::debug!(v = 2, files = self.files.names(), "Loaded a new cert/key pair");
                self.key = key;
                true
            }
            Err(why) => {
                tracing::error!(
                    err = why,
                    files = self.files.names(),
                    "The new certificate cannot be used; the old one is served on"
                );
                false
            }
        }
    }
}

fn parse(texts: Vec<Vec<u8>>, policy: &Policy) -> Result<Arc<CertifiedKey>, String> {
    match <[Vec<u8>; 2]>::try_from(texts) {
        Ok([cert, key]) => PemPair { cert, key }.parse(policy.provider()),
        Err(_) => Err("not a certificate and its key".to_owned()),
    }
}

/// Everything that comes from files.
#[derive(Debug)]
pub(crate) struct Files {
    /// The certificate for clients that ask for nothing special, if it is not from files.
    made: Option<Arc<CertifiedKey>>,
    pairs: Vec<Pair>,
    clients: Option<Followed>,
    proxies: Option<Followed>,
    headers: RequestHeader,
}

impl Files {
    /// Reads all files once.
    ///
    /// # Errors
    /// When one is of no use.
    pub(crate) fn open(options: &Options, policy: Policy) -> Result<(Self, Secured), String> {
        let serving = &options.serving;
        let mut pairs = Vec::new();
        let mut made = None;
        match (&serving.cert_file, &serving.key_file) {
            (Some(cert), Some(key)) => pairs.push(Pair::open(cert, key, &[], &policy)?),
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
            let opened = Pair::open(&pair.cert_file, &pair.key_file, &pair.names, &policy);
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
        let secured = Secured::new(policy, files.certificates(), trust, asks).map_err(|e| e.to_string())?;
        Ok((files, secured))
    }

    /// Whether the authorities of clients, and of proxies, come from files.
    pub(crate) fn has_authorities(&self) -> (bool, bool) {
        (self.clients.is_some(), self.proxies.is_some())
    }

    fn certificates(&self) -> Certificates {
        let (default, named) = match &self.made {
            Some(made) => (made.clone(), &self.pairs[..]),
            None => (self.pairs[0].key.clone(), &self.pairs[1..]),
        };
        let named: Vec<_> = named.iter().map(|pair| (pair.names.clone(), pair.key.clone())).collect();
        Certificates::new(default, &named)
    }

    /// Looks at the files again and again.
    pub(crate) async fn follow(mut self, secured: Arc<Secured>) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look(&secured);
        }
    }

    pub(crate) fn look(&mut self, secured: &Secured) {
        let mut changed = false;
        for pair in &mut self.pairs {
            changed |= pair.look(secured.policy());
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

fn bundle(path: Option<&PathBuf>) -> Result<Option<(Followed, Authorities)>, String> {
    let Some(path) = path else { return Ok(None) };
    let (files, texts) = Followed::open(&[path])?;
    let authorities =
        Authorities::parse(&texts.concat()).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(Some((files, authorities)))
}

/// Authorities of a new version of a file; a broken one is told of.
fn renewed(files: &mut Followed) -> Option<Authorities> {
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
                "The new authorities cannot be used; the old ones count on"
            );
            None
        }
    }
}
