//! Listening on a socket, with and without TLS. With TLS a client may have HTTP/2.
//!
//! Over HTTP/2, a silent client is pinged; as long as it answers, a response that it does not read yet waits, and is not
//! produced.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use harbormaster_serve::{Admission, Limits, Server, TlsSource};
use hyper_util::service::TowerToHyperService;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{certificate::Certificate, server::ApiServer};

/// Limits of a connection.
fn limits() -> Limits {
    Limits { stall: Duration::from_secs(60), ..Limits::default() }
}

/// A server that listens. Dropping it ends it at once; [`Running::stop`] waits for requests.
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

    /// Accepts no more connections, ends watches, and waits a few seconds for other requests.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // It is gone already if nobody listens.
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
    /// Serves on a listener, over HTTPS if there is a certificate and over plain HTTP otherwise. Without a token
    /// everybody may do everything: listen on loopback.
    ///
    /// # Errors
    /// If the listener has no address, or the certificate cannot be used.
    pub fn serve(&self, listener: TcpListener, tls: Option<&Certificate>) -> io::Result<Running> {
        let address = listener.local_addr()?;
        let tls = tls.map(Certificate::server_config).transpose()?;
        let tls = tls.map(|config| Arc::new(Arc::new(config)) as Arc<dyn TlsSource>);
        let server = Server { name: "API server", limits: limits(), admission: Admission::Unlimited, tls };
        let (stop, stopped) = oneshot::channel();
        let api = self.with_an_end_of_its_own();
        let router = api.router();
        let stopping = async move {
            // It stops when its handle is gone, too.
            let _ = stopped.await;
            api.end();
        };
        let task = tokio::spawn(async move {
            server.run(listener, move |_| TowerToHyperService::new(router.clone()), stopping).await;
        });
        Ok(Running { address, stop: Some(stop), task })
    }
}
