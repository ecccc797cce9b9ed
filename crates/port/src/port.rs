//! The port: a thread that serves requests until it is stopped.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use harbormaster_client::{ApiClient, ClientError, config::reviewer};
use harbormaster_serve::{Admission, Client, Limits, Server, listen};
use hyper::service::service_fn;
use thiserror::Error;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    authentication::Authenticator,
    authorization::Authorizer,
    chain::Chain,
    cluster::Lookup,
    files::Files,
    options::Options,
    pages::{Content, Site},
    reviews::Reviews,
    tls::Policy,
    token::Tokens,
};

/// Maximum number of connections, which is below the usual limit on open files per process.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of idle connections that each client for reviews keeps open.
const IDLE_CONNECTIONS: usize = 128;

/// The reason why the port cannot be opened.
#[derive(Debug, Error)]
pub enum PortError {
    /// The port is in use, or this machine does not have the address.
    #[error("{}", listening_text(address, source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A flag has an invalid value, or names a file that cannot be used.
    #[error("{0}")]
    Options(String),
    /// A kubeconfig cannot be used.
    #[error("failed to get delegated {purpose} kubeconfig: {source}")]
    Kubeconfig {
        /// `authentication` or `authorization`.
        purpose: &'static str,
        /// The cause.
        source: ClientError,
    },
    /// The configmap with authorities cannot be read, and `--authentication-tolerate-lookup-failure` is off.
    #[error("unable to load configmap based request-header-client-ca-file: {0}")]
    Lookup(String),
    /// The thread or its runtime cannot be started.
    #[error("starting the secure port: {0}")]
    Thread(io::Error),
}

fn listening_text(address: &SocketAddr, source: &io::Error) -> String {
    let text = format!("failed to create listener: failed to listen on {address}: {source}");
    match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{text}; another scheduler may be running here: stop it, choose another port with --secure-port, or turn \
             the port off with --secure-port=0"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("{text}; this machine has no such address: correct --bind-address")
        }
        io::ErrorKind::PermissionDenied => format!("{text}; choose a --secure-port of 1024 or higher"),
        _ => text,
    }
}

/// An open port. Dropping the value closes the port; [`Port::stop`] waits for open requests first.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Port {
    /// Opens the port and returns once it accepts connections. A port of 0 in `options` means any free port.
    ///
    /// Blocks while files are read and, if the configmap with authorities must be read, until the API server has
    /// answered.
    ///
    /// # Errors
    /// If an option, a file or the address cannot be used.
    pub fn start(options: Options, content: Content) -> Result<Self, PortError> {
        // Fails if a default is already set, which is equally good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (stop, stopped) = watch::channel(false);
        let (report, started) = mpsc::sync_channel(1);
        let work = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = report.send(Err(PortError::Thread(error)));
                    return;
                }
            };
            runtime.block_on(async {
                match open(&options, content).await {
                    Ok(port) => {
                        // Fails if the caller is gone; the port is then closed immediately.
                        let _ = report.send(Ok(port.address));
                        port.serve(stopped).await;
                    }
                    Err(error) => {
                        let _ = report.send(Err(error));
                    }
                }
            });
            // This ends the tasks that watch files and the cluster.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("secure-port".to_owned()).spawn(work);
        let thread = thread.map_err(PortError::Thread)?;
        match started.recv() {
            Ok(Ok(address)) => {
                tracing::info!("Serving securely on {address}");
                Ok(Self { address, stop, thread: Some(thread) })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PortError::Thread(io::Error::other("its thread ended unexpectedly"))),
        }
    }

    /// Returns the address that the port listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections and waits a few seconds for open requests. Blocks.
    pub fn stop(mut self) {
        // The thread may already have ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        tracing::info!("[graceful-termination] secure server is exiting");
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// A port that listens.
struct OpenPort {
    server: Server,
    listener: TcpListener,
    address: SocketAddr,
    chain: Arc<Chain>,
}

impl OpenPort {
    /// Answers requests until the port is stopped.
    async fn serve(self, mut stopped: watch::Receiver<bool>) {
        let chain = self.chain;
        let service = move |client: Client| {
            let chain = chain.clone();
            service_fn(move |request| {
                let (chain, client) = (chain.clone(), client.clone());
                async move { Ok::<_, Infallible>(chain.answer(request, &client).await) }
            })
        };
        let stop = async {
            // Dropping the handle also stops the port.
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        self.server.run(self.listener, service, stop).await;
    }
}

async fn open(options: &Options, content: Content) -> Result<OpenPort, PortError> {
    let serving = &options.serving;
    let policy = Policy::new(serving).map_err(PortError::Options)?;
    if let Some(problem) = options.authentication.request_header.problem() {
        return Err(PortError::Options(problem));
    }
    let (files, secured) = Files::open(options, policy).map_err(PortError::Options)?;
    let wanted = SocketAddr::new(serving.bind_address, serving.port);
    let failed = |source| PortError::Listen { address: wanted, source };
    let listener = listen(wanted, serving.share_port).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let secured = Arc::new(secured);

    let (for_tokens, for_access) = clients(options).await?;
    let authorizer = Authorizer::new(&options.authorization, for_access.map(Reviews::new));
    let authorizer = authorizer.map_err(PortError::Options)?;
    let authentication = &options.authentication;
    let (clients_known, proxies_known) = files.has_authorities();
    let all_known = clients_known && proxies_known;
    if !all_known && !authentication.skip_lookup {
        match &for_tokens {
            Some(client) => {
                let mut lookup = Lookup::new(client.clone(), !clients_known, !proxies_known);
                if !authentication.tolerate_lookup_failure {
                    lookup.once(&secured).await.map_err(PortError::Lookup)?;
                }
                tokio::spawn(lookup.follow(secured.clone()));
            }
            None => tracing::warn!(
                "No authentication-kubeconfig provided in order to look up configmap/extension-apiserver-authentication \
                 in kube-system, so client certificate and request-header authentication won't work."
            ),
        }
    }
    tokio::spawn(files.follow(secured.clone()));
    let tokens = for_tokens.map(|client| Tokens::new(Reviews::new(client), authentication.cache_ttl));
    let chain = Chain {
        authenticator: Authenticator::new(secured.trust(), tokens),
        authorizer,
        site: Site::new(content, SystemTime::now()),
    };
    let server = Server {
        name: "secure port",
        limits: limits(serving.max_streams),
        admission: Admission::CloseIdle(MAX_CONNECTIONS),
        tls: Some(secured),
    };
    Ok(OpenPort { server, listener, address, chain: Arc::new(chain) })
}

/// Returns the limits for a connection. Values marked with * are the same as in kube-scheduler.
fn limits(max_streams: u32) -> Limits {
    Limits {
        head: Duration::from_secs(90),                             // *
        first_request: Some(Duration::from_secs(32)),              // *
        streams: if max_streams == 0 { 100 } else { max_streams }, // *
        // A token can be a few thousand bytes long.
        head_bytes: Some(64 << 10),
        // The only body that is read is a number.
        window: Some(64 << 10),
        grace: Duration::from_secs(5), // *
        ..Limits::default()
    }
}

/// Returns the clients for authentication and authorization; `None` without an API server.
async fn clients(options: &Options) -> Result<(Option<ApiClient>, Option<ApiClient>), PortError> {
    let client = async |path: &Option<PathBuf>, purpose| {
        reviewer(path.as_deref(), IDLE_CONNECTIONS)
            .await
            .map_err(|source| PortError::Kubeconfig { purpose, source })
    };
    let (first, second) = (&options.authentication.kubeconfig, &options.authorization.kubeconfig);
    let for_tokens = client(first, "authentication").await?;
    let for_access = match first == second {
        true => for_tokens.clone(),
        false => client(second, "authorization").await?,
    };
    if for_access.is_none() {
        tracing::warn!(
            "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work."
        );
    }
    Ok((for_tokens, for_access))
}
