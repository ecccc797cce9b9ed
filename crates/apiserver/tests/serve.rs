//! The server on sockets.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::{sync::Arc, time::Duration};

use harbormaster_apiserver::{ApiServer, Certificate, Options, kubeconfig_yaml};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Sends a request and reads until the server closes.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // TLS may end without a goodbye.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn it_serves_over_tls_with_a_certificate_that_its_authority_vouches_for() {
    let certificate = Certificate::self_signed(&["example.com"]).unwrap();
    let running = ApiServer::new(Options::default()).serve(listener().await, Some(&certificate)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.authority_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let connector = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
    // One that says nothing holds up nobody.
    let _silent = TcpStream::connect(running.address()).await.unwrap();
    for name in ["127.0.0.1", "localhost", "example.com"] {
        let stream = TcpStream::connect(running.address()).await.unwrap();
        let stream = connector.connect(ServerName::try_from(name).unwrap(), stream).await.unwrap();
        assert!(exchange(stream, "/readyz").await.ends_with("ok"), "{name}");
    }
}

#[tokio::test]
async fn it_ends_watches_when_it_stops() {
    let server = ApiServer::new(Options::default());
    let running = server.serve(listener().await, None).unwrap();
    let address = running.address();
    let stream = TcpStream::connect(address).await.unwrap();
    let watch = tokio::spawn(exchange(stream, "/api/v1/pods?watch=true"));
    let answer = exchange(TcpStream::connect(address).await.unwrap(), "/version").await;
    assert!(answer.contains("v1.36"), "{answer}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.store().create("namespaces", json!({"metadata": {"name": "x"}})).unwrap();
    timeout(Duration::from_secs(3), running.stop()).await.unwrap();
    assert!(timeout(Duration::from_secs(3), watch).await.unwrap().unwrap().starts_with("HTTP/1.1 200"));
    assert!(TcpStream::connect(address).await.is_err());
    let again = server.serve(listener().await, None).unwrap();
    let watch =
        tokio::spawn(exchange(TcpStream::connect(again.address()).await.unwrap(), "/api/v1/pods?watch=true"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!watch.is_finished(), "the end of one is not the end of the other");
    drop(again);
    timeout(Duration::from_secs(3), watch).await.unwrap().unwrap();
}

/// A client that asks for everything and reads nothing is cut when the history has passed it by; nobody else notices.
#[tokio::test]
async fn a_client_that_does_not_read_costs_nothing_but_its_connection() {
    let server = ApiServer::new(Options { history: 64, ..Options::default() });
    let running = server.serve(listener().await, None).unwrap();
    let mut lazy = TcpStream::connect(running.address()).await.unwrap();
    lazy.write_all(b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut head = [0; 512];
    let _ = lazy.read(&mut head).await.unwrap();
    let text = "x".repeat(100_000);
    let store = server.store();
    for i in 0..400 {
        let map = json!({"metadata": {"name": format!("m{i}")}, "data": {"text": text}});
        store.create("configmaps", map).unwrap();
        if i % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut rest = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    while let Ok(Ok(read)) = timeout(Duration::from_millis(500), lazy.read(&mut buffer)).await {
        if read == 0 {
            break;
        }
        rest.extend_from_slice(&buffer[..read]);
    }
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("too old resource version"), "{} bytes", rest.len());
    assert!(rest.trim_end().ends_with('0'), "the stream has its end");
}

#[test]
fn the_kubeconfig_names_server_authority_and_token() {
    let address = "127.0.0.1:6443".parse().unwrap();
    let plain = kubeconfig_yaml(address, None, None);
    assert!(plain.contains("server: http://127.0.0.1:6443\n"), "{plain}");
    let secure = kubeconfig_yaml(address, Some("PEM"), Some("secret"));
    for part in ["server: https://127.0.0.1:6443", "certificate-authority-data: UEVN", "token: \"secret\""] {
        assert!(secure.contains(part), "{secure}");
    }
}
