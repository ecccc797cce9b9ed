//! Bodies of requests, and reading of response bodies of limited size, whose length may not be known in advance.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tower::BoxError;

use crate::{client::ResponseBody, error::error_chain, gate::WriteGate};

/// Body of a request, which is sent as one piece.
///
/// A body with a gate fails if the gate is closed when the body is about to be sent. Without its body, the request has no
/// effect.
#[derive(Clone, Debug, Default)]
pub struct RequestBody {
    data: Option<Bytes>,
    gate: Option<Arc<dyn WriteGate>>,
}

impl RequestBody {
    /// Returns the same body, which is sent only while `gate` is open.
    #[must_use]
    pub(crate) fn behind(self, gate: Option<Arc<dyn WriteGate>>) -> Self {
        Self { gate, ..self }
    }
}

impl RequestBody {
    /// Returns the data, to be sent at once.
    ///
    /// # Errors
    /// If the gate is closed; the error is the gate's reason.
    pub(crate) fn checked(self) -> Result<Option<Bytes>, BoxError> {
        match self.gate.filter(|gate| !gate.is_open()) {
            Some(gate) => Err(gate.reason().into()),
            None => Ok(self.data),
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(data: Bytes) -> Self {
        Self { data: (!data.is_empty()).then_some(data), gate: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let closed = self.gate.as_ref().filter(|gate| !gate.is_open());
        if let Some(gate) = closed {
            return Poll::Ready(Some(Err(gate.reason().into())));
        }
        Poll::Ready(self.data.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

/// Reads a body of at most `largest` bytes. Stops reading a longer body at the limit, or reads none of it if its length
/// is known in advance.
///
/// # Errors
/// If the body is too long or cannot be read; the error contains the reason.
pub async fn whole(mut body: ResponseBody, largest: usize) -> Result<Bytes, String> {
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

/// Minimum capacity of a new block, once the buffer contains this many bytes. Until then, a new block has room for at
/// least as many bytes as the buffer contains.
const BLOCK: usize = 1 << 20;

/// A buffer for an unknown number of bytes. Unlike a growing vector, it never copies its content into an allocation of
/// twice the size.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{StreamExt, stream};
    use http::Request;
    use http_body_util::StreamBody;
    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;
    use crate::{
        network::{Pool, connector},
        tls::TlsOptions,
    };

    const PIECE: usize = 100_000;

    #[derive(Debug)]
    struct Closed;

    impl WriteGate for Closed {
        fn is_open(&self) -> bool {
            false
        }

        fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::ready(()))
        }

        fn reason(&self) -> &'static str {
            "closed"
        }
    }

    #[tokio::test]
    async fn of_a_request_behind_a_closed_gate_nothing_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/x", listener.local_addr().unwrap());
        let tls = TlsOptions { insecure: true, ..TlsOptions::default() }.client_config().unwrap();
        let pool = Pool::new(connector(tls, None, false));
        let body = RequestBody::from(Bytes::from_static(b"{}")).behind(Some(Arc::new(Closed)));
        let (sent, received) =
            tokio::join!(pool.request(Request::post(address).body(body).unwrap()), async {
                let mut received = Vec::new();
                listener.accept().await.unwrap().0.read_to_end(&mut received).await.unwrap();
                received
            });
        assert!(error_chain(&*sent.unwrap_err()).ends_with("closed"));
        assert_eq!(received, b"");
    }

    /// Returns a chunked reply and the number of its pieces that have been read.
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
    async fn a_reply_is_read_up_to_the_limit_and_no_further() {
        let (body, read) = chunked(30);
        let reply = whole(body, 30 * PIECE).await.unwrap();
        assert_eq!((reply.len(), read.load(Ordering::Relaxed)), (30 * PIECE, 30));
        assert!(reply.chunks(PIECE).zip(0..).all(|(piece, at)| piece.iter().all(|byte| *byte == at)));
        let (body, read) = chunked(2000);
        assert_eq!(whole(body, 30 * PIECE).await, Err("the reply has more than 3000000 bytes".to_owned()));
        assert_eq!(read.load(Ordering::Relaxed), 31);
    }

    /// A reply whose length is known in advance.
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
    async fn a_reply_that_is_known_to_be_too_long_is_not_read() {
        let read = Arc::new(AtomicUsize::new(0));
        let reply = async |length| whole(Long(length, read.clone()).boxed_unsync(), 1000).await;
        assert!(reply(1001).await.is_err());
        assert_eq!(read.load(Ordering::Relaxed), 0);
        assert!(reply(1000).await.is_ok());
        assert_eq!(read.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_capacity_of_the_buffer_exceeds_its_content_by_at_most_two_blocks() {
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
