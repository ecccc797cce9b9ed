//! Events in a response that arrives in chunks: lines in JSON, or messages in protobuf with their lengths before them.

use std::fmt;

use bytes::Bytes;
use harbormaster_client::{client::ResponseBody, error_chain};
use http_body_util::BodyExt;

/// Maximum length of an event, in bytes; etcd limits objects to a few megabytes.
const LONGEST: usize = 64 << 20;
/// Length of the number before a message.
const PREFIX: usize = 4;

/// Splits a body into events. An event within one chunk is not copied; an event that spans chunks is copied once.
pub(crate) struct Events {
    body: ResponseBody,
    is_protobuf: bool,
    /// Beginning of an incomplete event.
    begun: Vec<u8>,
}

impl Events {
    pub(crate) fn new(body: ResponseBody, is_protobuf: bool) -> Self {
        Self { body, is_protobuf, begun: Vec::new() }
    }

    /// Returns true if the events are in protobuf.
    pub(crate) fn is_protobuf(&self) -> bool {
        self.is_protobuf
    }

    /// Waits for the next event. Returns this event and all complete events that arrived with it; `None` at the end. An
    /// incomplete last event is dropped.
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
            let events = match self.is_protobuf {
                true => self.messages(piece)?,
                false => self.lines(piece),
            };
            if self.begun.len() > LONGEST {
                return Err(too_long());
            }
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
    }

    fn lines(&mut self, mut piece: Bytes) -> Vec<Bytes> {
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

    fn messages(&mut self, mut piece: Bytes) -> Result<Vec<Bytes>, String> {
        let mut messages = Vec::new();
        while !piece.is_empty() {
            if self.begun.len() < PREFIX && !(self.begun.is_empty() && piece.len() >= PREFIX) {
                let missing = PREFIX - self.begun.len();
                self.begun.extend_from_slice(&piece.split_to(missing.min(piece.len())));
                if self.begun.len() < PREFIX {
                    break;
                }
            }
            // The first message of a piece is often whole.
            let begun = if self.begun.is_empty() { &piece[..] } else { &self.begun[..] };
            let end = PREFIX + length(begun)?;
            let missing = end - self.begun.len();
            if self.begun.is_empty() && missing <= piece.len() {
                messages.push(piece.split_to(end).slice(PREFIX..));
                continue;
            }
            self.begun.reserve(missing);
            self.begun.extend_from_slice(&piece.split_to(missing.min(piece.len())));
            if self.begun.len() == end {
                messages.push(Bytes::from(std::mem::take(&mut self.begun)).slice(PREFIX..));
            }
        }
        Ok(messages)
    }
}

/// Returns the length of a message from the number before it, which is complete.
fn length(begun: &[u8]) -> Result<usize, String> {
    let length = begun[..PREFIX].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    if length > LONGEST { Err(too_long()) } else { Ok(length) }
}

fn too_long() -> String {
    format!("an event of more than {LONGEST} bytes")
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("begun", &self.begun.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_client::fake_server::{reply, streamed};
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn lines_are_assembled_from_pieces() {
        let pieces = ["on", "e\ntwo\nth", "", "ree\n\nunfinished"].map(String::from).to_vec();
        let mut events = Events::new(streamed(pieces, false).into_body(), false);
        let mut all = Vec::new();
        while let Some(some) = events.next().await.unwrap() {
            all.push(some);
        }
        assert_eq!(all, [vec!["one", "two"], vec!["three"]]);
    }

    fn messages(pieces: &[&[u8]]) -> Result<Vec<Bytes>, String> {
        let mut events = Events::new(reply(200, "").into_body(), true);
        let mut all = Vec::new();
        for piece in pieces {
            all.append(&mut events.messages(Bytes::copy_from_slice(piece))?);
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn messages_are_assembled_from_pieces(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6),
            cuts in prop::collection::vec(1_usize..9, 1..40),
        ) {
            let prefixed = sent.iter().flat_map(|message| {
                [u32::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message.clone()].concat()
            });
            let (body, mut pieces) = (prefixed.collect::<Vec<u8>>(), Vec::new());
            let mut rest = &body[..];
            for cut in cuts.iter().cycle() {
                let (piece, left) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(messages(&pieces).unwrap(), sent.clone());
            prop_assert_eq!(messages(&[&body]).unwrap(), sent);
        }
    }

    #[test]
    fn an_incomplete_message_waits_and_an_enormous_one_is_an_error() {
        assert_eq!(messages(&[&[0, 0, 0, 3, 1, 2]]).unwrap(), Vec::<Bytes>::new());
        assert!(messages(&[&[255, 255], &[255, 255, 1]]).unwrap_err().starts_with("an event of more than"));
    }
}
