//! The accept loop, and the handling of one connection.

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    future::pending,
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header, request};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body, Incoming},
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use rustls::pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;

use crate::{
    connections::{Admission, Admitted, Connection, ConnectionTable},
    limits::Limits,
    tls::{HTTP2, TlsSource},
};

/// Body of the response to a request with a head that is too long.
const TOO_LONG: &str = "431 Request Header Fields Too Large";

/// An HTTP server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Name for log lines.
    pub name: &'static str,
    /// Limits of each connection.
    pub limits: Limits,
    /// Limit on the number of connections.
    pub admission: Admission,
    /// TLS; `None` for plain HTTP.
    pub tls: Option<Arc<dyn TlsSource>>,
}

/// The client on the other end of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Certificates that the client presented; empty if there are none or TLS is not used.
    pub certificates: Arc<[CertificateDer<'static>]>,
    /// The client's connection.
    pub connection: Arc<Connection>,
}

type BoxError = Box<dyn Error + Send + Sync>;
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type AnyResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The service of one connection, with its type erased so that the HTTP code is compiled once for all servers.
type AnyService = Box<dyn Fn(Request<Incoming>) -> BoxFuture<'static, AnyResponse> + Send + Sync>;
type AnyServices = dyn Fn(Client) -> AnyService + Send + Sync;

fn erased<S, B>(service: S) -> AnyService
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    Box::new(move |request| {
        let answer = service.call(request);
        Box::pin(async move {
            let Ok(response) = answer.await;
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        })
    })
}

impl Server {
    /// Accepts connections until `stop` resolves, then waits at most [`Limits::grace`] for open requests. Creates a
    /// service for each connection. Returns the number of connections that were still open at the end and were aborted.
    pub async fn run<S, B>(
        self,
        listener: TcpListener,
        service: impl Fn(Client) -> S + Send + Sync + 'static,
        stop: impl Future<Output = ()> + Send,
    ) -> usize
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.run_erased(listener, Arc::new(move |client| erased(service(client))), Box::pin(stop)).await
    }

    async fn run_erased(
        self,
        listener: TcpListener,
        service: Arc<AnyServices>,
        mut stop: BoxFuture<'_, ()>,
    ) -> usize {
        let grace = self.limits.grace;
        let table = Arc::new(ConnectionTable::new(self.admission));
        let server = Arc::new(self);
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                (stream, admitted) = server.accept(&listener, &table) => {
                    let (server, service, stopped) = (server.clone(), service.clone(), stopped.clone());
                    connections.spawn(async move {
                        let connection = admitted.connection.clone();
                        tokio::select! {
                            () = server.secure(stream, &connection, &*service, stopped) => {}
                            () = connection.closed() => tracing::trace!(v = 5, "Closing an idle connection: too many are open"),
                        }
                        drop(admitted);
                    });
                }
                Some(ended) = connections.join_next() => report(&ended),
                () = &mut stop => break,
            }
        }
        drop(listener);
        // Every connection receives this signal.
        let _ = stopping.send(true);
        let deadline = Instant::now() + grace;
        while let Ok(Some(ended)) = timeout_at(deadline, connections.join_next()).await {
            report(&ended);
        }
        connections.len()
    }

    async fn accept(&self, listener: &TcpListener, table: &Arc<ConnectionTable>) -> (TcpStream, Admitted) {
        loop {
            let place = table.place().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(admitted) = table.admit(place) {
                        return (stream, admitted);
                    }
                }
                Err(error) if is_of_one_client(&error) => {}
                // Too many open files, for example.
                Err(error) => {
                    tracing::warn!(server = self.name, err = %error, "A connection cannot be accepted");
                    table.relieve();
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn secure(
        &self,
        stream: TcpStream,
        connection: &Arc<Connection>,
        service: &AnyServices,
        mut stopped: watch::Receiver<bool>,
    ) {
        // Responses are small and clients wait for them. A failure is harmless.
        let _ = stream.set_nodelay(true);
        let client = |certificates| Client { certificates, connection: connection.clone() };
        let Some(tls) = &self.tls else {
            let service = self.limited(service(client(Arc::default())), connection);
            return self.serve_http1(stream, service, connection, stopped).await;
        };
        let local = stream.local_addr().ok().map(|address| address.ip());
        let acceptor = TlsAcceptor::from(tls.config(local));
        let handshake = tokio::select! {
            handshake = timeout(self.limits.handshake, acceptor.accept(stream)) => handshake,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::trace!(v = 5, err = %error, "TLS handshake error"),
            Err(_) => return tracing::trace!(v = 5, "TLS handshake timeout"),
        };
        let session = stream.get_ref().1;
        let is_http2 = session.alpn_protocol() == Some(HTTP2);
        let certificates = session.peer_certificates().unwrap_or_default().to_vec().into();
        let service = self.limited(service(client(certificates)), connection);
        match is_http2 {
            true => self.serve_http2(stream, service, connection, stopped).await,
            false => self.serve_http1(stream, service, connection, stopped).await,
        }
    }

    fn limited(&self, service: AnyService, connection: &Arc<Connection>) -> LimitedService {
        let head_bytes = self.limits.head_bytes.unwrap_or(usize::MAX);
        LimitedService { service, connection: connection.clone(), head_bytes }
    }

    async fn serve_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        service: LimitedService,
        connection: &Arc<Connection>,
        stopped: watch::Receiver<bool>,
    ) {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.limits.head);
        if let Some(bytes) = self.limits.head_bytes {
            // The buffer is twice as long as the limit, so that a head that is only slightly too long gets an answer.
            builder.max_buf_size(2 * bytes);
        }
        let served = builder.serve_connection(TokioIo::new(self.impatient(stream)), service);
        self.until_end(served, connection, stopped).await;
    }

    async fn serve_http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        service: LimitedService,
        connection: &Arc<Connection>,
        stopped: watch::Receiver<bool>,
    ) {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(self.limits.ping)
            .keep_alive_timeout(self.limits.ping)
            .max_concurrent_streams(self.limits.streams);
        if let Some(bytes) = self.limits.head_bytes {
            builder.max_header_list_size(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        if let Some(window) = self.limits.window {
            builder.initial_stream_window_size(window).initial_connection_window_size(window);
        }
        let served = builder.serve_connection(TokioIo::new(self.impatient(stream)), service);
        self.until_end(served, connection, stopped).await;
    }

    /// Wraps a stream so that it fails when the client stops reading.
    fn impatient<S: AsyncRead + AsyncWrite>(&self, stream: S) -> Pin<Box<TimeoutWriter<S>>> {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.limits.stall));
        Box::pin(stream)
    }

    /// Serves a connection until the client closes it, the client is idle for too long, or the server must close it.
    async fn until_end(
        &self,
        served: impl GracefulConnection,
        connection: &Arc<Connection>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut served = pin!(served);
        loop {
            // Errors are caused by the client, which is gone, is too slow, or does not use HTTP.
            tokio::select! {
                _ = served.as_mut() => return,
                () = connection.closing() => break,
                _ = stopped.wait_for(|stopped| *stopped) => break,
                () = self.patience(connection) => {
                    if self.is_idle_too_long(connection) {
                        break;
                    }
                }
            }
        }
        served.as_mut().graceful_shutdown();
        let _ = timeout(self.limits.grace, served).await;
    }

    async fn patience(&self, connection: &Connection) {
        match self.limits.first_request {
            Some(first) => sleep(connection.patience(first, self.limits.head)).await,
            None => pending().await,
        }
    }

    fn is_idle_too_long(&self, connection: &Connection) -> bool {
        let first = self.limits.first_request;
        first.is_some_and(|first| connection.patience(first, self.limits.head).is_zero())
    }
}

/// Refuses requests with heads that are too long, and marks the connection as busy while other requests are answered.
struct LimitedService {
    service: AnyService,
    connection: Arc<Connection>,
    head_bytes: usize,
}

impl fmt::Debug for LimitedService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedService").finish_non_exhaustive()
    }
}

impl Service<Request<Incoming>> for LimitedService {
    type Response = AnyResponse;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<AnyResponse, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (head, body) = request.into_parts();
        if head_bytes(&head) > self.head_bytes {
            return Box::pin(async { Ok(too_long()) });
        }
        let busy = self.connection.busy();
        let answer = (self.service)(Request::from_parts(head, body));
        Box::pin(async move {
            let response = answer.await;
            drop(busy);
            Ok(response)
        })
    }
}

/// Returns the number of bytes of a request head as sent over HTTP/1.1, from the method to the empty line. hyper has
/// already checked the size of heads sent over HTTP/2.
fn head_bytes(head: &request::Parts) -> usize {
    let path = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let first = head.method.as_str().len() + path + "  HTTP/1.1\r\n".len();
    let header = |(name, value): (&header::HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    first + head.headers.iter().map(header).sum::<usize>() + "\r\n".len()
}

fn too_long() -> AnyResponse {
    let body = Full::new(Bytes::from_static(TOO_LONG.as_bytes()));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns true if the error affects only one client.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

fn report(ended: &Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(err = %error, "A connection ended with a panic");
    }
}
