//! An extender on a socket: over plain HTTP, over TLS, with client certificates, and during shutdown.

use std::{fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use harbormaster_extender::{Ask, Error, Extender, Scores, Server, Serving};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::timeout,
};
use ureq::{
    Agent,
    tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider},
};

const PATIENCE: Duration = Duration::from_secs(60);

async fn ones(ask: Ask) -> Result<Scores, Error> {
    Ok(ask.score(|_| 1))
}

/// Starts a server on a free loopback port, and returns its address, a sender that stops it, and its task.
async fn start(extender: Extender, serving: Serving) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let serving = Serving { listen: ([127, 0, 0, 1], 0).into(), ..serving };
    let server = Server::bind(extender, &serving).await.unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.run(async move { drop(stopped.await) }));
    (address, stop, task)
}

/// Returns a server's answer to a request with one node, or `None` if the request fails.
async fn ask(url: String, tls: Option<TlsConfig>) -> Option<Value> {
    let asked = tokio::task::spawn_blocking(move || {
        let mut config = Agent::config_builder().proxy(None).timeout_global(Some(PATIENCE));
        if let Some(tls) = tls {
            config = config.tls_config(tls);
        }
        let agent: Agent = config.build().into();
        let args = json!({"Pod": {"metadata": {"name": "p"}}, "Nodes": null, "NodeNames": ["a"]});
        agent.post(url).send_json(args)?.into_body().read_json::<Value>()
    });
    asked.await.unwrap().inspect_err(|error| println!("{error}")).ok()
}

fn scores() -> Value {
    json!([{"Host": "a", "Score": 1}])
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_over_http() {
    let (address, stop, task) = start(Extender::new().prioritize(ones), Serving::default()).await;
    assert_eq!(ask(format!("http://{address}/prioritize"), None).await, Some(scores()));
    stop.send(()).unwrap();
    timeout(PATIENCE, task).await.unwrap().unwrap();
}

/// A certificate authority, which also writes the server's TLS files.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn files(&self, directory: &Path) -> Serving {
        let (certificate, key) = self.sign(ExtendedKeyUsagePurpose::ServerAuth);
        fs::write(directory.join("tls.crt"), certificate).unwrap();
        fs::write(directory.join("tls.key"), key).unwrap();
        fs::write(directory.join("ca.crt"), self.0.pem()).unwrap();
        Serving {
            tls_cert_file: Some(directory.join("tls.crt")),
            tls_private_key_file: Some(directory.join("tls.key")),
            ..Serving::default()
        }
    }

    /// Returns the TLS configuration of a client that trusts this authority and presents the certificate `shown`, if
    /// there is one.
    fn tls(&self, shown: Option<(String, String)>) -> TlsConfig {
        let root = Certificate::from_pem(self.0.pem().as_bytes()).unwrap();
        let shown = shown.map(|(certificate, key)| {
            let certificate = Certificate::from_pem(certificate.as_bytes()).unwrap();
            ClientCert::new_with_certs(&[certificate], PrivateKey::from_pem(key.as_bytes()).unwrap())
        });
        TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(vec![root])))
            .client_cert(shown)
            .build()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_over_https_and_a_new_certificate_is_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new(), Authority::new());
    let serving = first.files(directory.path());
    let (address, _stop, _task) = start(Extender::new().prioritize(ones), serving).await;
    let url = format!("https://{address}/prioritize");
    assert_eq!(ask(url.clone(), Some(first.tls(None))).await, Some(scores()));
    assert_eq!(ask(url.clone(), Some(second.tls(None))).await, None);
    second.files(directory.path());
    timeout(PATIENCE, async { while ask(url.clone(), Some(second.tls(None))).await.is_none() {} })
        .await
        .unwrap();
    assert_eq!(ask(url, Some(first.tls(None))).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_a_trusted_certificate_are_answered_if_one_is_required() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut serving = ours.files(directory.path());
    serving.client_ca_file = Some(directory.path().join("ca.crt"));
    let (address, _stop, _task) = start(Extender::new().prioritize(ones), serving).await;
    let url = format!("https://{address}/prioritize");
    let client = |authority: &Authority| Some(authority.sign(ExtendedKeyUsagePurpose::ClientAuth));
    assert_eq!(ask(url.clone(), Some(ours.tls(client(&ours)))).await, Some(scores()));
    assert_eq!(ask(url.clone(), Some(ours.tls(client(&theirs)))).await, None);
    assert_eq!(ask(url, Some(ours.tls(None))).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_answers_open_requests_and_accepts_no_new_ones() {
    let (begun, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let waits = {
        let (begun, go_on) = (begun.clone(), go_on.clone());
        move |ask: Ask| {
            let (begun, go_on) = (begun.clone(), go_on.clone());
            async move {
                begun.add_permits(1);
                go_on.acquire().await?.forget();
                Ok(ask.score(|_| 1))
            }
        }
    };
    let mut serving = Serving::default();
    serving.limits.request_timeout = PATIENCE;
    let (address, stop, task) = start(Extender::new().prioritize(waits), serving).await;
    let open = tokio::spawn(ask(format!("http://{address}/prioritize"), None));
    begun.acquire().await.unwrap().forget();
    stop.send(()).unwrap();
    // Connections are refused once the server no longer listens.
    timeout(PATIENCE, async { while TcpStream::connect(address).await.is_ok() {} }).await.unwrap();
    assert!(!task.is_finished());
    go_on.add_permits(1);
    assert_eq!(open.await.unwrap(), Some(scores()));
    timeout(PATIENCE, task).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_http_affects_only_its_own_connection() {
    let (address, _stop, _task) = start(Extender::new().prioritize(ones), Serving::default()).await;
    for nonsense in [&b"\0\0\0\0\r\n\r\n"[..], b"POST /prioritize HTTP/1.1\r\nContent-Length: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(nonsense).await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(ask(format!("http://{address}/prioritize"), None).await, Some(scores()));
}
