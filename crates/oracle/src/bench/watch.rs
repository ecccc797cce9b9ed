//! Reading a watch line by line.

use std::io::BufRead;

use anyhow::Result;

use crate::components::ApiClient;

/// A watch that is restarted when the API server closes it.
pub(super) struct Watch {
    client: ApiClient,
    query: String,
    /// Version of the last object; empty at the start of a watch that begins with the existing objects.
    version: String,
    stream: Box<dyn BufRead + Send>,
}

impl Watch {
    /// Starts a watch that begins with the existing objects. `query` must already contain a `?`, because further
    /// parameters are appended to it.
    pub(super) fn start(client: &ApiClient, query: &str) -> Result<Self> {
        let stream = Box::new(client.stream(query)?);
        Ok(Self { client: client.clone(), query: query.to_owned(), version: String::new(), stream })
    }

    /// Starts a watch of the changes after a resource version.
    pub(super) fn start_after(client: &ApiClient, query: &str, version: &str) -> Result<Self> {
        let stream = Box::new(client.stream(&format!("{query}&resourceVersion={version}"))?);
        Ok(Self { client: client.clone(), query: query.to_owned(), version: version.to_owned(), stream })
    }

    /// Calls `handle` for every line until the API server can no longer be reached, and returns the error. If the API
    /// server closes the watch, a new watch continues where the last one ended. The API server closes the watches of
    /// slow readers, and on a busy machine any reader may be slow.
    pub(super) fn read(mut self, mut handle: impl FnMut(&[u8])) -> String {
        loop {
            self.read_one(&mut handle);
            match self.client.stream(&format!("{}&resourceVersion={}", self.query, self.version)) {
                Ok(next) => self.stream = Box::new(next),
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Reads one watch to its end and remembers the resource version of the last object.
    fn read_one(&mut self, handle: &mut impl FnMut(&[u8])) {
        let mut line = Vec::new();
        while self.stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            handle(&line);
            if let Some(version) = resource_version(&line) {
                version.clone_into(&mut self.version);
            }
            line.clear();
        }
    }
}

/// The resource version of an event's object: the first one in the line.
fn resource_version(line: &[u8]) -> Option<&str> {
    const KEY: &[u8] = br#""resourceVersion":""#;
    let start = line.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let length = line[start..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&line[start..start + length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_version_of_an_event_is_found_without_decoding_it() {
        let line =
            br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p","resourceVersion":"42"}}}"#;
        assert_eq!(resource_version(line), Some("42"));
        assert_eq!(resource_version(br#"{"type":"BOOKMARK"}"#), None);
    }
}
