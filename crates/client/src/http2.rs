//! One connection over HTTP/2, which carries all watches and requests.
//!
//! It uses `h2` without the layers of an HTTP client above it: the scheduler has one server, and a client with a pool of
//! connections takes two more tasks and twenty more allocations for each request.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::{
    Ping, PingPong, RecvStream,
    client::{Builder, Connection, SendRequest},
};
use http::{Request, Response, Uri, Version, uri::Scheme};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};
use tower::{BoxError, ServiceExt};

use crate::{
    body::RequestBody,
    client::ResponseBody,
    error::error_chain,
    network::{Connector, PING_AFTER, PING_LIMIT},
};

/// Number of bytes that the server may send before they are read: of one response, and of all together.
const WINDOWS: (u32, u32) = (2 << 20, 5 << 20);
/// Maximum number of bytes of requests that wait to be sent.
const SEND_BUFFER: usize = 1 << 20;

/// The connection to a server, made when it is needed. Clones share it.
#[derive(Clone)]
pub(crate) struct Http2(Arc<Inner>);

struct Inner {
    connector: Connector,
    link: Mutex<Link>,
    /// Held while a connection is made, so that only one is made. Contains the error of the last try.
    dialing: tokio::sync::Mutex<String>,
    /// Number of tries that have failed.
    failures: AtomicU64,
}

#[derive(Clone, Default)]
enum Link {
    /// No connection yet, or a broken one.
    #[default]
    Down,
    Up(Sender),
    /// The server has no HTTP/2.
    Unsupported,
}

#[derive(Clone)]
struct Sender {
    /// Number of the connection.
    number: u64,
    requests: SendRequest<Bytes>,
}

impl fmt::Debug for Http2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2").finish_non_exhaustive()
    }
}

impl Http2 {
    /// Returns a connection that `connector` makes.
    pub(crate) fn new(connector: Connector) -> Self {
        let (link, dialing, failures) = Default::default();
        Self(Arc::new(Inner { connector, link, dialing, failures }))
    }

    /// Sends a request. Returns it if the server has no HTTP/2.
    pub(crate) async fn request(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Result<Response<ResponseBody>, Request<RequestBody>>, BoxError> {
        let is_secure = request.uri().scheme() == Some(&Scheme::HTTPS);
        // A connection may have broken while nobody used it. Nothing has been sent over it, so a new one may be tried.
        let mut sender = match is_secure {
            true => self.sender(request.uri(), None).await?,
            false => None,
        };
        if let Some(tried) = sender.as_mut()
            && let Err(error) = std::future::poll_fn(|cx| tried.requests.poll_ready(cx)).await
        {
            tracing::debug!(err = %error, "The connection to the API server has ended");
            let broken = tried.number;
            sender = self.sender(request.uri(), Some(broken)).await?;
        }
        match sender {
            Some(sender) => send(sender.requests, request).await.map(Ok),
            None => Ok(Err(request)),
        }
    }

    /// Returns a sender on a connection that is not the broken one; `None` if the server has no HTTP/2.
    async fn sender(&self, server: &Uri, broken: Option<u64>) -> Result<Option<Sender>, BoxError> {
        let usable = |link: Link| match link {
            Link::Up(sender) if Some(sender.number) != broken => Some(Some(sender)),
            Link::Unsupported => Some(None),
            Link::Up(_) | Link::Down => None,
        };
        if let Some(sender) = usable(self.0.link().clone()) {
            return Ok(sender);
        }
        let failures = self.0.failures.load(Ordering::Relaxed);
        let mut failed = self.0.dialing.lock().await;
        if let Some(sender) = usable(self.0.link().clone()) {
            return Ok(sender);
        }
        // Otherwise, requests that wait for a server that is away would try one after the other, for seconds each.
        if self.0.failures.load(Ordering::Relaxed) != failures {
            return Err(failed.clone().into());
        }
        match self.dial(server).await {
            Ok(requests) => {
                let sender =
                    requests.map(|requests| Sender { number: broken.unwrap_or_default() + 1, requests });
                *self.0.link() = sender.clone().map_or(Link::Unsupported, Link::Up);
                Ok(sender)
            }
            Err(error) => {
                *failed = error_chain(&*error);
                self.0.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Makes a connection. Returns `None` if the server has no HTTP/2.
    async fn dial(&self, server: &Uri) -> Result<Option<SendRequest<Bytes>>, BoxError> {
        let io = self.0.connector.clone().oneshot(server.clone()).await?;
        if !io.connected().is_negotiated_h2() {
            return Ok(None);
        }
        let (requests, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_send_buffer_size(SEND_BUFFER)
            .handshake(TokioIo::new(io))
            .await?;
        tokio::spawn(drive(connection));
        Ok(Some(requests))
    }
}

impl Inner {
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a connection until it ends, or until the server does not answer a ping in time. Then all its streams break.
async fn drive<T: AsyncRead + AsyncWrite + Unpin>(mut connection: Connection<T>) {
    let pings = connection.ping_pong();
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(err = %error, "The connection to the API server has broken");
            }
        }
        () = silence(pings) => tracing::debug!("The API server does not answer pings"),
    }
}

/// Pings the server now and then. Returns when it does not answer in time.
async fn silence(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(PING_AFTER).await;
        match timeout(PING_LIMIT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection notices for itself that it is broken.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

async fn send(
    mut requests: SendRequest<Bytes>,
    request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, BoxError> {
    let (mut head, body) = request.into_parts();
    head.version = Version::HTTP_2;
    let data = body.checked()?;
    let (response, mut rest) = requests.send_request(Request::from_parts(head, ()), data.is_none())?;
    if let Some(data) = data {
        rest.send_data(data, true)?;
    }
    Ok(response.await?.map(|body| Incoming(body).boxed_unsync()))
}

/// The body of a response.
struct Incoming(RecvStream);

impl Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match ready!(self.0.poll_data(cx)) {
            Some(Ok(data)) => {
                // An error means that the stream has ended, which is noticed next.
                let _ = self.0.flow_control().release_capacity(data.remaining());
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            // Kubernetes sends no trailers.
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, time::Duration};

    use rcgen::CertifiedKey;
    use rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        time::sleep,
    };
    use tokio_rustls::{TlsAcceptor, server::TlsStream};

    use super::*;
    use crate::{ApiClient, ConnectionConfig, Overrides};

    /// Starts a server that speaks these protocols over TLS. `serve` serves each of its connections.
    async fn server<F>(
        protocols: &[&str],
        serve: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static,
    ) -> SocketAddr
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(stream) = acceptor.accept(stream).await {
                    tokio::spawn(serve(stream));
                }
            }
        });
        address
    }

    async fn client(server: SocketAddr) -> ApiClient {
        let overrides = Overrides { insecure: true, ..Overrides::default() };
        let config = ConnectionConfig {
            master: Some(format!("https://{server}")),
            overrides,
            ..ConnectionConfig::default()
        };
        config.client(1).await.unwrap()
    }

    /// Answers one request over HTTP/2 with its path, and closes the connection.
    async fn answer_one(stream: TlsStream<TcpStream>) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        let path = request.uri().path().to_owned();
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        body.send_data(path.into(), true).unwrap();
        connection.graceful_shutdown();
        while connection.accept().await.is_some() {}
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_is_replaced() {
        let client = client(server(&["h2"], answer_one).await).await;
        for path in ["/a", "/b", "/c"] {
            assert_eq!(client.get(path).await.unwrap(), path);
            // The end of the connection arrives after the answer.
            sleep(Duration::from_millis(100)).await;
        }
    }

    #[tokio::test]
    async fn a_server_without_http2_is_asked_over_http1() {
        let serve = async |mut stream: TlsStream<TcpStream>| {
            let mut request = [0; 1024];
            while let Ok(length @ 1..) = stream.read(&mut request).await {
                assert!(request[..length].starts_with(b"GET /"));
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            }
        };
        let client = client(server(&["http/1.1"], move |stream| Box::pin(serve(stream))).await).await;
        for _ in 0..2 {
            assert_eq!(client.get("/x").await.unwrap(), "ok");
        }
    }

    #[tokio::test]
    async fn requests_that_wait_for_a_connection_share_its_failure() {
        let tries = std::sync::Arc::new(AtomicU64::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(listener.local_addr().unwrap()).await;
        let counted = tries.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                // The other requests are waiting when this try fails.
                sleep(Duration::from_millis(200)).await;
                drop(stream);
            }
        });
        let (a, b, c) = tokio::join!(client.get("/a"), client.get("/b"), client.get("/c"));
        assert!([a, b, c].into_iter().all(|answer| answer.is_err()));
        assert_eq!(tries.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn requests_at_the_same_time_share_a_connection() {
        let serve = |stream| async {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut waiting = Vec::new();
            while let Some(Ok((_, respond))) = connection.accept().await {
                waiting.push(respond);
                if waiting.len() == 3 {
                    for mut respond in waiting.drain(..) {
                        respond.send_response(http::Response::new(()), true).unwrap();
                    }
                }
            }
        };
        let client = client(server(&["h2"], serve).await).await;
        let (a, b, c) = tokio::join!(client.get("/a"), client.get("/b"), client.get("/c"));
        assert!([a, b, c].into_iter().all(|answer| answer.unwrap().is_empty()));
    }
}
