//! Listeners, with and without TLS. With TLS a client may use HTTP/2.
//!
//! Over HTTP/2, the server pings idle clients. A client that answers the pings may stop reading a response: the server
//! then produces no more of the response until the client reads again.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use harbormaster_serve::{Admission, Limits, Server, TlsSource};
use hyper_util::service::TowerToHyperService;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{certificate::Certificate, server::ApiServer};

/// Returns the limits for a connection.
fn limits() -> Limits {
    Limits { stall: Duration::from_secs(60), ..Limits::default() }
}

/// A running server. Dropping this value stops the server immediately; [`Running::stop`] waits for open requests.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections, ends watches, and waits a few seconds for other requests.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // Sending fails if the server is already gone.
            let _ = stop.send(());
        }
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApiServer {
    /// Serves requests on a listener, over HTTPS if there is a certificate and over plain HTTP otherwise. Without a
    /// token everyone may do everything, so listen only on loopback.
    ///
    /// # Errors
    /// If the listener has no address, or the certificate cannot be used.
    pub fn serve(&self, listener: TcpListener, tls: Option<&Certificate>) -> io::Result<Running> {
        let address = listener.local_addr()?;
        let tls = tls.map(Certificate::server_config).transpose()?;
        let tls = tls.map(|config| Arc::new(Arc::new(config)) as Arc<dyn TlsSource>);
        let server = Server { name: "API server", limits: limits(), admission: Admission::Unlimited, tls };
        let (stop, stopped) = oneshot::channel();
        let api = self.with_separate_end();
        let router = api.router();
        let stopping = async move {
            // Dropping the handle also stops the server.
            let _ = stopped.await;
            api.end();
        };
        let task = tokio::spawn(async move {
            server.run(listener, move |_| TowerToHyperService::new(router.clone()), stopping).await;
        });
        Ok(Running { address, stop: Some(stop), task })
    }
}
