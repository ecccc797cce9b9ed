//! Lines of a response that arrives in chunks.

use std::fmt;

use bytes::Bytes;
use harbormaster_client::{client::ResponseBody, error_chain};
use http_body_util::BodyExt;

/// Maximum length of a line, in bytes; etcd limits objects to a few megabytes.
const LONGEST: usize = 64 << 20;

/// Splits a body into lines. A line within one chunk is not copied; a line that spans chunks is copied once.
pub(crate) struct Lines {
    body: ResponseBody,
    /// Beginning of an incomplete line.
    begun: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(body: ResponseBody) -> Self {
        Self { body, begun: Vec::new() }
    }

    /// Waits for the next line. Returns this line and all complete lines that arrived with it; `None` at the end. An
    /// incomplete last line is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, String> {
        loop {
            let piece = match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error_chain(&*error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    Err(_trailers) => continue,
                },
            };
            let lines = self.split(piece);
            if self.begun.len() > LONGEST {
                return Err(format!("a line of more than {LONGEST} bytes"));
            }
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
    }

    fn split(&mut self, mut piece: Bytes) -> Vec<Bytes> {
        let mut lines = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', &piece) {
            let mut line = piece.split_to(end + 1);
            line.truncate(end);
            if !self.begun.is_empty() {
                self.begun.extend_from_slice(&line);
                line = std::mem::take(&mut self.begun).into();
            }
            if !line.trim_ascii().is_empty() {
                lines.push(line);
            }
        }
        self.begun.extend_from_slice(&piece);
        lines
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("begun", &self.begun.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_client::fake_server::streamed;

    use super::*;

    #[tokio::test]
    async fn lines_are_assembled_from_pieces() {
        let pieces = ["on", "e\ntwo\nth", "", "ree\n\nunfinished"].map(String::from).to_vec();
        let mut lines = Lines::new(streamed(pieces, false).into_body());
        let mut all = Vec::new();
        while let Some(some) = lines.next().await.unwrap() {
            all.push(some);
        }
        assert_eq!(all, [vec!["one", "two"], vec!["three"]]);
    }
}
