//! Bindings as an outsider sees them.

use std::io::BufRead;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::components::ApiClient;

/// Pods in [`MEASURED`](super::workload::MEASURED) that have a node; one appears
/// in this watch when it is bound.
const BOUND: &str =
    "/api/v1/namespaces/measured/pods?watch=1&timeoutSeconds=3600&fieldSelector=spec.nodeName!%3D";

/// How every line of a new pod begins. Nothing else of it is decoded: the watch
/// must not take the schedulers' processors.
const ADDED: &[u8] = br#"{"type":"ADDED""#;

/// Counts bindings. Its thread ends with the API server.
#[derive(Debug)]
pub(super) struct Watcher(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bindings: Mutex<Vec<Instant>>,
    ended: Mutex<Option<String>>,
    changed: Condvar,
}

impl Watcher {
    /// Watches from now on; no pod of the namespace is bound yet.
    pub(super) fn start(client: &ApiClient) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let stream: Box<dyn BufRead + Send> = Box::new(client.stream(BOUND)?);
        let (writer, client) = (Arc::clone(&shared), client.clone());
        thread::spawn(move || writer.follow(&client, stream));
        Ok(Self(shared))
    }

    /// Waits until `count` pods are bound, as long as one more is within `patience`.
    pub(super) fn wait_for(&self, count: usize, patience: Duration) -> Result<()> {
        let mut bindings = self.0.lock();
        while bindings.len() < count {
            let before = bindings.len();
            let waited = self.0.changed.wait_timeout(bindings, patience);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            bindings = guard;
            if timeout.timed_out() && bindings.len() == before {
                let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let watch = ended.map(|why| format!("; the watch ended: {why}")).unwrap_or_default();
                bail!("{before} of {count} pods are bound, and no other within {patience:?}{watch}");
            }
        }
        Ok(())
    }

    /// When the `index`th pod was bound.
    pub(super) fn binding(&self, index: usize) -> Option<Instant> {
        self.0.lock().get(index).copied()
    }
}

impl Shared {
    /// Reads until the API server is gone. It closes a watch whose reader it finds slow, which on a busy machine is
    /// anyone; the next one goes on where the last ended.
    fn follow(&self, client: &ApiClient, mut stream: Box<dyn BufRead + Send>) {
        let mut last = String::new();
        let ended = loop {
            self.read(&mut stream, &mut last);
            match client.stream(&format!("{BOUND}&resourceVersion={last}")) {
                Ok(next) => stream = Box::new(next),
                Err(error) => break error.to_string(),
            }
        };
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    /// Reads one watch to its end; `last` becomes the resource version of the last object.
    fn read(&self, stream: &mut impl BufRead, last: &mut String) {
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if line.starts_with(ADDED) {
                self.lock().push(Instant::now());
                self.changed.notify_all();
            }
            if let Some(version) = resource_version(&line) {
                last.clear();
                last.push_str(version);
            }
            line.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The resource version of an event's object: the first one of the line.
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
