//! Connections: accepted, secured, and answered.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use http::{HeaderValue, Request, StatusCode, header, request};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use rustls::pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    chain::Chain,
    crowd::{Crowd, Member},
    reply::{self, Reply},
    secured::Secured,
    tls::HTTP2,
};

/// How long a client may take for its part of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the head of a client's first request may take. kube-scheduler's number.
const FIRST: Duration = Duration::from_secs(32);
/// How long a connection is kept without a request. kube-scheduler's number.
const IDLE: Duration = Duration::from_secs(90);
/// How long a client that reads nothing is waited for.
const STALL: Duration = Duration::from_secs(30);
/// How long an HTTP/2 client may be silent before it is asked for a sign of life, and may take to give one.
const PING: Duration = Duration::from_secs(30);
/// Requests that an HTTP/2 client may have open at a time. kube-scheduler's number.
const STREAMS: u32 = 100;
/// The longest heads of requests, in bytes: tokens have a few thousand.
const HEAD_BYTES: usize = 64 << 10;
/// Least number of bytes that are read of a head that may be too long. After them the connection ends.
const READ_BYTES: usize = 2 * HEAD_BYTES;
/// The most that an HTTP/2 client may send ahead of being read, in bytes. Nobody has to send more than a number.
const WINDOW: u32 = 64 << 10;
/// How long open requests may take at the end. kube-scheduler's number.
const GRACE: Duration = Duration::from_secs(5);

/// What connections are served with.
pub(crate) struct Server {
    pub(crate) secured: Arc<Secured>,
    pub(crate) chain: Chain,
    pub(crate) max_streams: u32,
    pub(crate) crowd: Arc<Crowd>,
}

impl Server {
    /// Takes connections until `stop` says so, and then lets requests end.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        let told = stop.clone();
        loop {
            tokio::select! {
                stream = self.accept(&listener) => {
                    let Some(admitted) = self.crowd.admit() else { continue };
                    let (server, stop) = (self.clone(), told.clone());
                    connections.spawn(async move {
                        let member = &admitted.member;
                        tokio::select! {
                            () = server.connection(stream, member, stop) => {}
                            () = member.left() => tracing::trace!(v = 5, "Too many connections: one gives way"),
                        }
                    });
                }
                // Their ends are of no interest, but they are not to be kept.
                Some(_) = connections.join_next() => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        drop(listener);
        let deadline = Instant::now() + GRACE;
        while let Ok(Some(_)) = timeout_at(deadline, connections.join_next()).await {}
    }

    async fn accept(&self, listener: &TcpListener) -> TcpStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) if is_of_one_client(&error) => {}
                // Too many open files, for example.
                Err(error) => {
                    tracing::warn!(err = %error, "A connection to the secure port cannot be accepted");
                    self.crowd.dismiss();
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        member: &Arc<Member>,
        stop: watch::Receiver<bool>,
    ) {
        // Answers are small and waited for. It works without as well.
        let _ = stream.set_nodelay(true);
        let own = stream.local_addr().ok().map(|address| address.ip());
        let acceptor = TlsAcceptor::from(self.secured.config_at(own));
        match timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.talk(stream, member, stop).await,
            Ok(Err(error)) => tracing::trace!(v = 5, err = %error, "TLS handshake error"),
            Err(_) => tracing::trace!(v = 5, "TLS handshake timeout"),
        }
    }

    async fn talk(
        self: Arc<Self>,
        stream: TlsStream<TcpStream>,
        member: &Arc<Member>,
        stop: watch::Receiver<bool>,
    ) {
        let session = stream.get_ref().1;
        let is_http2 = session.alpn_protocol() == Some(HTTP2);
        let shown = session.peer_certificates().unwrap_or_default();
        let shown: Arc<[CertificateDer<'static>]> = shown.to_vec().into();
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(STALL));
        let io = TokioIo::new(Box::pin(stream));
        let max_streams = if self.max_streams == 0 { STREAMS } else { self.max_streams };
        let asked = member.clone();
        let service = service_fn(move |request| self.clone().answer(request, shown.clone(), asked.clone()));
        if is_http2 {
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(PING)
                .keep_alive_timeout(PING)
                .max_concurrent_streams(max_streams)
                .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(WINDOW)
                .serve_connection(io, service);
            until_the_end(connection, member, stop).await;
        } else {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(IDLE)
                .max_buf_size(READ_BYTES)
                .serve_connection(io, service);
            until_the_end(connection, member, stop).await;
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        shown: Arc<[CertificateDer<'static>]>,
        member: Arc<Member>,
    ) -> Result<Reply, Infallible> {
        let (head, body) = request.into_parts();
        if head_bytes(&head) > HEAD_BYTES {
            return Ok(too_long());
        }
        Ok(self.chain.answer(Request::from_parts(head, body), &shown, &member).await)
    }
}

/// Number of bytes of a head in HTTP/1, from the method to the empty line. Heads in HTTP/2 have been measured before.
fn head_bytes(head: &request::Parts) -> usize {
    let path = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let first = head.method.as_str().len() + path + "  HTTP/1.1\r\n".len();
    let header = |(name, value): (&header::HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    first + head.headers.iter().map(header).sum::<usize>() + "\r\n".len()
}

/// The end of a connection whose client sends too much.
fn too_long() -> Reply {
    let code = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let mut reply = reply::text(code, "431 Request Header Fields Too Large".to_owned());
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Whether that one connection came to nothing, and nothing is wrong here.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

/// Lasts until the client ends, has been idle for too long, or is told to end.
async fn until_the_end(
    connection: impl GracefulConnection,
    member: &Arc<Member>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    loop {
        let patience = member.patience(FIRST, IDLE);
        // Errors are the client's: it is gone, too slow, or speaks no HTTP.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = member.ending() => break,
            _ = stop.wait_for(|stop| *stop) => break,
            () = sleep(patience) => {
                if member.patience(FIRST, IDLE).is_zero() {
                    break;
                }
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, connection).await;
}
