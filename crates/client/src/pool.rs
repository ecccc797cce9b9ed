//! Idle connections to one server over HTTP/1.1.
//!
//! A scheduler sends several requests for each pod, so what a request costs besides the system calls matters: unlike the
//! client of `hyper-util`, the pool spawns a task per connection, not per request.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header::HOST};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use tower::{BoxError, ServiceExt};

use crate::{
    client::{RequestBody, ResponseBody},
    network::Connector,
};

/// Time after which an idle connection is closed. API servers close connections that have been idle for longer.
const IDLE_LIMIT: Duration = Duration::from_secs(90);

/// The connections to a server that are not in use, and the way to make more.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    server: Uri,
    host: HeaderValue,
    connector: Connector,
    idle: Arc<IdleConnections>,
}

impl ConnectionPool {
    /// Returns a pool without connections. `server` has a scheme and a host.
    pub(crate) fn new(server: Uri, connector: Connector, max_idle: usize) -> Self {
        let authority = server.authority().map_or("", |authority| authority.as_str());
        // An authority consists of characters that are valid in a header.
        let host = HeaderValue::try_from(authority).unwrap_or(HeaderValue::from_static(""));
        let idle = Arc::new(IdleConnections { max: max_idle, connections: Mutex::default() });
        Self { server, host, connector, idle }
    }

    /// Sends a request, whose URI is a path. The connection is used again after the body of the response has been read
    /// to its end.
    ///
    /// # Errors
    /// If no connection can be made, or the connection breaks.
    pub(crate) async fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        request.headers_mut().entry(HOST).or_insert_with(|| self.host.clone());
        while let Some(mut connection) = self.idle.take() {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.answered(response, connection)),
                // The server closed the idle connection before it received anything of the request.
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failure.into_error().into()),
                },
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request).await?;
        Ok(self.answered(response, connection))
    }

    async fn connect(&self) -> Result<SendRequest<RequestBody>, BoxError> {
        let stream = self.connector.clone().oneshot(self.server.clone()).await?;
        let (connection, driver) = handshake(stream).await?;
        // If the connection breaks, the request that uses it fails.
        tokio::spawn(driver);
        Ok(connection)
    }

    fn answered(
        &self,
        response: Response<Incoming>,
        connection: SendRequest<RequestBody>,
    ) -> Response<ResponseBody> {
        let lease = Lease { connection, idle: self.idle.clone() };
        response.map(|body| LeasedBody { body, lease: Some(lease) }.boxed_unsync())
    }
}

/// Connections that are not in use; the last one was used most recently.
#[derive(Debug)]
struct IdleConnections {
    max: usize,
    connections: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: SendRequest<RequestBody>,
    since: Instant,
}

impl IdleConnections {
    /// Takes the connection that was used most recently among those that can be used at once.
    fn take(&self) -> Option<SendRequest<RequestBody>> {
        let mut connections = self.connections();
        let is_usable = |idle: &Idle| !idle.connection.is_closed() && idle.since.elapsed() < IDLE_LIMIT;
        let position = connections.iter().rposition(|idle| idle.connection.is_ready() && is_usable(idle));
        let Some(position) = position else {
            connections.retain(is_usable);
            return None;
        };
        let taken = connections.remove(position).connection;
        // The first one has been idle for the longest time.
        if connections.first().is_some_and(|idle| !is_usable(idle)) {
            connections.retain(is_usable);
        }
        Some(taken)
    }

    fn put(&self, connection: SendRequest<RequestBody>) {
        let mut connections = self.connections();
        if connections.len() < self.max {
            connections.push(Idle { connection, since: Instant::now() });
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Idle>> {
        // A panic cannot leave the list inconsistent.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use.
#[derive(Debug)]
struct Lease {
    connection: SendRequest<RequestBody>,
    idle: Arc<IdleConnections>,
}

/// Body of a response, which gives its connection back at its end. If it is dropped earlier, the connection is closed.
#[derive(Debug)]
struct LeasedBody {
    body: Incoming,
    lease: Option<Lease>,
}

impl LeasedBody {
    fn give_back(&mut self) {
        if let Some(Lease { connection, idle }) = self.lease.take() {
            idle.put(connection);
        }
    }
}

impl Body for LeasedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
        if frame.is_none() || self.body.is_end_stream() {
            self.give_back();
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::{TlsOptions, network::connector};

    /// A server that reads a request from every connection, sends `answer`, and goes on unless `closes`.
    struct Server {
        address: String,
        connections: Arc<AtomicUsize>,
    }

    impl Server {
        async fn start(answer: &'static str, closes: bool) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let connections = Arc::<AtomicUsize>::default();
            let count = connections.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(serve(stream, answer, closes));
                }
            });
            Self { address, connections }
        }

        fn pool(&self) -> ConnectionPool {
            let tls = TlsOptions { insecure: true, ..TlsOptions::default() }.client_config().unwrap();
            ConnectionPool::new(self.address.parse().unwrap(), connector(tls, None, false), 8)
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::Relaxed)
        }
    }

    async fn serve(mut stream: TcpStream, answer: &str, closes: bool) {
        let mut request = [0; 4096];
        while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
            stream.write_all(answer.as_bytes()).await.unwrap();
            if closes {
                return;
            }
        }
    }

    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

    fn request() -> Request<RequestBody> {
        Request::get("/path").body(RequestBody::default()).unwrap()
    }

    async fn get(pool: &ConnectionPool) -> Result<Bytes, BoxError> {
        let response = pool.send(request()).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    #[tokio::test]
    async fn a_connection_is_used_again_after_its_response_was_read() {
        let server = Server::start(OK, false).await;
        let pool = server.pool();
        for _ in 0..5 {
            assert_eq!(get(&pool).await.unwrap(), "hi");
        }
        assert_eq!(server.connections(), 1);
    }

    #[tokio::test]
    async fn concurrent_requests_have_their_own_connections() {
        let server = Server::start(OK, false).await;
        let pool = server.pool();
        for _ in 0..2 {
            let (a, b) = tokio::join!(get(&pool), get(&pool));
            assert_eq!((a.unwrap(), b.unwrap()), ("hi".into(), "hi".into()));
        }
        assert_eq!(server.connections(), 2);
    }

    #[tokio::test]
    async fn a_connection_is_not_used_again_if_its_response_was_not_read() {
        let server = Server::start(OK, false).await;
        let pool = server.pool();
        drop(pool.send(request()).await.unwrap());
        assert_eq!(get(&pool).await.unwrap(), "hi");
        assert_eq!(server.connections(), 2);
    }

    #[tokio::test]
    async fn a_connection_that_the_server_closed_is_replaced() {
        let server = Server::start(OK, true).await;
        let pool = server.pool();
        for round in 1..=20 {
            assert_eq!(get(&pool).await.unwrap(), "hi", "round {round}");
            assert_eq!(server.connections(), round);
        }
    }

    #[tokio::test]
    async fn a_response_that_ends_early_is_an_error() {
        let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi", true).await;
        assert!(get(&server.pool()).await.is_err());
    }

    #[tokio::test]
    async fn a_response_without_a_body_frees_the_connection() {
        let server = Server::start("HTTP/1.1 204 No Content\r\n\r\n", false).await;
        let pool = server.pool();
        for _ in 0..3 {
            assert_eq!(get(&pool).await.unwrap(), "");
        }
        assert_eq!(server.connections(), 1);
    }
}
