//! Requests to a secure port.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use harbormaster_client::accept_every_certificate;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};

/// Sends a request over a new connection, which the server closes, and returns the whole response, head and body.
/// `shown` is the client certificate to present, with its key.
pub fn exchange(
    port: u16,
    shown: Option<(&CertificateDer<'static>, &[u8])>,
    request: &[u8],
) -> Option<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions are known")
        .with_root_certificates(RootCertStore::empty());
    let mut config = match shown {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
            config.with_client_auth_cert(vec![certificate.clone()], key).expect("the certificate fits")
        }
        None => config.with_no_client_auth(),
    };
    accept_every_certificate(&mut config);
    let tcp = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    tcp.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let name = ServerName::try_from("localhost").expect("localhost is a valid name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session begins");
    let mut stream = StreamOwned::new(session, tcp);
    stream.write_all(request).ok()?;
    let mut reply = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        reply.extend_from_slice(&piece[..length]);
    }
    Some(reply)
}

/// Sends a request without a certificate and returns the status and body of the response, which must not be chunked.
pub fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, Vec<u8>)> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let reply = exchange(port, None, request.as_bytes())?;
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&reply[..end]);
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, reply[end + 4..].to_vec()))
}
