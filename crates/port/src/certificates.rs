//! Certificates of the server, from files or self-signed.

use std::{
    fs,
    io::{self, Write},
    net::IpAddr,
    path::Path,
    sync::Arc,
};

use harbormaster_serve::PemPair;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_cert::{
    Certificate,
    der::{Decode, oid::db::rfc4519::COMMON_NAME},
    ext::pkix::{SubjectAltName, name::GeneralName},
};

use crate::{client_certificate::texts, options::Serving};

/// Reads a certificate and its key.
fn read_pair(cert: &Path, key: &Path) -> Result<PemPair, String> {
    let read = |path: &Path| match fs::read(path) {
        Ok(text) if text.is_empty() => Err(format!("{} is empty", path.display())),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    Ok(PemPair { cert: read(cert)?, key: read(key)? })
}

/// Returns a new self-signed certificate for `localhost`, `127.0.0.1` and `address`.
fn self_signed(address: IpAddr) -> Result<PemPair, rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let own = address.to_string();
    if !address.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    let made = rcgen::generate_simple_self_signed(names)?;
    Ok(PemPair { cert: made.cert.pem().into_bytes(), key: made.signing_key.serialize_pem().into_bytes() })
}

/// Returns the certificate to use if no flag names a certificate file: the certificate in `--cert-dir` or, if there is
/// none, a new certificate, which is written to that directory. Without `--cert-dir`, the new certificate is not
/// written.
pub(crate) fn own(serving: &Serving) -> Result<PemPair, String> {
    let make =
        || self_signed(serving.bind_address).map_err(|e| format!("unable to generate self signed cert: {e}"));
    let Some(dir) = &serving.cert_dir else {
        tracing::info!("Generated self-signed cert in-memory");
        return make();
    };
    let (cert, key) = (dir.join("kube-scheduler.crt"), dir.join("kube-scheduler.key"));
    match (cert.exists(), key.exists()) {
        (true, true) => return read_pair(&cert, &key),
        (false, false) => {}
        (true, false) | (false, true) => {
            return Err(format!(
                "only one of {} and {} exists: supply both files or delete the one that exists",
                cert.display(),
                key.display()
            ));
        }
    }
    let made = make()?;
    let written = fs::create_dir_all(dir)
        .and_then(|()| fs::write(&cert, &made.cert))
        .and_then(|()| write_secret(&key, &made.key));
    written.map_err(|e| format!("--cert-dir {}: {e}", dir.display()))?;
    tracing::info!("Generated self-signed cert ({}, {})", cert.display(), key.display());
    Ok(made)
}

/// Writes a file that only the current user may read.
fn write_secret(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text)
}

/// Certificates of the server, with their names.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    pub(crate) default: Arc<CertifiedKey>,
    /// Certificates by name, in order of precedence: names in flags come before names in certificates.
    named: Vec<(String, Arc<CertifiedKey>)>,
}

impl Certificates {
    /// Returns the certificates. `named` contains certificates with the names that flags assign to them.
    pub(crate) fn new(default: Arc<CertifiedKey>, named: &[(Vec<String>, Arc<CertifiedKey>)]) -> Self {
        let (given, found): (Vec<_>, Vec<_>) = named.iter().partition(|(names, _)| !names.is_empty());
        let given = given.into_iter().map(|(names, key)| (names.clone(), key));
        let found = found.into_iter().map(|(_, key)| (names_of(key), key));
        let all = given.chain(found).flat_map(|(names, key)| {
            names.into_iter().map(move |name| (name.to_ascii_lowercase(), key.clone()))
        });
        Self { default, named: all.collect() }
    }

    /// Returns the certificate for a name or an address: an exact match, or one with `*` in place of the first label.
    pub(crate) fn choose(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let find = |wanted: &str| self.named.iter().find(|(known, _)| known == wanted).map(|(_, key)| key);
        find(&name).or_else(|| find(&format!("*.{}", name.split_once('.')?.1)))
    }

    /// Returns true if clients that do not name a server may get a certificate other than the default.
    pub(crate) fn has_addresses(&self) -> bool {
        self.named.iter().any(|(name, _)| name.parse::<IpAddr>().is_ok())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.choose(name));
        Some(named.unwrap_or(&self.default).clone())
    }
}

/// Returns the names and addresses of a certificate.
fn names_of(key: &CertifiedKey) -> Vec<String> {
    let Some(der) = key.cert.first() else { return Vec::new() };
    let Ok(Certificate { tbs_certificate: certificate, .. }) = Certificate::from_der(der) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        texts(&certificate.subject, COMMON_NAME).flatten().map(str::to_owned).collect();
    let alternatives = certificate.get::<SubjectAltName>().ok().flatten();
    for name in alternatives.iter().flat_map(|(_, alternatives)| &alternatives.0) {
        match name {
            GeneralName::DnsName(name) => names.push(name.to_string()),
            GeneralName::IpAddress(bytes) => names.extend(address(bytes.as_bytes())),
            _ => {}
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<String> {
    let short = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let address = short.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    address.ok().map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;

    use super::*;

    fn pair(names: &[&str]) -> PemPair {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        PemPair { cert: made.cert.pem().into_bytes(), key: made.signing_key.serialize_pem().into_bytes() }
    }

    fn parsed(pair: &PemPair) -> Result<Arc<CertifiedKey>, String> {
        pair.parse(&ring::default_provider())
    }

    #[test]
    fn the_requested_server_name_determines_the_certificate() {
        let keys: Vec<_> = [&["default"][..], &["x"], &["www.foo.com", "*.bar.com", "10.0.0.1"], &["y"]]
            .iter()
            .map(|names| parsed(&pair(names)).unwrap())
            .collect();
        let certificates = Certificates::new(
            keys[0].clone(),
            &[
                (vec!["*.foo.com".into(), "foo.com".into()], keys[1].clone()),
                (vec![], keys[2].clone()),
                (vec!["x.bar.com".into()], keys[3].clone()),
            ],
        );
        for (name, expected) in [
            ("foo.com", Some(1)),
            ("a.foo.com", Some(1)),
            ("a.b.foo.com", None),
            ("www.foo.com", Some(2)),
            ("WWW.foo.com.", Some(2)),
            ("a.bar.com", Some(2)),
            ("x.bar.com", Some(3)),
            ("10.0.0.1", Some(2)),
            ("default", None),
        ] {
            let chosen = certificates.choose(name);
            let chosen = chosen.and_then(|key| keys.iter().position(|known| Arc::ptr_eq(known, key)));
            assert_eq!(chosen, expected, "{name}");
        }
        assert!(certificates.has_addresses());
    }

    #[test]
    fn a_generated_certificate_is_kept_in_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let serving = Serving { cert_dir: Some(directory.path().join("certs")), ..Serving::default() };
        let made = own(&serving).unwrap();
        assert!(parsed(&made).is_ok());
        assert_eq!(own(&serving).unwrap(), made);
        fs::remove_file(directory.path().join("certs/kube-scheduler.key")).unwrap();
        assert!(own(&serving).unwrap_err().starts_with("only one of "));
    }

    #[test]
    fn a_generated_certificate_is_valid_for_the_address() {
        let names = |address: &str| {
            names_of(&parsed(&self_signed(address.parse().unwrap()).unwrap()).unwrap()).join(" ")
        };
        assert!(names("10.1.2.3").contains("localhost 127.0.0.1 10.1.2.3"), "{}", names("10.1.2.3"));
        assert!(names("0.0.0.0").ends_with("localhost 127.0.0.1"), "{}", names("0.0.0.0"));
    }
}
