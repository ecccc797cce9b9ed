//! A port on the loopback interface, with well-behaved and misbehaving clients.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_client::accept_every_certificate;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring, pki_types::ServerName,
};
use tempfile::TempDir;

use super::{Authority, Identity};
use crate::{
    Check, Content, Options, Page, Port, PortError,
    health::Checks,
    options::{Authentication, Authorization, Serving},
    pages::PROMETHEUS,
    why::Told,
};

/// Timeout that is long enough even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, identity: Option<&Identity>, name: &str) -> io::Result<Stream> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty());
    let mut config = match identity {
        Some(identity) => config.with_client_auth_cert(vec![identity.certificate()], identity.key()).unwrap(),
        None => config.with_no_client_auth(),
    };
    accept_every_certificate(&mut config);
    let tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    tcp.set_write_timeout(Some(PATIENCE))?;
    let session = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap());
    Ok(StreamOwned::new(session.unwrap(), tcp))
}

/// Sends bytes and reads until the server closes the connection.
fn exchange(stream: &mut Stream, bytes: &[u8]) -> String {
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.flush();
    let mut reply = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        reply.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&reply).into_owned()
}

fn ask(address: SocketAddr, identity: Option<&Identity>, head: &str) -> String {
    let mut stream = connect(address, identity, "localhost").expect("the port accepts connections");
    exchange(&mut stream, format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    split(&ask(address, None, &format!("GET {path} HTTP/1.1")))
}

fn split(reply: &str) -> (u16, String) {
    let code = reply.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, reply.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn local() -> Options {
    let serving = Serving { bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0, ..Serving::default() };
    Options { serving, ..Options::default() }
}

/// Returns options that allow everyone to access every path.
fn open() -> Options {
    let authorization = Authorization { always_allow_paths: vec!["*".into()], ..Authorization::default() };
    Options { authorization, ..local() }
}

fn started(options: Options, content: Content) -> Port {
    Port::start(options, content).expect("the port opens")
}

#[test]
fn every_page_is_served_at_its_path() {
    let (ready, level) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (is_ready, set_level) = (ready.clone(), level.clone());
    let reset = Arc::new(AtomicBool::new(false));
    let was_reset = reset.clone();
    let emulates = Arc::new(OnceLock::new());
    let content = Content {
        checks: Checks {
            readyz: vec![Check::new("synced", move || match is_ready.load(Ordering::Relaxed) {
                true => Ok(()),
                false => Err("not yet".to_owned()),
            })],
            ..Checks::default()
        },
        pages: vec![Page {
            path: "/metrics",
            content_type: PROMETHEUS,
            render: Arc::new(|| Box::pin(async { "pods 1\n".to_owned() })),
            reset: Some(Arc::new(move || was_reset.store(true, Ordering::Relaxed))),
        }],
        config: serde_json::json!({"parallelism": 16}).into(),
        flags: vec![crate::zpages::Flag { name: "v", value: "0".into() }],
        version: "1.2.3",
        emulates: emulates.clone(),
        set_verbosity: Some(Arc::new(move |v| set_level.store(v, Ordering::Relaxed))),
        why: Some(Arc::new(|namespace, pod| {
            Box::pin(async move { Told::State(format!("{{\"pod\":\"{namespace}/{pod}\"}}")) })
        })),
        browser: Some(crate::browser::tests::page()),
    };
    let port = started(open(), content);
    let address = port.address();
    for (path, code, text) in [
        ("/healthz", 200, "ok"),
        ("/debug/why?namespace=shop&pod=web", 200, "{\"pod\":\"shop/web\"}"),
        ("/debug/page", 200, "<!doctype html>"),
        ("/debug/page/data", 200, "{}"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/readyz", 500, "[-]synced failed: reason withheld\nreadyz check failed\n"),
        ("/readyz/synced", 500, "internal server error: not yet\n"),
        ("/metrics", 200, "pods 1\n"),
        ("/configz", 200, "{\"componentconfig\":{\"parallelism\":16}}"),
        ("/", 404, "404 page not found\n"),
        ("/healthz/", 404, "404 page not found\n"),
        ("/%zz", 400, "400 Bad Request"),
    ] {
        assert_eq!(get(address, path), (code, text.to_owned()), "{path}");
    }
    ready.store(true, Ordering::Relaxed);
    assert_eq!(get(address, "/readyz"), (200, "ok".to_owned()));
    assert!(get(address, "/flagz").1.contains("\nv=0\n"));
    let status = get(address, "/statusz").1;
    assert!(status.contains("Binary version: 1.2.3") && !status.contains("Emulation"), "{status}");
    emulates.set("1.36".to_owned()).unwrap();
    assert!(get(address, "/statusz").1.contains("\nEmulation version: 1.36\nPaths: "));
    assert!(get(address, "/debug/flags").1.contains("<tr>v<br>"));
    for (path, code) in [("/debug/pprof", 200), ("/debug/pprof/", 200), ("/debug/pprof/heap", 404)] {
        let (status, text) = get(address, path);
        assert!(status == code && text.contains("perf record"), "{path}: {status} {text}");
    }
    let slis = get(address, "/metrics/slis").1;
    assert!(
        slis.contains("kubernetes_healthchecks_total{name=\"synced\",status=\"error\",type=\"readyz\"} 1\n"),
        "{slis}"
    );

    let reply = ask(address, None, "DELETE /metrics HTTP/1.1");
    assert_eq!(split(&reply), (200, "metrics reset\n".to_owned()));
    assert!(reset.load(Ordering::Relaxed));
    let head = ask(address, None, "HEAD /metrics HTTP/1.1").to_ascii_lowercase();
    for line in [
        "http/1.1 200 ok",
        "cache-control: no-cache, private",
        "content-type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        "content-length: 7",
        "process-start-time-unix: ",
        "date: ",
    ] {
        assert!(head.contains(line), "{line} is not in {head}");
    }
    assert_eq!(split(&head).1, "");
    let mut stream = connect(address, None, "localhost").unwrap();
    let put = b"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n4";
    let reply = exchange(&mut stream, put);
    assert_eq!(split(&reply), (200, "successfully set klog.logging.verbosity to 4\n".to_owned()));
    assert_eq!(level.load(Ordering::Relaxed), 4);
    port.stop();
    assert!(TcpStream::connect(address).is_err(), "the port is closed");
}

#[test]
fn a_client_certificate_is_verified_for_each_request() {
    let directory = TempDir::new().unwrap();
    let (clients, strangers) = (Authority::new("clients"), Authority::new("strangers"));
    let bundle = directory.path().join("ca.crt");
    fs::write(&bundle, clients.pem()).unwrap();
    let authentication = Authentication { client_ca_file: Some(bundle), ..Authentication::default() };
    let port = started(Options { authentication, ..local() }, Content::default());
    let asked = |identity: Option<&Identity>, path: &str| {
        let (code, body) = split(&ask(port.address(), identity, &format!("GET {path} HTTP/1.1")));
        let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        (code, body["message"].as_str().unwrap_or_default().to_owned())
    };
    let forbidden = |user: &str| (403, format!("forbidden: User \"{user}\" cannot get path \"/configz\""));
    let unauthorized = || (401, "Unauthorized".to_owned());
    assert_eq!(asked(None, "/configz"), forbidden("system:anonymous"));
    assert_eq!(asked(Some(&clients.client("jane", "dev")), "/configz"), forbidden("jane"));
    assert_eq!(asked(Some(&clients.client("admin", "system:masters")), "/configz").0, 200);
    assert_eq!(asked(Some(&strangers.client("admin", "system:masters")), "/configz"), unauthorized());
    assert_eq!(asked(Some(&clients.expired_client("jane")), "/configz"), unauthorized());
    assert_eq!(asked(Some(&strangers.client("jane", "")), "/healthz"), unauthorized());
    assert_eq!(asked(None, "/healthz").0, 200);
}

/// Writes a certificate for the given name and its key into two files.
fn write_pair(directory: &TempDir, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (cert, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

fn shown(address: SocketAddr) -> Vec<u8> {
    let mut stream = connect(address, None, "localhost").unwrap();
    exchange(&mut stream, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let directory = TempDir::new().unwrap();
    let (cert, key) = write_pair(&directory, "localhost");
    let mut options = open();
    options.serving.cert_file = Some(cert.clone());
    options.serving.key_file = Some(key);
    let port = started(options, Content::default());
    let first = shown(port.address());
    fs::write(&cert, "broken").unwrap();
    sleep(Duration::from_secs(7));
    assert_eq!(shown(port.address()), first);
    write_pair(&directory, "localhost");
    let deadline = Instant::now() + PATIENCE;
    while shown(port.address()) == first {
        assert!(Instant::now() < deadline, "the new certificate is served");
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn unusable_options_are_rejected_with_a_reason() {
    let directory = TempDir::new().unwrap();
    let (cert, _) = write_pair(&directory, "localhost");
    let other = TempDir::new().unwrap();
    let (_, key) = write_pair(&other, "localhost");
    let port = started(open(), Content::default());
    let with = |change: &dyn Fn(&mut Options)| {
        let mut options = open();
        change(&mut options);
        Port::start(options, Content::default()).expect_err("the options are rejected")
    };
    let taken = with(&|options| options.serving.port = port.address().port());
    assert!(matches!(taken, PortError::Listen { .. }));
    assert!(taken.to_string().contains("--secure-port=0"), "{taken}");
    for (error, expected) in [
        (with(&|o| o.serving.bind_address = "192.0.2.1".parse().unwrap()), "--bind-address"),
        (with(&|o| o.serving.cert_file = Some(cert.clone())), "--tls-private-key-file"),
        (
            with(&|o| {
                o.serving.cert_file = Some(cert.clone());
                o.serving.key_file = Some(key.clone());
            }),
            "cannot be used",
        ),
        (with(&|o| o.serving.min_version = "x".into()), "unknown tls version"),
        (with(&|o| o.authentication.client_ca_file = Some("/no/such/file".into())), "/no/such/file"),
        (
            with(&|o| o.authentication.kubeconfig = Some("/no/such/file".into())),
            "delegated authentication kubeconfig",
        ),
        (
            with(&|o| o.authorization.kubeconfig = Some("/no/such/file".into())),
            "delegated authorization kubeconfig",
        ),
        (with(&|o| o.authorization.always_allow_paths = vec!["/a*b".into()]), "only trailing *"),
    ] {
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn the_head_of_a_request_is_limited_to_64_kib() {
    let port = started(open(), Content::default());
    let asked = |bytes: usize| {
        let (begin, end) = ("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: ", "\r\n\r\n");
        let head = format!("{begin}{}{end}", "x".repeat(bytes - begin.len() - end.len()));
        assert_eq!(head.len(), bytes);
        split(&exchange(&mut connect(port.address(), None, "localhost").unwrap(), head.as_bytes())).0
    };
    for (bytes, code) in [(65_535, 200), (65_536, 200), (65_537, 431), (100_000, 431), (131_072, 431)] {
        assert_eq!(asked(bytes), code, "{bytes} bytes");
    }
}

#[test]
fn malformed_requests_affect_only_their_own_connection() {
    let port = started(open(), Content::default());
    let long = |length: usize| "x".repeat(length);
    let many = (0..5000).map(|n| format!("A{n}: b\r\n")).collect::<String>();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("no HTTP", b"hello\r\n\r\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("all bytes", (0..=255).cycle().take(8192).collect()),
        ("an invalid version", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n".to_vec()),
        ("no version", b"GET /\r\n\r\n".to_vec()),
        ("HTTP/2 without agreement", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("a space in a name", b"GET / HTTP/1.1\r\nA b: c\r\n\r\n".to_vec()),
        ("a folded header", b"GET / HTTP/1.1\r\nA: b\r\n c\r\nConnection: close\r\n\r\n".to_vec()),
        ("two lengths", b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx".to_vec()),
        ("a negative length", b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_vec()),
        ("a length and chunks", b"PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n".to_vec()),
        ("broken chunks", b"PUT /debug/flags/v HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n".to_vec()),
        ("a long path", format!("GET /{} HTTP/1.1\r\n\r\n", long(100_000)).into_bytes()),
        ("a long header", format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", long(1_000_000)).into_bytes()),
        ("many headers", format!("GET / HTTP/1.1\r\n{many}\r\n").into_bytes()),
        ("a long token", format!("GET /configz HTTP/1.1\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n", long(30_000)).into_bytes()),
        ("an odd method", b"FROB /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec()),
        ("an absolute address", b"GET https://evil/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec()),
        ("a star", b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec()),
        ("CONNECT", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec()),
        ("a pipeline", "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50).into_bytes()),
    ];
    for (what, bytes) in cases {
        let mut stream = connect(port.address(), None, "localhost").unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.flush();
        // The response does not matter, and there may be none. What matters is that other clients are served.
        stream.sock.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let _ = stream.read(&mut [0; 64]);
        assert_eq!(get(port.address(), "/healthz"), (200, "ok".to_owned()), "after {what}");
    }
    // Data that is not valid TLS.
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x16, 3, 1, 0xff, 0xff],
        &[0; 100],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3],
    ] {
        let mut raw = TcpStream::connect(port.address()).unwrap();
        let _ = raw.write_all(bytes);
        assert_eq!(get(port.address(), "/healthz"), (200, "ok".to_owned()), "after {bytes:?}");
    }
}

#[test]
fn an_endless_body_is_not_read() {
    let level = Arc::new(AtomicU32::new(0));
    let kept = level.clone();
    let set: crate::pages::SetVerbosity = Arc::new(move |v| kept.store(v, Ordering::Relaxed));
    let port = started(open(), Content { set_verbosity: Some(set), ..Content::default() });
    for path in ["/healthz", "/debug/flags/v"] {
        let mut stream = connect(port.address(), None, "localhost").unwrap();
        let head = format!("PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let (mut sent, piece) = (0, [b'1'; 16 << 10]);
        while sent < 64 << 20 && stream.write_all(&piece).is_ok() {
            sent += piece.len();
        }
        assert!(sent < 64 << 20, "{path}: the connection is closed");
    }
    assert_eq!(level.load(Ordering::Relaxed), 0);
    assert_eq!(get(port.address(), "/healthz"), (200, "ok".to_owned()));
}

#[test]
fn health_checks_are_answered_despite_many_idle_connections() {
    let port = started(open(), Content::default());
    // Opens 1500 silent connections in total. At most about 350 are open at a time, so the test does not run out of
    // file descriptors.
    let mut silent = Vec::new();
    for round in 0..1500 {
        match TcpStream::connect(port.address()) {
            Ok(mut stream) => {
                // Every third connection sends part of a handshake.
                if round % 3 == 0 {
                    let _ = stream.write_all(&[0x16, 3, 1, 0x10]);
                }
                silent.push(stream);
            }
            Err(_) => {
                silent.drain(..silent.len() / 2);
            }
        }
        if round % 250 == 249 {
            assert_eq!(get(port.address(), "/healthz"), (200, "ok".to_owned()), "after {round}");
        }
        if silent.len() > 350 {
            silent.drain(..50);
        }
    }
}

#[tokio::test]
async fn anonymous_http2_clients_are_served_one_request_per_connection() {
    use http_body_util::{BodyExt, Empty};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let port = started(open(), Content::default());
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    accept_every_certificate(&mut config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = tokio::net::TcpStream::connect(port.address()).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), tcp).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::handshake::<_, _, Empty<bytes::Bytes>>(
        TokioExecutor::new(),
        TokioIo::new(stream),
    )
    .await
    .unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get("https://localhost/healthz").body(Empty::new()).unwrap();
    let reply = sender.send_request(request).await.unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), "ok");
    tokio::time::timeout(PATIENCE, connection)
        .await
        .expect("the server closes the connection")
        .unwrap()
        .unwrap();
}
