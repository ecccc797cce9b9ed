//! Reads response bodies of limited size, whose length may not be known in advance.

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;

use crate::{client::ResponseBody, error::error_chain};

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
