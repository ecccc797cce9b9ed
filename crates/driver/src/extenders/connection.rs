//! One request to an extender.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use harbormaster_client::{
    Identity, TlsError, TlsOptions,
    client::{JSON, ResponseBody},
    error_chain,
    network::{Connector, Pool, connector},
};
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, timeout_at};

use super::{DEFAULT_TIMEOUT, ExtenderConfig};

/// Length limit of a reply in bytes, in addition to twice the request: a reply has no more nodes than its request.
const LARGEST_REPLY: usize = 64 << 20;

/// `ExtenderTLSConfig`; the `*_data` fields are base64 and win over the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the usual files and data of a TLS client")]
pub struct ExtenderTls {
    pub insecure: bool,
    pub server_name: String,
    pub cert_file: String,
    pub key_file: String,
    pub ca_file: String,
    pub cert_data: String,
    pub key_data: String,
    pub ca_data: String,
}

/// Connections to an extender. They are reused; over HTTPS they use HTTP/2 if the extender supports it, as Go's do.
pub(super) struct Connection {
    /// Without slashes at the end.
    prefix: String,
    limit: Duration,
    pool: Pool,
}

impl Connection {
    pub(super) fn new(config: &ExtenderConfig) -> Result<Self, String> {
        let limit = if config.timeout.is_zero() { DEFAULT_TIMEOUT } else { config.timeout };
        let pool = Pool::new(secure(config)?);
        let prefix = config.extender.name.trim_end_matches('/').to_owned();
        Ok(Self { prefix, limit, pool })
    }

    /// Returns the time limit of a call.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Sends `POST` with JSON to that verb. Returns the reply if its status is 200.
    ///
    /// Redirections are not followed: only the configuration decides who sees pods.
    pub(super) async fn call(&self, verb: &str, body: Bytes) -> Result<Bytes, String> {
        let url = format!("{}/{verb}", self.prefix);
        let failed = |why: &str| format!("Post {url:?}: {why}");
        let address: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(&error.to_string()))?;
        if address.scheme().is_none() || address.host().is_none() {
            return Err(failed("it is no URL of the form http://HOST/PATH or https://HOST/PATH"));
        }
        let largest = LARGEST_REPLY + 2 * body.len();
        let request = Request::builder()
            .method(Method::POST)
            .uri(address)
            .header(header::CONTENT_TYPE, HeaderValue::from_static(JSON))
            .body(Full::new(body))
            .map_err(|error| failed(&error.to_string()))?;
        let deadline = Instant::now() + self.limit;
        let reply = match timeout_at(deadline, self.pool.request(request)).await {
            Ok(reply) => reply.map_err(|error| failed(&error_chain(&*error)))?,
            Err(_) => {
                return Err(failed(
                    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                ));
            }
        };
        if reply.status() != StatusCode::OK {
            let code = reply.status().as_u16();
            return Err(format!("failed {verb} with extender at URL {url}, code {code}"));
        }
        if let Some(encoding) =
            reply.headers().get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity")
        {
            return Err(failed(&format!("the reply is encoded as {encoding:?}, which was not asked for")));
        }
        match timeout_at(deadline, whole(reply.into_body(), largest)).await {
            Ok(read) => read.map_err(|why| failed(&why)),
            Err(_) => Err(failed(
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
            )),
        }
    }
}

/// Reads a reply of at most `largest` bytes. Stops reading a longer one, at once if its length is known.
async fn whole(mut body: ResponseBody, largest: usize) -> Result<Bytes, String> {
    let too_long = || format!("the reply has more than {largest} bytes");
    if body.size_hint().lower() > largest as u64 {
        return Err(too_long());
    }
    let mut read = BlockBuffer::default();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|error| error_chain(&*error))?.into_data() else { continue };
        if read.length + piece.len() > largest {
            return Err(too_long());
        }
        read.push(&piece);
    }
    Ok(read.joined())
}

/// Minimum length of blocks, except for the first ones.
const BLOCK: usize = 1 << 20;

/// A buffer for an unknown number of bytes. Unlike a growing vector, it is never copied into one of twice the size.
#[derive(Debug, Default)]
struct BlockBuffer {
    blocks: Vec<Vec<u8>>,
    length: usize,
}

impl BlockBuffer {
    fn push(&mut self, piece: &[u8]) {
        match self.blocks.last_mut() {
            Some(last) if last.capacity() - last.len() >= piece.len() => last.extend_from_slice(piece),
            _ => {
                let mut block = Vec::with_capacity(piece.len().max(self.length.min(BLOCK)));
                block.extend_from_slice(piece);
                self.blocks.push(block);
            }
        }
        self.length += piece.len();
    }

    fn joined(mut self) -> Bytes {
        if self.blocks.len() == 1 {
            return self.blocks.pop().unwrap_or_default().into();
        }
        let mut all = Vec::with_capacity(self.length);
        self.blocks.into_iter().for_each(|block| all.extend_from_slice(&block));
        all.into()
    }
}

/// Returns a connector with TLS as kube-scheduler configures it.
fn secure(config: &ExtenderConfig) -> Result<Connector, String> {
    let tls = config.tls.clone().unwrap_or_default();
    let authorities = pem(("caData", &tls.ca_data), ("caFile", &tls.ca_file))?;
    let is_https = config.extender.name.starts_with("https:");
    let insecure = tls.insecure || (config.enable_https && authorities.is_none());
    if insecure && authorities.is_some() {
        return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    let chain = pem(("certData", &tls.cert_data), ("certFile", &tls.cert_file))?;
    let key = pem(("keyData", &tls.key_data), ("keyFile", &tls.key_file))?;
    let options = TlsOptions {
        authorities,
        identity: chain.zip(key).map(|(chain, key)| Identity { chain, key }),
        server_name: (!tls.server_name.is_empty()).then(|| tls.server_name.clone()),
        // The system's authorities are read only where they are needed.
        insecure: insecure || !is_https,
    };
    let failed = |error| match error {
        TlsError::NoAuthority | TlsError::Authorities(_) => {
            let field = if tls.ca_data.is_empty() { "caFile" } else { "caData" };
            format!("tlsConfig.{field}: {error}")
        }
        error => format!("tlsConfig: {}", error_chain(&error)),
    };
    let name = options
        .expected_name()
        .map_err(|_| format!("tlsConfig.serverName {:?} is not the name of a server", tls.server_name));
    Ok(connector(options.client_config().map_err(failed)?, name?, true))
}

/// Returns the content of a field in base64, or else of the file that another field names.
fn pem(
    (data_field, data): (&str, &str),
    (file_field, file): (&str, &str),
) -> Result<Option<Vec<u8>>, String> {
    if !data.is_empty() {
        let decoded = BASE64_STANDARD.decode(data);
        return decoded.map(Some).map_err(|error| format!("tlsConfig.{data_field}: {error}"));
    }
    if file.is_empty() {
        return Ok(None);
    }
    let content = std::fs::read(file);
    content.map(Some).map_err(|error| format!("tlsConfig.{file_field} {file}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll},
    };

    use futures_util::{StreamExt, stream};
    use http_body::{Frame, SizeHint};
    use http_body_util::StreamBody;
    use tower::BoxError;

    use super::*;

    const PIECE: usize = 100_000;

    /// A chunked reply, and how many pieces of it were read.
    fn chunked(pieces: usize) -> (ResponseBody, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let count = read.clone();
        let pieces = stream::iter(0..pieces).map(move |at| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, BoxError>(Frame::data(Bytes::from(vec![at as u8; PIECE])))
        });
        (BodyExt::boxed_unsync(StreamBody::new(pieces)), read)
    }

    #[tokio::test]
    async fn a_reply_is_read_up_to_its_limit_and_not_beyond() {
        let (body, read) = chunked(30);
        let reply = whole(body, 30 * PIECE).await.unwrap();
        assert_eq!((reply.len(), read.load(Ordering::Relaxed)), (30 * PIECE, 30));
        assert!(reply.chunks(PIECE).zip(0..).all(|(piece, at)| piece.iter().all(|byte| *byte == at)));
        let (body, read) = chunked(2000);
        assert_eq!(whole(body, 30 * PIECE).await, Err("the reply has more than 3000000 bytes".to_owned()));
        assert_eq!(read.load(Ordering::Relaxed), 31);
    }

    /// A reply that tells its length.
    struct Long(u64, Arc<AtomicUsize>);

    impl Body for Long {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    #[tokio::test]
    async fn of_a_reply_that_tells_that_it_is_too_long_nothing_is_read() {
        let read = Arc::new(AtomicUsize::new(0));
        let reply = async |length| whole(Long(length, read.clone()).boxed_unsync(), 1000).await;
        assert!(reply(1001).await.is_err());
        assert_eq!(read.load(Ordering::Relaxed), 0);
        assert!(reply(1000).await.is_ok());
        assert_eq!(read.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_is_read_takes_little_more_than_its_length() {
        for piece in [1, 10, 16 << 10, 3 << 20] {
            let mut read = BlockBuffer::default();
            while read.length < 8 << 20 {
                read.push(&vec![0; piece]);
            }
            let held = read.blocks.iter().map(Vec::capacity).sum::<usize>();
            assert!(held <= read.length + 2 * BLOCK, "{held} bytes for {} in pieces of {piece}", read.length);
        }
    }
}
