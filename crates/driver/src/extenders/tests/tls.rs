//! Tests of the client's and the extender's certificates.

use std::{fs, io::Read, path::PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use super::*;

/// An authority that signs certificates. Certificates and keys are in PEM.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn signed(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Starts an extender with the given certificate. It accepts only clients whose certificates the authority `clients`
/// has signed, and its filter accepts node `a`.
fn secure_server((certificate_pem, key): (String, String), clients: &Authority) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&clients.pem())).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).unwrap());
    let config = ServerConfig::builder().with_client_cert_verifier(verifier);
    let config = Arc::new(config.with_single_cert(vec![certificate(&certificate_pem)], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}/x", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            let mut reader = BufReader::new(StreamOwned::new(session, stream));
            // A refused client sends no request.
            if read_request(&mut reader).is_none() {
                continue;
            }
            let text = r#"{"NodeNames":["a"]}"#;
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            reader.get_mut().write_all(reply.as_bytes()).unwrap();
            // Wait until the client closes the connection.
            let _ = reader.read(&mut [0]);
        }
    });
    address
}

#[test]
fn server_and_client_certificates_are_checked_whether_given_as_files_or_as_data() {
    let [servers, clients, strangers] = ["servers", "clients", "strangers"].map(Authority::new);
    let url = secure_server(servers.signed("extender.example"), &clients);
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| -> String {
        let path: PathBuf = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let data = |text: &str| BASE64_STANDARD.encode(text);
    let (client, key) = clients.signed("scheduler");
    let server_name = "extender.example".to_owned();
    let by_data = ExtenderTls {
        server_name: server_name.clone(),
        ca_data: data(&servers.pem()),
        cert_data: data(&client),
        key_data: data(&key),
        ..ExtenderTls::default()
    };
    let by_file = ExtenderTls {
        server_name,
        ca_file: file("ca", &servers.pem()),
        cert_file: file("cert", &client),
        key_file: file("key", &key),
        ..ExtenderTls::default()
    };
    // Data takes precedence over files.
    let both = ExtenderTls { ca_file: file("other", &strangers.pem()), ..by_data.clone() };
    let (strange, strange_key) = strangers.signed("scheduler");
    let unknown = ExtenderTls { cert_data: data(&strange), key_data: data(&strange_key), ..by_data.clone() };
    let anonymous = ExtenderTls { cert_data: String::new(), key_data: String::new(), ..by_data.clone() };
    let distrustful = ExtenderTls { ca_data: data(&strangers.pem()), ..by_data.clone() };
    let misnamed = ExtenderTls { server_name: "other.example".into(), ..by_data.clone() };
    let unnamed = ExtenderTls { server_name: String::new(), ..by_data.clone() };
    let careless = ExtenderTls { insecure: true, ca_data: String::new(), ..misnamed.clone() };
    for (what, tls, wrong) in [
        ("data", by_data, None),
        ("files", by_file, None),
        ("both", both, None),
        ("no check of the server", careless, None),
        ("a certificate of a stranger", unknown, Some("UnknownCA")),
        ("no certificate", anonymous, Some("CertificateRequired")),
        ("another authority", distrustful, Some("UnknownIssuer")),
        ("another name", misnamed, Some("other.example")),
        ("the address as the expected name", unnamed, Some("127.0.0.1")),
    ] {
        let said = filtered_by(ExtenderConfig { tls: Some(tls), ..config(&url) });
        match (wrong, said) {
            (None, Ok(said)) => assert_eq!(said.nodes, names(&["a"]), "{what}"),
            (Some(wrong), Err(why)) => assert!(why.contains(wrong) && why.contains(&url), "{what}: {why}"),
            (_, said) => panic!("{what}: {said:?}"),
        }
    }
}
