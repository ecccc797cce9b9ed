//! Authentication by client certificate.

use std::sync::Arc;

use harbormaster_serve::authorities;
use rustls::{
    DistinguishedName,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_cert::{
    Certificate,
    der::{
        Decode, Tag, Tagged,
        oid::{
            ObjectIdentifier,
            db::rfc4519::{COMMON_NAME, ORGANIZATION_NAME},
        },
    },
    name::Name,
};

use crate::user::User;

/// The attribute in which Kubernetes stores the UID of a user.
const UID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// Authorities that sign client certificates.
#[derive(Clone, Debug)]
pub(crate) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    /// Parses a bundle of PEM certificates.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let roots = authorities(pem)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { verifier: verifier.map_err(|e| e.to_string())? })
    }

    /// Returns the names of the authorities, which clients use to choose a certificate.
    pub(crate) fn names(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    /// Verifies that the first certificate of the chain is signed, directly or indirectly, by one of the authorities,
    /// is currently valid and is meant for clients.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let [own, between @ ..] = chain else { return Err("no certificate".to_owned()) };
        let verified = self.verifier.verify_client_cert(own, between, UnixTime::now());
        verified.map(drop).map_err(|e| e.to_string())
    }
}

/// Returns the values of an attribute in a name, in order; `None` for a value that is not a string.
pub(crate) fn texts(name: &Name, attribute: ObjectIdentifier) -> impl Iterator<Item = Option<&str>> {
    let all = name.0.iter().flat_map(|part| part.0.iter());
    all.filter(move |one| one.oid == attribute).map(|one| match one.value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            std::str::from_utf8(one.value.value()).ok()
        }
        _ => None,
    })
}

/// Returns the last common name of a certificate, as Kubernetes does.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Result<String, String> {
    let certificate = Certificate::from_der(certificate).map_err(|e| e.to_string())?;
    let names = texts(&certificate.tbs_certificate.subject, COMMON_NAME).flatten();
    Ok(names.last().unwrap_or_default().to_owned())
}

/// Returns the user of a verified certificate, with the common name as the name and the organizations as groups; `None`
/// if there is no common name.
pub(crate) fn user(der: &CertificateDer<'_>) -> Result<Option<User>, String> {
    let name = common_name(der)?;
    if name.is_empty() {
        return Ok(None);
    }
    let certificate = Certificate::from_der(der).map_err(|e| e.to_string())?;
    let subject = &certificate.tbs_certificate.subject;
    let groups = texts(subject, ORGANIZATION_NAME).flatten().map(str::to_owned);
    let uids: Option<Vec<&str>> = texts(subject, UID).collect();
    let uids = uids.ok_or("the UID is not a string")?;
    let uid = match uids[..] {
        [] => "",
        [""] => return Err("UID cannot be an empty string".to_owned()),
        [uid] => uid,
        _ => return Err(format!("expected 1 UID, but found multiple: {uids:?}")),
    };
    let digest = ::ring::digest::digest(&::ring::digest::SHA256, der);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(User {
        name,
        uid: uid.to_owned(),
        groups: groups.collect(),
        extra: [(CREDENTIAL.to_owned(), vec![format!("X509SHA256={digest}")])].into(),
    }))
}
