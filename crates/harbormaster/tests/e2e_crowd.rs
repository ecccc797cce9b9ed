//! The secure port answers and pods are scheduled while thousands of clients are slow on purpose.
//!
//! `HARBORMASTER_CONNECTIONS` sets the number of connections. This process's limit on open files caps that number,
//! which is why this test has its own program.

#![cfg(unix)]

#[path = "it/e2e/mod.rs"]
mod e2e;

use std::{
    env, fs,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, sleep},
    time::{Duration, Instant},
};

use e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound},
    objects::{NODES, PODS, config, node, pod},
    process::Harbormaster,
    server::Server,
};
use harbormaster_oracle::components::{ApiClient, free_ports};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::json;

const CONNECTIONS: usize = 2_000;
/// Number of files that this process needs for other purposes.
const OTHERS: usize = 200;
/// Maximum number of files that the scheduler may have open: the connections that the port keeps at a time, and other
/// files.
const MOST_FILES: usize = 512 + 100;
const THREADS: usize = 4;
/// Shortest interval between two bytes on one connection.
const TRICKLE: Duration = Duration::from_millis(100);
/// Maximum number of closed connections that each thread reopens per round.
const RENEWED: usize = 5;

/// State shared by all slow clients.
struct Crowd {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    stop: AtomicBool,
    opened: AtomicUsize,
    closed: AtomicUsize,
}

/// A slow client.
enum Slow {
    /// Sends nothing.
    Silent(TcpStream),
    /// Sends the first message of a handshake byte by byte.
    Greets { stream: TcpStream, rest: Vec<u8> },
    /// Sends a request byte by byte.
    Asks(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Crowd {
    fn session(&self) -> ClientConnection {
        let name = ServerName::try_from("localhost").expect("localhost is a valid name");
        ClientConnection::new(self.tls.clone(), name).expect("a session begins")
    }

    fn connect(&self, number: usize) -> Option<Slow> {
        let stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let slow = match number % 10 {
            0 => {
                let mut stream = StreamOwned::new(self.session(), stream);
                stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ").ok()?;
                Slow::Asks(Box::new(stream))
            }
            1..=5 => {
                let mut rest = Vec::new();
                self.session().write_tls(&mut rest).ok()?;
                rest.reverse();
                stream.set_nonblocking(true).ok()?;
                Slow::Greets { stream, rest }
            }
            _ => {
                stream.set_nonblocking(true).ok()?;
                Slow::Silent(stream)
            }
        };
        self.opened.fetch_add(1, Ordering::Relaxed);
        Some(slow)
    }

    /// Holds `count` connections open until `stop` is set.
    fn press(&self, count: usize) {
        let mut all: Vec<Option<Slow>> = (0..count).map(|number| self.connect(number)).collect();
        while !self.stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let mut renewed = 0;
            for (number, place) in all.iter_mut().enumerate() {
                if place.as_mut().is_some_and(|slow| !slow.goes_on()) {
                    self.closed.fetch_add(1, Ordering::Relaxed);
                    *place = None;
                }
                if place.is_none() && renewed < RENEWED {
                    renewed += 1;
                    *place = self.connect(number);
                }
            }
            sleep(TRICKLE.saturating_sub(begin.elapsed()));
        }
    }
}

impl Slow {
    /// Sends another byte, unless the client is silent. Returns true if the connection is still open.
    fn goes_on(&mut self) -> bool {
        let is_open = |stream: &mut TcpStream| match stream.read(&mut [0; 64]) {
            Ok(length) => length > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        match self {
            Self::Silent(stream) => is_open(stream),
            Self::Greets { stream, rest } => {
                // The last byte is never sent.
                let next = if rest.len() > 1 { rest.pop() } else { None };
                next.is_none_or(|byte| stream.write_all(&[byte]).is_ok()) && is_open(stream)
            }
            Self::Asks(stream) => stream.write_all(b"a").and_then(|()| stream.flush()).is_ok(),
        }
    }
}

/// Returns the number of files that this process may have open.
fn file_limit() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024)
}

#[test]
fn pods_are_bound_and_health_checks_pass_while_thousands_of_clients_are_slow() {
    let wanted =
        env::var("HARBORMASTER_CONNECTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(CONNECTIONS);
    let connections = wanted.min(file_limit() - OTHERS);
    let cluster = Server::Embedded.own();
    let client = cluster.client();
    client.post(NODES, &node("n", json!({}), "4", "8Gi", 110)).expect("the node is created");

    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate is made");
    let file = |name: &str, text: String| {
        let path = cluster.directory().join(name);
        fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    };
    let (cert_file, key_file) =
        (file("tls.crt", key.cert.pem()), file("tls.key", key.signing_key.serialize_pem()));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(key.cert.der().to_vec())).expect("the certificate is trusted");
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions are known")
        .with_root_certificates(roots)
        .with_no_client_auth();

    let [port] = free_ports().expect("a port is free");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let config = file("config.json", config("crowd").to_string());
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let args = [
        format!("--config={config}"),
        format!("--kubeconfig={kubeconfig}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--tls-cert-file={cert_file}"),
        format!("--tls-private-key-file={key_file}"),
    ];
    let harbormaster = Harbormaster::start(&args, cluster.directory().join("log"));
    // Each request uses a new client, and therefore a new connection.
    let health = || ApiClient::new(&format!("https://{address}"), "").get_text("/healthz");
    eventually("the port is open", PATIENCE, || health().ok());

    let crowd = Crowd {
        address,
        tls: Arc::new(tls),
        stop: AtomicBool::new(false),
        opened: AtomicUsize::new(0),
        closed: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| crowd.press(connections / THREADS));
        }
        // Even if an assertion fails below, the threads must end.
        let _stop = Stop(&crowd.stop);
        eventually("all slow clients have connected", PATIENCE, || {
            (crowd.opened.load(Ordering::Relaxed) >= connections / THREADS * THREADS).then_some(())
        });
        let mut tries = 0;
        for round in 0..20 {
            let name = format!("meanwhile-{round}");
            client
                .post(PODS, &pod(&name, "crowd", json!({"cpu": "10m"}), json!({})))
                .expect("the pod is created");
            wait_until_bound(client, &name);
            eventually("the health check succeeds", PATIENCE, || {
                tries += 1;
                health().ok().filter(|answer| answer == "ok")
            });
            let files = fs::read_dir(format!("/proc/{}/fd", harbormaster.pid()))
                .expect("the scheduler's open files can be listed")
                .count();
            assert!(files <= MOST_FILES, "{files} files are open");
        }
        let (opened, closed) = (crowd.opened.load(Ordering::Relaxed), crowd.closed.load(Ordering::Relaxed));
        eprintln!(
            "{connections} connections: {opened} opened, {closed} closed; 20 answers took {tries} tries"
        );
        // A slow client may displace the connection of a health check once or twice; the kubelet would retry too.
        assert!(tries <= 30, "{tries} tries for 20 answers");
        assert!(closed > 0, "the port keeps fewer connections than were opened");
    });
    drop(crowd);
    assert_eq!(health().ok().as_deref(), Some("ok"));
    harbormaster.ends_well();
}

/// Stops the threads on drop.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
