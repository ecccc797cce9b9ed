//! Connections that are read in large pieces.
//!
//! TLS asks for 4 KiB at a time, so without a buffer, each record of a list would take several system calls, and a watch
//! event of more than 4 KiB two.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::TcpStream,
};

/// Maximum number of bytes that are read at once. A TLS record has at most 16 KiB of content.
const PIECE: usize = 32 << 10;

/// A TCP connection with a buffer for reading.
#[derive(Debug)]
pub struct WideTcp(BufReader<TcpStream>);

impl WideTcp {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(BufReader::with_capacity(PIECE, stream))
    }
}

impl Connection for WideTcp {
    fn connected(&self) -> Connected {
        self.0.get_ref().connected()
    }
}

impl AsyncRead for WideTcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for WideTcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn all_bytes_arrive_in_both_directions_in_pieces_of_any_size() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sent: Vec<u8> = (0..3 * PIECE + 7).map(|at| at as u8).collect();
        let (mut here, mut there) = {
            let (here, there) =
                tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
            (WideTcp::new(here.unwrap()), there.unwrap().0)
        };
        let (send, receive) = (sent.clone(), sent.len());
        let echo = tokio::spawn(async move {
            let mut received = vec![0; receive];
            there.read_exact(&mut received).await.unwrap();
            there.write_all(&received).await.unwrap();
        });
        here.write_all(&send).await.unwrap();
        here.flush().await.unwrap();
        let (mut received, mut size) = (Vec::new(), 1);
        while received.len() < sent.len() {
            let mut piece = vec![0; size];
            let read = here.read(&mut piece).await.unwrap();
            received.extend_from_slice(&piece[..read]);
            size = (size * 3) % (2 * PIECE) + 1;
        }
        echo.await.unwrap();
        assert!(received == sent);
        assert_eq!(here.read(&mut [0]).await.unwrap(), 0, "the other side has closed the connection");
    }
}
