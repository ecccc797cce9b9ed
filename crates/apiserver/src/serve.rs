//! Listening on a socket, with and without TLS.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{certificate::Certificate, server::ApiServer};

/// How long a client may take for its part of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long open requests may take at the end.
const GRACE: Duration = Duration::from_secs(5);

/// A server that listens. It ends with this value, at once; [`Running::stop`] lets requests end first.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, ends watches, and waits a few seconds for other requests.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // It is gone already if nobody listens.
            let _ = stop.send(());
        }
        if timeout(GRACE, &mut self.task).await.is_err() {
            self.task.abort();
        }
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
    /// When the listener has no address, or the certificate cannot be used.
    pub fn serve(&self, listener: TcpListener, tls: Option<&Certificate>) -> io::Result<Running> {
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = self.with_watches_of_its_own();
        let router = server.router();
        let until = async move {
            // A handle that is dropped is a wish to stop as well.
            let _ = stopped.await;
            server.end_watches();
        };
        let task = match tls {
            None => {
                let listener = Plain { listener };
                tokio::spawn(async move {
                    report(axum::serve(listener, router).with_graceful_shutdown(until).await);
                })
            }
            Some(certificate) => {
                let listener = Secure::new(listener, certificate.server_config()?, address);
                tokio::spawn(async move {
                    report(axum::serve(listener, router).with_graceful_shutdown(until).await);
                })
            }
        };
        Ok(Running { address, stop: Some(stop), task })
    }
}

fn report(ended: io::Result<()>) {
    if let Err(error) = ended {
        tracing::error!(err = %error, "The API server has ended");
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and waited for. It works without as well.
                let _ = stream.set_nodelay(true);
                return (stream, peer);
            }
            // Too many open files, for example: that passes.
            Err(error) => {
                tracing::warn!(err = %error, "A connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Plain {
    listener: TcpListener,
}

impl axum::serve::Listener for Plain {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        accept(&self.listener).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Connections after their handshakes, which go on side by side: one slow client holds up nobody.
struct Secure {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Secure {
    fn new(listener: TcpListener, config: ServerConfig, address: SocketAddr) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (sender, ready) = mpsc::channel(64);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, peer) = accept(&listener).await;
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        // The server has ended if nobody takes it.
                        let _ = sender.send((stream, peer)).await;
                    }
                });
            }
        });
        Self { ready, address, accepting }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for Secure {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The accepting task ends with this value only.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
