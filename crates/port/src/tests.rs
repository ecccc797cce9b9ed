//! Test helpers: authorities that sign certificates, and an API server backed by a function.

use bytes::Bytes;
use harbormaster_client::{ApiClient, body::RequestBody};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tower::BoxError;

mod loopback;

/// A certificate authority that signs certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns a client certificate with the given common name and organization; omits either if it is empty.
    pub(crate) fn client(&self, name: &str, group: &str) -> Identity {
        self.sign(name, group, |_| {})
    }

    pub(crate) fn expired_client(&self, name: &str) -> Identity {
        self.sign(name, "", |params| {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        })
    }

    fn sign(&self, name: &str, group: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        if !group.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate: signed.der().clone(), key: key.serialize_der() }
    }
}

impl Identity {
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

/// Returns a client of an API server that answers each POST request with an object or a status code.
pub(crate) fn api_server(
    answer: impl Fn(&str, Value) -> Result<Value, u16> + Clone + Send + Sync + 'static,
) -> ApiClient {
    ApiClient::over(tower::service_fn(move |request: Request<RequestBody>| {
        let answer = answer.clone();
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let (code, text) = match answer(&path, serde_json::from_slice(&body).unwrap()) {
                Ok(value) => (201, value.to_string()),
                Err(code) => (code, String::new()),
            };
            let body = Full::new(Bytes::from(text)).map_err(BoxError::from).boxed_unsync();
            Ok(Response::builder().status(code).body(body).unwrap())
        }
    }))
}
