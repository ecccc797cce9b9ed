//! The server on real sockets.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use harbormaster_apiserver::{ApiServer, Certificate, Options, kubeconfig_yaml};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, Version, body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
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

/// Sends a request and reads until the server closes the connection.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // TLS connections may end without a close notification.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns a client that trusts the certificate and offers the given protocols.
fn trusting(certificate: &Certificate, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.authority_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

type Http2 = http2::SendRequest<Empty<Bytes>>;

/// Sends a request over a shared connection.
async fn ask(client: &mut Http2, path: &str) -> Incoming {
    let request = Request::get(format!("https://localhost{path}")).body(Empty::new()).unwrap();
    let answer = client.send_request(request).await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 200), "{path}");
    answer.into_body()
}

async fn text(body: Incoming) -> String {
    String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned()
}

#[tokio::test]
async fn http2_requests_on_one_connection_do_not_wait_for_each_other() {
    let certificate = Certificate::self_signed(&[]).unwrap();
    let server = ApiServer::new(Options { history: 64, ..Options::default() });
    let running = server.serve(listener().await, Some(&certificate)).unwrap();
    let stream = TcpStream::connect(running.address()).await.unwrap();
    let connector = trusting(&certificate, &[b"h2", b"http/1.1"]);
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let lazy = ask(&mut client, "/api/v1/configmaps?watch=true").await;
    let watch = ask(&mut client, "/api/v1/namespaces?watch=true&resourceVersion=0").await;
    let short = ask(&mut client, "/api/v1/pods?watch=true&timeoutSeconds=1").await;
    let store = server.store();
    for i in 0..400 {
        let map = json!({"metadata": {"name": format!("m{i}")}, "data": {"text": "x".repeat(100_000)}});
        store.create("configmaps", map).unwrap();
        if i % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // A response that the client does not read blocks no other request, and the server does not buffer all of it.
    assert!(text(ask(&mut client, "/version").await).await.contains("v1.36"));
    assert_eq!(timeout(Duration::from_secs(20), text(short)).await.unwrap(), "");
    let lazy = timeout(Duration::from_secs(20), text(lazy)).await.unwrap();
    assert!(lazy.contains("too old resource version"), "{} bytes", lazy.len());
    // Stopping the server ends watches and their connection.
    timeout(Duration::from_secs(4), running.stop()).await.unwrap();
    assert!(timeout(Duration::from_secs(3), text(watch)).await.unwrap().contains("\"default\""));
    timeout(Duration::from_secs(3), connection).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn the_server_presents_a_certificate_from_its_authority_over_tls() {
    let certificate = Certificate::self_signed(&["example.com"]).unwrap();
    let running = ApiServer::new(Options::default()).serve(listener().await, Some(&certificate)).unwrap();
    let connector = trusting(&certificate, &[]);
    // A silent client does not block others.
    let _silent = TcpStream::connect(running.address()).await.unwrap();
    for name in ["127.0.0.1", "localhost", "example.com"] {
        let stream = TcpStream::connect(running.address()).await.unwrap();
        let stream = connector.connect(ServerName::try_from(name).unwrap(), stream).await.unwrap();
        assert!(exchange(stream, "/readyz").await.ends_with("ok"), "{name}");
    }
}

#[tokio::test]
async fn the_server_ends_watches_when_it_stops() {
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
    assert!(!watch.is_finished(), "stopping one listener ends no watch of the next one");
    drop(again);
    timeout(Duration::from_secs(3), watch).await.unwrap().unwrap();
}

/// The watch of a client that does not read ends once the history no longer contains its position. The response remains
/// complete: it ends with an error event and a final chunk.
#[tokio::test]
async fn the_watch_of_a_client_that_does_not_read_ends_with_an_error() {
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
    assert!(rest.trim_end().ends_with('0'), "the response has no final chunk");
}

#[test]
fn the_kubeconfig_contains_server_authority_and_token() {
    let address = "127.0.0.1:6443".parse().unwrap();
    let plain = kubeconfig_yaml(address, None, None);
    assert!(plain.contains("server: http://127.0.0.1:6443\n"), "{plain}");
    let secure = kubeconfig_yaml(address, Some("PEM"), Some("secret"));
    for part in ["server: https://127.0.0.1:6443", "certificate-authority-data: UEVN", "token: \"secret\""] {
        assert!(secure.contains(part), "{secure}");
    }
}
