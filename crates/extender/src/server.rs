//! The server that runs an extender: flags, TLS, limits and shutdown.

use std::{future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::Router;
use clap::Args;
use harbormaster_serve::{Admission, TlsSource};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::{
    extender::Extender,
    routes::{self, Shared},
    tls::Certificate,
};

/// Maximum number of connections. A scheduler opens one connection per concurrent request.
const CONNECTIONS: usize = 1024;
/// Time limit for open requests during shutdown.
const GRACE: Duration = Duration::from_secs(10);

/// Settings of a server, as command-line flags.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Serving {
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8888")]
    pub listen: SocketAddr,
    /// Server certificate (PEM); enables HTTPS instead of HTTP. The file is reloaded when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Certificate authorities for clients (PEM): only clients with a certificate signed by one of them are served.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub client_ca_file: Option<PathBuf>,
    /// Limits on requests.
    #[command(flatten)]
    pub limits: Limits,
}

/// Limits on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct Limits {
    /// Maximum size of a request in bytes. Without nodeCacheCapable, a request contains all nodes, about ten kilobytes
    /// each.
    #[arg(long = "max-request-bytes", value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    pub body_bytes: usize,
    /// Maximum number of requests that are processed concurrently; others wait.
    #[arg(long = "max-requests", value_name = "COUNT", default_value_t = Limits::default().requests, value_parser = at_least_one)]
    pub requests: usize,
    /// Time limit of a request, such as 500ms, 5s or 1m. Schedulers wait 5s by default (`httpTimeout`).
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub request_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 128 << 20, requests: 16, request_timeout: Duration::from_secs(5) }
    }
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 8888)),
            tls_cert_file: None,
            tls_private_key_file: None,
            client_ca_file: None,
            limits: Limits::default(),
        }
    }
}

/// TLS files in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate certificates up to its authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Certificate authorities for clients; if `None`, all clients are served.
    pub client_ca: Option<PathBuf>,
}

/// The reason an extender cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is in use or does not belong to this machine.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A certificate, a key or an authority cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// There is a certificate without a key, a key without a certificate, or a file of client authorities without
    /// either.
    #[error("TLS needs both tls_cert_file and tls_private_key_file")]
    HalfTls,
    /// The extender has no function for any verb.
    #[error(
        "the extender has no verb: give it at least one function with filter, prioritize, preempt or bind"
    )]
    NoVerb,
    /// Two verbs have the same path, or a verb has the path of a page.
    #[error("the path {0} is used twice: give each verb its own path")]
    SamePath(String),
}

impl Serving {
    /// Returns the TLS files, if TLS is configured.
    fn tls_files(&self) -> Result<Option<TlsFiles>, ServeError> {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: self.client_ca_file.clone(),
            })),
            (None, None) if self.client_ca_file.is_none() => Ok(None),
            _ => Err(ServeError::HalfTls),
        }
    }
}

/// An extender that listens for connections. [`Server::run`] answers requests.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    certificate: Option<Arc<Certificate>>,
    tls: Option<Arc<ServerConfig>>,
    shared: Arc<Shared>,
    router: Router,
}

impl Server {
    /// Starts to listen, and reads the certificate if one is configured.
    ///
    /// # Errors
    /// If listening or reading fails, the extender has no verbs, or two verbs have the same path.
    pub async fn bind(extender: Extender, serving: &Serving) -> Result<Self, ServeError> {
        check(&extender)?;
        let certificate = serving.tls_files()?.map(|files| Certificate::open(&files)).transpose();
        let certificate = certificate.map_err(ServeError::Tls)?;
        let config = certificate.as_ref().map(Certificate::server_config).transpose();
        let tls = config.map_err(ServeError::Tls)?.map(Arc::new);
        let failed = |source| ServeError::Listen { address: serving.listen, source };
        let listener = TcpListener::bind(serving.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Shared::new(extender, serving.limits);
        let router = routes::router(&shared);
        Ok(Self { listener, address, certificate, tls, shared, router })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` resolves. Then it accepts no more connections and waits up to ten seconds for open
    /// requests.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        tracing::info!(address = %self.address, scheme, "Serving");
        let follow = self.certificate.clone().map(|certificate| tokio::spawn(certificate.follow()));
        let server = harbormaster_serve::Server {
            name: "extender",
            limits: harbormaster_serve::Limits { grace: GRACE, ..Default::default() },
            admission: Admission::Wait(CONNECTIONS),
            tls: self.tls.map(|config| Arc::new(config) as Arc<dyn TlsSource>),
        };
        let router = self.router;
        let stop = async {
            stop.await;
            self.shared.end();
            if let Some(follow) = follow {
                follow.abort();
            }
        };
        let aborted =
            server.run(self.listener, move |_| TowerToHyperService::new(router.clone()), stop).await;
        if aborted > 0 {
            tracing::warn!("Requests were still open after {GRACE:?}");
        }
    }
}

fn check(extender: &Extender) -> Result<(), ServeError> {
    if extender.handlers.is_empty() {
        return Err(ServeError::NoVerb);
    }
    let mut paths = vec!["/healthz".to_owned(), "/readyz".to_owned(), "/metrics".to_owned()];
    for verb in extender.handlers.keys() {
        let path = extender.path_of(*verb);
        if paths.contains(&path) {
            return Err(ServeError::SamePath(path));
        }
        paths.push(path);
    }
    Ok(())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// Parses a duration above zero, such as `500ms`, `5s` or `1m`, for command-line flags.
///
/// # Errors
/// If the text is invalid; the error contains the expected form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 500ms, 5s or 1m".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(expected)?;
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    let duration = match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    };
    let duration = duration.filter(|duration| duration.as_secs() < 1 << 32).ok_or_else(expected)?;
    if duration.is_zero() { Err("must be longer than zero".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_their_units() {
        for (text, expected) in [
            ("500ms", Some(Duration::from_millis(500))),
            ("5s", Some(Duration::from_secs(5))),
            ("2m", Some(Duration::from_secs(120))),
            ("0s", None),
            ("5", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("5 s", None),
            ("18446744073709551615m", None),
            ("99999999999999999999s", None),
            ("1é", None),
        ] {
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn the_reason_why_an_extender_cannot_be_served_is_returned() {
        let listen = Serving { listen: ([127, 0, 0, 1], 0).into(), ..Serving::default() };
        let bind = async |extender: Extender, serving: &Serving| {
            Server::bind(extender, serving).await.unwrap_err().to_string()
        };
        let binding = || Extender::new().bind(async |_| Ok(()));
        assert!(bind(Extender::new(), &listen).await.contains("no verb"));
        let metrics = binding().path(crate::Verb::Bind, "/metrics");
        assert_eq!(
            bind(metrics, &listen).await,
            "the path /metrics is used twice: give each verb its own path"
        );
        let half = Serving { tls_cert_file: Some("x".into()), ..listen.clone() };
        assert!(bind(binding(), &half).await.contains("both"));
        let missing = Serving {
            tls_private_key_file: Some("/nowhere/y".into()),
            tls_cert_file: Some("/nowhere/x".into()),
            ..listen.clone()
        };
        assert!(bind(binding(), &missing).await.starts_with("TLS: /nowhere/x: No such file"));
        let server = Server::bind(binding(), &listen).await.unwrap();
        let taken = Serving { listen: server.address(), ..listen };
        assert!(bind(binding(), &taken).await.contains("listening on 127.0.0.1:"));
    }
}
