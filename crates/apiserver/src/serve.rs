//! Listening on a socket, with and without TLS. With TLS a client may have HTTP/2.
//!
//! What a client does or does not do costs its own connection and nobody else's: handshakes, heads of requests, bodies
//! and answers that are not read all have their time. Over HTTP/2 a client that is silent is asked for a sign of life; as
//! long as it gives one, an answer that it does not want to have yet waits, without being made.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{JoinError, JoinHandle, JoinSet},
    time::timeout,
};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;

use crate::{
    certificate::{Certificate, HTTP2},
    server::ApiServer,
};

/// How long a client may take for its part of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the head of a request may take, and how long a connection is kept without one. Clients give up idle
/// connections after 90 s; it is better that they do it than that a request meets a closed connection.
const HEAD: Duration = Duration::from_secs(120);
/// How long a client that reads nothing is waited for.
const STALL: Duration = Duration::from_secs(60);
/// How long an HTTP/2 client may be silent before it is asked for a sign of life, and may take to give one.
const PING: Duration = Duration::from_secs(30);
/// Requests that an HTTP/2 client may have open at a time, as for kube-apiserver.
const STREAMS: u32 = 100;
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
        let tls = tls.map(Certificate::server_config).transpose()?;
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(self.with_an_end_of_its_own(), listener, tls, stopped));
        Ok(Running { address, stop: Some(stop), task })
    }
}

/// Takes connections until it is told to stop. Connections end with this future.
async fn run(
    server: ApiServer,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            stream = accept(&listener) => {
                connections.spawn(connection(server.clone(), stream, tls.clone()));
            }
            Some(ended) = connections.join_next() => report(&ended),
            _ = &mut stopped => break,
        }
    }
    drop(listener);
    server.end();
    while let Some(ended) = connections.join_next().await {
        report(&ended);
    }
}

fn report(ended: &Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(err = %error, "A connection has ended with a panic");
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Too many open files, for example: that passes.
            Err(error) => {
                tracing::warn!(err = %error, "A connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(server: ApiServer, stream: TcpStream, tls: Option<TlsAcceptor>) {
    // Answers are small and waited for. It works without as well.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return talk(server, stream).await };
    let mut ending = server.ending();
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE, tls.accept(stream)) => shaken,
        _ = ending.wait_for(|ending| *ending) => return,
    };
    let Ok(Ok(stream)) = shaken else { return };
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP2) => talk_at_once(server, stream).await,
        _ => talk(server, stream).await,
    }
}

/// HTTP/1.1: answers requests one after the other.
async fn talk(server: ApiServer, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
    let service = TowerToHyperService::new(server.router());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(impatient(stream)), service);
    until_the_end(&server, connection).await;
}

/// HTTP/2: answers requests as they come.
async fn talk_at_once(server: ApiServer, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
    let service = TowerToHyperService::new(server.router());
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(STREAMS)
        .serve_connection(TokioIo::new(impatient(stream)), service);
    until_the_end(&server, connection).await;
}

/// A stream that breaks when its client reads nothing.
fn impatient<S: AsyncRead + AsyncWrite>(stream: S) -> Pin<Box<TimeoutWriter<S>>> {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(STALL));
    Box::pin(stream)
}

/// Lasts until the client or the server ends.
async fn until_the_end(server: &ApiServer, connection: impl GracefulConnection) {
    let mut ending = server.ending();
    let mut connection = std::pin::pin!(connection);
    // Errors are the client's: it is gone, too slow, or speaks no HTTP.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|ending| *ending) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
