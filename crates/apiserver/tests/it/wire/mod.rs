//! An HTTP client on raw sockets, so that it can also send invalid requests.

#![allow(dead_code, reason = "each test binary needs only part of this module")]

use std::{io, net::SocketAddr};

use harbormaster_apiserver::{ApiServer, Options, Running};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

pub(crate) const JSON: &str = "application/json";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Starts a server on its own socket.
pub(crate) async fn serve(options: Options) -> (ApiServer, Running) {
    let server = ApiServer::new(options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let running = server.serve(listener, None).unwrap();
    (server, running)
}

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A connection over which a client sends one request after another.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::with_capacity(64 << 10, stream) }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl AsRef<[u8]>,
    ) -> Answer {
        self.try_send(method, path, content_type, body.as_ref()).await.unwrap()
    }

    pub(crate) async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> io::Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.write(&[head.as_bytes(), body].concat()).await?;
        self.answer(method == "HEAD").await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, JSON, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, JSON, object.to_string()).await
    }

    pub(crate) async fn patch(&mut self, path: &str, kind: &str, patch: &Value) -> Answer {
        self.send("PATCH", path, &format!("application/{kind}+json"), patch.to_string()).await
    }

    /// Reads the response to a request that was written.
    pub(crate) async fn answer(&mut self, without_body: bool) -> io::Result<Answer> {
        let (code, framing) = self.head().await?;
        let mut body = Vec::new();
        match framing {
            _ if without_body || code < 200 => {}
            Framing::Chunks => while self.chunk(&mut body).await? {},
            Framing::Length(length) => {
                body.resize(length, 0);
                self.stream.read_exact(&mut body).await?;
            }
        }
        Ok(Answer { code, body })
    }

    /// Reads the head of a response and returns the status code. The connection cannot be used afterwards.
    pub(crate) async fn code(&mut self) -> io::Result<u16> {
        Ok(self.head().await?.0)
    }

    async fn head(&mut self) -> io::Result<(u16, Framing)> {
        let status = self.line().await?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code =
            code.filter(|_| status.starts_with("HTTP/1.")).ok_or_else(|| io::Error::other(status.clone()))?;
        let mut framing = Framing::Length(0);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            match line.split_once(": ") {
                _ if line.is_empty() => return Ok((code, framing)),
                Some(("content-length", length)) => {
                    framing = Framing::Length(length.parse().map_err(io::Error::other)?);
                }
                Some(("transfer-encoding", "chunked")) => framing = Framing::Chunks,
                Some(_) => {}
                None => return Err(io::Error::other(line)),
            }
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(line.to_owned())
    }

    /// Appends a chunk to `to`. Returns false if it was the last chunk.
    async fn chunk(&mut self, to: &mut Vec<u8>) -> io::Result<bool> {
        let length = usize::from_str_radix(&self.line().await?, 16).map_err(io::Error::other)?;
        let start = to.len();
        to.resize(start + length, 0);
        self.stream.read_exact(&mut to[start..]).await?;
        self.line().await?;
        Ok(length > 0)
    }

    /// Starts a watch. Returns once the head of its response has been read.
    pub(crate) async fn watch(mut self, path: &str) -> Lines {
        self.write(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let (code, framing) = self.head().await.unwrap();
        assert!(code == 200 && matches!(framing, Framing::Chunks), "{code} {path}");
        // Reads only one event ahead, so that the client stops reading if the test takes no events.
        let (sender, events) = mpsc::channel(1);
        Lines { events, reader: tokio::spawn(self.lines(sender)) }
    }

    async fn lines(mut self, to: mpsc::Sender<Value>) {
        let mut buffer = Vec::new();
        while self.chunk(&mut buffer).await.unwrap() {
            let mut read = 0;
            while let Some(length) = buffer[read..].iter().position(|byte| *byte == b'\n') {
                let event = serde_json::from_slice(&buffer[read..read + length]).unwrap();
                if to.send(event).await.is_err() {
                    return;
                }
                read += length + 1;
            }
            buffer.drain(..read);
        }
        assert!(buffer.is_empty(), "half an event at the end");
    }
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Length(usize),
    Chunks,
}

/// The events of a watch.
#[derive(Debug)]
pub(crate) struct Lines {
    events: mpsc::Receiver<Value>,
    reader: JoinHandle<()>,
}

impl Lines {
    /// Returns the next event, or `None` if the watch ended properly.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        if let Some(event) = self.events.recv().await {
            return Some(event);
        }
        (&mut self.reader).await.unwrap();
        None
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Writes bytes and reads until the server closes the connection.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
